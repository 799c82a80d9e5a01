"""A take: a recording of a sentence by a speaker, and its line in the journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from data_pipeline.collection.journal import Fields

AUDIO = "audio"  # folder of the recordings


@dataclass(frozen=True)
class Take:
    """A recording of a sentence.

    Attributes:
        speaker: name.
        prompt: id.
        audio: path of the recording, relative to the folder.
        duration_s: of the recording.
        text: of the sentence.
        tokens: its labels.
        problems: why it was to be recorded again, where the speaker kept it nevertheless.
        checked: number of the line in the journal that has the verdict of a model, or the speaker's own; 0
            for none.
        in_doubt: whether something else may have been said.
        differences: that a model found between what was said and the sentence; they remain with a take that
            its speaker accepts.
        judge: the run whose model looked for them; empty for the model `general`, or none.
        accepted: whether the speaker said that the take is right.
    """

    speaker: str
    prompt: str
    audio: str
    duration_s: float
    text: str
    tokens: tuple[str, ...]
    problems: tuple[Fields, ...] = ()
    checked: int = 0
    in_doubt: bool = False
    differences: tuple[Fields, ...] = ()
    judge: str = ""
    accepted: bool = False

    @property
    def id(self) -> str:
        """Return an id that no other take of the corpus has."""
        return f"{self.speaker}-{self.prompt}"

    @property
    def number(self) -> int:
        """Return which take of the sentence it is, from 1."""
        return int(PurePosixPath(self.audio).stem.rpartition("-")[2])

    def as_row(self) -> dict[str, Any]:
        """Return the line of the take in the journal, which is one of a manifest with more keys."""
        return {
            "id": self.id,
            "audio": self.audio,
            "duration_s": round(self.duration_s, 4),
            "text": self.text,
            "tokens": " ".join(self.tokens),
            "speaker": self.speaker,
            "prompt": self.prompt,
            **({"problems": list(self.problems)} if self.problems else {}),
        }

    @classmethod
    def of_row(cls, row: Fields) -> Take:
        """Return what `as_row` made; raise KeyError, TypeError or ValueError for anything else."""
        audio = PurePosixPath(row["audio"])
        if audio.parts[:1] != (AUDIO,) or ".." in audio.parts:
            raise ValueError(f"expected a path below {AUDIO}, received {row['audio']!r}")
        return cls(
            str(row["speaker"]),
            str(row["prompt"]),
            str(audio),
            float(row["duration_s"]),
            str(row["text"]),
            tuple(str(row["tokens"]).split()),
            tuple(row.get("problems", ())),
        )
