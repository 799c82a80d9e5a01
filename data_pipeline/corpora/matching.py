"""Recordings and the lines that say what is said in them, brought together by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.types import UserError
from data_pipeline.corpora.layout import plain_spaces, text_lines
from data_pipeline.types import LeftOut, Reading, Recording

NO_TRANSCRIPT = "audio without a transcript"
NO_AUDIO = "transcript without audio"
UNREADABLE_TRANSCRIPT = "a transcript that cannot be read"
EMPTY = "empty transcript"
TOLD_TWICE = "a second transcript that says the same"
CONTRADICTED = "transcripts that contradict each other"


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording's file, as it was found.

    Attributes:
        path: of the audio; its name without the ending is the recording's id.
        split: that it belongs to; "all" in a corpus without splits.
        speaker: who speaks, where file or folder tell it.
    """

    path: Path
    split: str = "all"
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """What is said in one recording, as it was found.

    Attributes:
        id: of the recording.
        text: what is said.
        where: the line stands, for whoever looks it up: `path:number`.
        speaker: who speaks, where the line tells it.
    """

    id: str
    text: str
    where: str
    speaker: str = ""


def lines_of_table(path: Path) -> Iterator[Line]:
    """Lines of one file for all: an id, white space, and what is said.

    Raises:
        UserError: the file cannot be read.
    """
    for number, line in text_lines(path):
        name, *text = line.split(maxsplit=1)
        yield Line(name, plain_spaces("".join(text)), f"{path}:{number}")


def match(clips: Iterable[Clip], lines: Iterable[Line], left_out: Iterable[LeftOut] = ()) -> Reading:
    """Every clip with its line, split by split; whatever has no counterpart is left out.

    Two lines about one recording: the second is left out if it says the same, both if it does not.

    Args:
        clips: recordings that are there.
        lines: what is said in them.
        left_out: what was left out before.
    """
    line_of, unmatched = _one_each(lines)
    splits: dict[str, list[Recording]] = {}
    heard = set()
    for clip in clips:
        name = clip.path.stem
        heard.add(name)
        line = line_of.get(name)
        if line is None:
            unmatched.append(LeftOut(str(clip.path), NO_TRANSCRIPT))
        elif line.text:
            recording = Recording(name, str(clip.path), line.text, line.speaker or clip.speaker)
            splits.setdefault(clip.split, []).append(recording)
    unmatched += [LeftOut(line.where, NO_AUDIO, name) for name, line in line_of.items() if name not in heard]
    return Reading(splits, [*unmatched, *left_out])


def _one_each(lines: Iterable[Line]) -> tuple[dict[str, Line], list[LeftOut]]:
    """Lines by id; one that says nothing or contradicts another is left out, and its text is empty."""
    line_of: dict[str, Line] = {}
    left_out: list[LeftOut] = []
    for line in lines:
        first = line_of.setdefault(line.id, line)
        if first is line:
            if not line.text:
                left_out.append(LeftOut(line.where, EMPTY, line.id))
        elif line.text == first.text:
            left_out.append(LeftOut(line.where, TOLD_TWICE, line.id))
        else:
            left_out += [LeftOut(both.where, CONTRADICTED, line.id) for both in (first, line) if both.text]
            line_of[line.id] = Line(line.id, "", first.where)
    return line_of, left_out


def refuse_nothing(reading: Reading, source: Path, layout: str) -> Reading:
    """A reading as it is, if anything was found.

    Raises:
        UserError: not one recording; the message tells what was found in its place.
    """
    if any(reading.splits.values()):
        return reading
    found = "".join(f"\n  {item.what}: {item.reason}" for item in _one_of_a_kind(reading.left_out))
    raise UserError(
        f"{source}: no recording with a transcript below this folder, expected {layout}"
        + (f"; instead:{found}" if found else "")
    )


def _one_of_a_kind(left_out: Sequence[LeftOut]) -> list[LeftOut]:
    return list({item.reason: item for item in reversed(left_out)}.values())
