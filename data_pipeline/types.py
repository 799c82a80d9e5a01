"""What describes a corpus, and what is read of it: the types that flow from corpora to manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from asr.base.units import Unit
from asr.base.work import OnProgress

UNREADABLE_AUDIO = "audio that cannot be read"  # why a recording is left out, in any corpus
SPLITS = ("train", "dev", "test")  # a corpus may have more, such as LibriSpeech's test_other


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as its corpus has it: neither measured nor labelled yet.

    Attributes:
        id: unique within the corpus.
        audio_path: any file that libsndfile reads; it need not be there, preparing finds out.
        text: what is said, as the corpus writes it.
        speaker: who says it; empty when unknown.
        tokens: the corpus's own labels; empty where labels are made from the text.
        begin_s: where it begins in the file, in seconds.
        end_s: where it ends in the file; None for the file's end.
    """

    id: str
    audio_path: str
    text: str
    speaker: str = ""
    tokens: tuple[str, ...] = ()
    begin_s: float = 0.0
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What cannot be used, and why.

    Attributes:
        what: the file, the line (`path:number`) or the id.
        reason: a few words that are the same for all of a kind, so that they can be counted:
            "audio without a transcript".
        detail: what is particular to this one; may be empty.
    """

    what: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a corpus module found.

    Attributes:
        splits: recordings by split; SPLITS, and others that the corpus has. A corpus without splits of
            its own puts all under "all": preparing cuts it.
        left_out: what the corpus's own files already rule out.
    """

    splits: Mapping[str, Sequence[Recording]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()


@dataclass(frozen=True, slots=True)
class Archive:
    """A file to download.

    Attributes:
        url: where it is.
        md5: as published, in hexadecimal; empty where none is.
    """

    url: str
    md5: str = ""


@dataclass(frozen=True)
class Corpus:
    """How a corpus is known, fetched and read.

    Attributes:
        read: (source, target, on_progress) -> what is there; writes audio below `target / "audio"` where
            it must. Raises UserError where the folder does not hold this corpus, saying what was expected.
        about: one line on what it holds.
        language: "zh", "en", or "" where it depends.
        units: what its text is cut into unless the user says otherwise.
        hours: of audio; 0 where it depends.
        size_gb: to download; 0 where it depends.
        licence: by its SPDX name where it has one.
        address: of its home page.
        archives: what `asr download` fetches; empty where the user has to (after accepting terms).
        layout: what the folder must hold, for lists and for errors: "data_thchs30/{data,train,dev,test}".
        needs_source: False for a corpus that the project carries.
    """

    read: Callable[[Path, Path, OnProgress], Reading]
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


Corpora: TypeAlias = Mapping[str, Corpus]
