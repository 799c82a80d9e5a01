"""Match recordings with their transcripts by name."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from data_pipeline.corpora.layout import plain_spaces, text_lines
from data_pipeline.types import CorpusReading, LeftOut, Recording, split_rank

NO_TRANSCRIPT = "audio without a transcript"
NO_AUDIO = "transcript without audio"
UNREADABLE_TRANSCRIPT = "unreadable transcript"
EMPTY = "empty transcript"
DUPLICATE_ID = "duplicate id"
DUPLICATE_TRANSCRIPT = "duplicate transcript"
CONFLICTING = "conflicting transcripts"


@dataclass(frozen=True, slots=True)
class ClipFile:
    """The audio file of a recording.

    Attributes:
        path: of the audio; its name without the suffix is the recording's id.
        split: that it belongs to; "all" in a corpus without splits.
        speaker: if the file or folder name gives it.
    """

    path: Path
    split: str = "all"
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class TextLine:
    """The transcript of one recording.

    Attributes:
        id: of the recording.
        text: what is said.
        where: `path:number` of the line.
        speaker: if the line gives it.
    """

    id: str
    text: str
    where: str
    speaker: str = ""


def lines_of_table(path: Path) -> Iterator[TextLine]:
    """Yield the transcripts of a table with an id, white space and the text on each line.

    Raises:
        UserError: the file cannot be read.
    """
    for number, line in text_lines(path):
        name, *text = line.split(maxsplit=1)
        yield TextLine(name, plain_spaces("".join(text)), f"{path}:{number}")


def match(
    clips: Iterable[ClipFile], lines: Iterable[TextLine], left_out: Iterable[LeftOut] = ()
) -> CorpusReading:
    """Match every clip with its transcript, split by split; either without the other is left out.

    Of two transcripts for one recording the second is left out if they are equal, both if they differ. Of two
    clips of one name one is used, in a split for testing if either is.

    Args:
        clips: audio files found.
        lines: their transcripts.
        left_out: what was left out before.
    """
    line_of, unmatched = _lines_by_id(lines)
    splits: dict[str, list[Recording]] = {}
    named = [(unicodedata.normalize("NFC", clip.path.stem), clip) for clip in clips]
    used: dict[str, ClipFile] = {}
    for name, clip in sorted(named, key=lambda pair: split_rank(pair[1].split)):
        used.setdefault(name, clip)
    for name, clip in named:
        line = line_of.get(name)
        if clip is not used[name]:
            unmatched.append(LeftOut(str(clip.path), DUPLICATE_ID, f"{used[name].path} is used"))
        elif line is None:
            unmatched.append(LeftOut(str(clip.path), NO_TRANSCRIPT))
        elif line.text:
            recording = Recording(name, str(clip.path), line.text, line.speaker or clip.speaker)
            splits.setdefault(clip.split, []).append(recording)
    unmatched += [LeftOut(line.where, NO_AUDIO, name) for name, line in line_of.items() if name not in used]
    return CorpusReading(splits, [*unmatched, *left_out])


def _lines_by_id(lines: Iterable[TextLine]) -> tuple[dict[str, TextLine], list[LeftOut]]:
    """Return lines by id; an empty line, or one in conflict with another, is left out with an empty text."""
    line_of: dict[str, TextLine] = {}
    left_out: list[LeftOut] = []
    for line in lines:
        line = dataclasses.replace(line, id=unicodedata.normalize("NFC", line.id))
        first = line_of.setdefault(line.id, line)
        if first is line:
            if not line.text:
                left_out.append(LeftOut(line.where, EMPTY, line.id))
        elif line.text == first.text:
            left_out.append(LeftOut(line.where, DUPLICATE_TRANSCRIPT, line.id))
        else:
            left_out += [LeftOut(both.where, CONFLICTING, line.id) for both in (first, line) if both.text]
            line_of[line.id] = TextLine(line.id, "", first.where)
    return line_of, left_out


def require_recordings(reading: CorpusReading, source: Path, layout: str) -> CorpusReading:
    """Return the reading if it has any recording.

    Raises:
        UserError: there is no recording; the message lists what was found instead.
    """
    if any(reading.splits.values()):
        return reading
    by_reason = {item.reason: item for item in reversed(reading.left_out)}  # the first of each reason
    found = "".join(f"\n  {item.what}: {item.reason}" for item in by_reason.values())
    raise UserError(
        f"{source}: no recording with a transcript below this folder; expected {layout}"
        + (f"; found instead:{found}" if found else "")
    )
