"""Define the types that describe a corpus and what was read of it, on the way to manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from asr.base.text.units import Unit
from asr.base.types import MachineLabel
from asr.base.work import OnProgress

# reasons for leaving a recording out, in any corpus
UNREADABLE_AUDIO = "unreadable audio"
NO_SUCH_AUDIO = "no such audio file"
WAV_GB_PER_HOUR = 3600 * 16_000 * 2 / 1e9  # at 16 kHz and 16 bits
SPLITS = ("train", "dev", "test")  # a corpus may have more, such as LibriSpeech's test_other


def split_rank(split: str) -> tuple[bool, bool]:
    """Return the place of a split: test splits first, then others, train last."""
    return split == "train", not split.startswith("test")


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as its corpus gives it, not measured and not labelled yet.

    Attributes:
        id: unique within the corpus.
        audio_path: any file that `asr.audio.recording.read_audio` reads; preparation checks that it exists.
        text: the transcript as the corpus writes it.
        speaker: empty if unknown.
        tokens: the corpus's own labels; empty if labels are made from the text.
        begin_s: begin within the file, in seconds.
        end_s: end within the file, in seconds; None for the file's end.
        missing: where the file was looked for, and what to do; empty if it is there, or nobody looked.
        labelled_by: the model that made text and tokens; None where people did.
    """

    id: str
    audio_path: str
    text: str
    speaker: str = ""
    tokens: tuple[str, ...] = ()
    begin_s: float = 0.0
    end_s: float | None = None
    missing: str = field(default="", compare=False)
    labelled_by: MachineLabel | None = None

    @property
    def where(self) -> str:
        """Return the file, with the times of a recording within it."""
        if not self.begin_s and self.end_s is None:
            return self.audio_path
        end = "its end" if self.end_s is None else f"{self.end_s:g}"
        return f"{self.audio_path} ({self.begin_s:g} to {end} s)"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What cannot be used, and why.

    Attributes:
        what: the file, the line (`path:number`) or the id.
        reason: a few words that are the same for all such cases, so that they can be counted:
            "audio without a transcript".
        detail: specific to this case; may be empty.
    """

    what: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CorpusReading:
    """What a corpus module found.

    Attributes:
        splits: recordings by split: SPLITS, and others that the corpus has. A corpus without splits puts
            all recordings under "all", and preparation splits them.
        left_out: what the corpus's own files already exclude.
        language: as the corpus names it, such as zh-HK; "" if it does not.
        notes: lines for display on how it was read, where a user should know or may object.
    """

    splits: Mapping[str, Sequence[Recording]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    language: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Archive:
    """A file to download.

    Attributes:
        url: of the file.
        md5: as published, in hexadecimal; empty if none is published.
    """

    url: str
    md5: str = ""


@dataclass(frozen=True)
class Corpus:
    """A corpus, and how to download and read it.

    Attributes:
        read: (source, target, on_progress) -> recordings; writes audio below `target / "audio"` if needed.
            Raises a UserError that states what was expected if the folder does not hold this corpus.
        about: one line on its content.
        language: "zh", "en", or "" if it varies.
        units: of its labels unless the user chooses others.
        hours: of audio; 0 if it varies.
        size_gb: to download; 0 if it varies.
        licence: its SPDX name if it has one.
        address: of its home page.
        archives: what `asr download` fetches; empty if users must download it themselves (and accept terms).
        layout: what the folder must hold, for lists and for errors: "data_thchs30/{data,train,dev,test}".
        needs_source: False for a corpus bundled with the project.
        packed_twice: whether its archives hold archives, which preparation unpacks.
        is_flac: whether its recordings are compressed, so that unpacking adds little.
    """

    read: Callable[[Path, Path, OnProgress], CorpusReading]
    about: str
    language: str = ""
    units: Unit = "syllables"
    hours: float = 0.0
    size_gb: float = 0.0
    licence: str = ""
    address: str = ""
    archives: tuple[Archive, ...] = ()
    layout: str = ""
    needs_source: bool = True
    packed_twice: bool = False
    is_flac: bool = False

    @property
    def disk_gb(self) -> float:
        """Return about how much its archives and their contents take on disk."""
        unpacked_gb = self.size_gb if self.is_flac else max(self.size_gb, self.hours * WAV_GB_PER_HOUR)
        return self.size_gb + unpacked_gb + (self.size_gb if self.packed_twice else 0.0)


Corpora: TypeAlias = Mapping[str, Corpus]
