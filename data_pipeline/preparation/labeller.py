"""Label the recordings of a corpus: by its makers' labels, or from its text."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from asr.base.errors import UserError
from asr.base.text.latin import with_spoken_digits
from asr.base.text.units import MANDARIN_UNITS, MIXED_WORDS, Unit
from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.from_text import CAN_BE_NORMALIZED, ReadingPolicy, label, label_all
from data_pipeline.labels.normalization import Normalizer, has_short_forms
from data_pipeline.labels.readings.tones import Tones
from data_pipeline.labels.readings.user_table import UserTable
from data_pipeline.labels.syllable_spelling import syllables_of
from data_pipeline.preparation.description import LabelsDescription
from data_pipeline.preparation.learned_units import PieceUnits, split_units
from data_pipeline.types import LeftOut, Recording

AT_ONCE = 256  # recordings, whose texts are read together

TextWithLabels: TypeAlias = tuple[str, tuple[str, ...] | UnlabelledError]


@dataclass(frozen=True)
class ReadingOptions:
    """The making of syllables from text.

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
class Labeller:
    """The labelling of a corpus.

    Attributes:
        units: of the labels.
        labels_given: whether labels that recordings have already are kept.
        reading: how syllables are made from text.
        policy: the same with the table loaded.
        normalizer: writes out what cannot be labelled as written; None to leave it out.
        pieces: by which the labels of all recordings together are replaced; None to keep them.
    """

    units: Unit
    labels_given: bool
    reading: ReadingOptions
    policy: ReadingPolicy
    normalizer: Normalizer | None = None
    pieces: PieceUnits | None = None

    @classmethod
    def of(cls, units: str | None, usual: Unit, reading: ReadingOptions) -> Labeller:
        """Return how a corpus is labelled.

        Args:
            units: chosen by the user; None for the labels that recordings have, else the usual ones.
            usual: units of the corpus.
            reading: how syllables are made from text.

        Raises:
            UserError: there are no such units, the table of readings is broken, or the package that
                normalizes is not installed.
        """
        chosen, pieces = ("mixed", None) if units == MIXED_WORDS else split_units(units)
        normalizer = Normalizer() if reading.normalize else None
        return cls(chosen or usual, units is None, reading, reading.policy(), normalizer, pieces)

    def in_language_of(self, recordings: Iterable[Recording]) -> Labeller:
        """Return one whose normalizer reads numbers alone in the language of these recordings."""
        if self.normalizer is None:
            return self
        normalizer = self.normalizer.in_language_of(recording.text for recording in recordings)
        return dataclasses.replace(self, normalizer=normalizer)

    def description(self, recordings: Sequence[Recording]) -> LabelsDescription | None:
        """Return how the syllables of recordings are made from text; None if none is.

        Raises:
            UserError: none is, though something about it was chosen.
        """
        if self.units in MANDARIN_UNITS and not all(self._keeps(recording) for recording in recordings):
            return LabelsDescription.of(self.reading.tones, self.reading.readings)
        if self.reading not in (ReadingOptions(), ReadingOptions(normalize=True)):
            received = str(self.pieces or self.units) if self.units != "syllables" else "the corpus's own"
            raise UserError(
                f"`tones` and `readings` are for syllables made from text, but the labels are {received}; "
                "leave these options out, or choose `units=syllables`"
            )
        return None

    def label_all(self, recordings: Iterable[Recording]) -> Iterator[Recording | LeftOut]:
        """Yield each recording with its labels, its text as spoken if that was needed, or why it has none."""
        source = iter(recordings)
        while some := list(itertools.islice(source, AT_ONCE)):
            to_read = [recording for recording in some if not self._keeps(recording)]
            # the manifest has what is said, so that the text and its labels fit
            spoken_digits = with_spoken_digits if self.units == "mixed" else str
            texts = {one.text: spoken_digits(one.text) for one in to_read}
            if self.normalizer is not None:
                texts = {
                    text: self.normalizer.if_known(spoken) if has_short_forms(spoken) else spoken
                    for text, spoken in texts.items()
                }
            labels = label_all(list(texts.values()), self.units, self.policy)
            labelled = dict(zip(texts, zip(texts.values(), labels, strict=True), strict=True))
            for recording in some:
                yield self._labelled(recording, labelled)

    def _labelled(self, recording: Recording, labelled: Mapping[str, TextWithLabels]) -> Recording | LeftOut:
        text = recording.text
        try:
            if not self._keeps(recording):
                text, tokens = self._normalized(*labelled[text])
            elif self.units == "syllables":
                tokens = syllables_of(" ".join(recording.tokens))
            else:
                tokens = recording.tokens
        except UnlabelledError as error:
            return LeftOut(recording.where, error.reason, error.detail)
        except UserError as error:
            return LeftOut(recording.where, "invalid syllable labels", str(error))
        return dataclasses.replace(recording, text=text, tokens=tokens)

    def _normalized(
        self, text: str, labels: tuple[str, ...] | UnlabelledError
    ) -> tuple[str, tuple[str, ...]]:
        """Return a text with its labels; it is normalized if it has signs that are read aloud."""
        if not isinstance(labels, UnlabelledError):
            return text, labels
        if self.normalizer is None or labels.reason not in CAN_BE_NORMALIZED:
            raise labels
        text = self.normalizer(text)
        return text, label(text, self.units, self.policy)

    def _keeps(self, recording: Recording) -> bool:
        return self.labels_given and bool(recording.tokens)
