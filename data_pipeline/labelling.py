"""Label the recordings of a corpus: by its makers' labels, or from its text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.types import UserError
from asr.base.units import Unit
from data_pipeline.corpora.syllables import syllables_of
from data_pipeline.labels import CAN_BE_NORMALIZED, ReadingPolicy, label
from data_pipeline.normalization import Normalizer
from data_pipeline.prepared import LabelsDescription
from data_pipeline.readings.tones import Tones
from data_pipeline.readings.user_table import UserTable
from data_pipeline.types import LeftOut, Recording
from data_pipeline.unlabelled import UnlabelledError

DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Reading:
    """Says how syllables are made from text.

    Attributes:
        tones: "citation" for those of the dictionary, "spoken" for those of fluent speech.
        readings: path of the user's own table, which wins over everything (see `UserTable`); None for none.
        normalize: whether digits and signs are written out, for labels in any units.
    """

    tones: Tones = "citation"
    readings: Path | None = None
    normalize: bool = False

    def policy(self) -> ReadingPolicy:
        """Return the policy, with the table loaded.

        Raises:
            UserError: the table cannot be read, or a line of it is broken.
        """
        return ReadingPolicy(self.tones, UserTable.load(self.readings) if self.readings else None)


@dataclass(frozen=True)
class Labelling:
    """Labels the recordings of a corpus.

    Attributes:
        units: of the labels.
        labels_given: whether labels that recordings have already are kept.
        reading: how syllables are made from text.
        policy: the same with the table loaded.
        normalizer: writes out what cannot be labelled as written; None to leave it out.
    """

    units: Unit
    labels_given: bool
    reading: Reading
    policy: ReadingPolicy
    normalizer: Normalizer | None = None

    @classmethod
    def of(cls, units: Unit | None, usual: Unit, reading: Reading) -> Labelling:
        """Return how a corpus is labelled.

        Args:
            units: chosen by the user; None for the labels that recordings have, else the usual ones.
            usual: units of the corpus.
            reading: how syllables are made from text.

        Raises:
            UserError: the table of readings is broken, or the package that normalizes is not installed.
        """
        normalizer = Normalizer() if reading.normalize else None
        return cls(units or usual, units is None, reading, reading.policy(), normalizer)

    def description(self, recordings: Sequence[Recording]) -> LabelsDescription | None:
        """Return how the syllables of recordings are made from text; None if none is.

        Raises:
            UserError: none is, though something about it was chosen.
        """
        if self.units == "syllables" and not all(self._keeps(recording) for recording in recordings):
            return LabelsDescription.of(self.reading.tones, self.reading.readings)
        if self.reading not in (Reading(), Reading(normalize=True)):
            received = self.units if self.units != "syllables" else "the corpus's own"
            raise UserError(
                f"`tones` and `readings` are for syllables made from text, but the labels are {received}; "
                "leave these options out, or choose `units=syllables`"
            )
        return None

    def label(self, recording: Recording) -> Recording | LeftOut:
        """Return a recording with its labels, its text as spoken if that was needed, or why it has none."""
        text = recording.text
        try:
            if not self._keeps(recording):
                text, tokens = self._labelled(text)
            elif self.units == "syllables":
                tokens = syllables_of(" ".join(recording.tokens))
            else:
                tokens = recording.tokens
        except UnlabelledError as error:
            return LeftOut(recording.audio_path, error.reason, error.detail)
        except UserError as error:
            return LeftOut(recording.audio_path, "invalid syllable labels", str(error))
        return dataclasses.replace(recording, text=text, tokens=tokens)

    def _labelled(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a text with its labels; it is normalized if it has digits, or signs that are read aloud."""
        if self.normalizer and DIGIT.search(text):
            text = self.normalizer(text)
        try:
            return text, label(text, self.units, self.policy)
        except UnlabelledError as error:
            if self.normalizer is None or error.reason not in CAN_BE_NORMALIZED:
                raise
        text = self.normalizer(text)
        return text, label(text, self.units, self.policy)

    def _keeps(self, recording: Recording) -> bool:
        return self.labels_given and bool(recording.tokens)
