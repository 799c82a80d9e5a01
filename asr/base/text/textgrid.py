"""Write TextGrids, the annotations of Praat, in its long text format; read its long and its short one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from asr.base.text.subtitles import Interval

INTERVALS, POINTS = "IntervalTier", "TextTier"
# what Praat reads: strings, numbers and flags; the names of the long format's fields are comments
VALUE = re.compile(r'"((?:[^"]|"")*)"|(?<!\S)([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?!\S)|(<\w+>)')


class Tier(NamedTuple):
    """A tier of labelled intervals."""

    name: str
    intervals: list[Interval]


def write_textgrid(tiers: Mapping[str, Sequence[Interval]], duration_s: float) -> str:
    """Return Praat's long text format.

    The intervals of each tier cover the recording; labels are empty where there is no speech.

    Args:
        tiers: intervals in order, by the name of the tier.
        duration_s: of the recording.
    """
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        *_span(0.0, duration_s, ""),
        "tiers? <exists>",
        f"size = {len(tiers)}",
        "item []:",
    ]
    for number, (name, intervals) in enumerate(tiers.items(), start=1):
        lines.append(f"    item [{number}]:")
        lines += _tier_lines(name, _without_gaps(intervals, duration_s), duration_s)
    return "\n".join(lines) + "\n"


def _tier_lines(name: str, intervals: Sequence[Interval], duration_s: float) -> list[str]:
    lines = [f'        class = "{INTERVALS}"', f"        name = {_quoted(name)}"]
    lines += _span(0.0, duration_s, " " * 8)
    lines.append(f"        intervals: size = {len(intervals)}")
    for number, interval in enumerate(intervals, start=1):
        lines.append(f"        intervals [{number}]:")
        lines += _span(interval.start_s, interval.end_s, " " * 12)
        lines.append(f"            text = {_quoted(interval.label)}")
    return lines


def _without_gaps(intervals: Sequence[Interval], duration_s: float) -> list[Interval]:
    covering: list[Interval] = []
    now_s = 0.0
    for interval in intervals:
        start_s, end_s = round(interval.start_s, 6), round(interval.end_s, 6)
        if end_s <= start_s:
            continue  # Praat requires intervals of positive length
        if start_s > now_s:
            covering.append(Interval(now_s, start_s, ""))
        covering.append(Interval(start_s, end_s, interval.label))
        now_s = end_s
    if now_s < round(duration_s, 6):
        covering.append(Interval(now_s, duration_s, ""))
    return covering


def _span(start_s: float, end_s: float, indent: str) -> list[str]:
    return [f"{indent}xmin = {start_s:.6f}", f"{indent}xmax = {end_s:.6f}"]


def _quoted(label: str) -> str:
    return '"' + label.replace('"', '""') + '"'


def read_textgrid(text: str) -> list[Tier]:
    """Return the tiers of intervals of a TextGrid, with the labels that are not empty; points are skipped.

    Raises:
        ValueError: it is not a TextGrid in one of Praat's text formats, or it is cut off.
    """
    values = _values(text)
    kind, content = next(values, ""), next(values, "")
    if (kind, content) != ("ooTextFile", "TextGrid"):
        raise ValueError(f"expected a TextGrid in a text format of Praat, received {kind!r}, {content!r}")
    try:
        float(next(values)), float(next(values)), next(values)  # the begin, the end and `<exists>`
        return [tier for _ in range(int(next(values))) if (tier := _read_tier(values))]
    except (StopIteration, ValueError):
        raise ValueError("this TextGrid is damaged or cut off") from None


def _read_tier(values: Iterator[str]) -> Tier | None:
    """Return the next tier; None for one of points."""
    kind, name = next(values), next(values)
    float(next(values)), float(next(values))
    intervals = []
    for _ in range(int(next(values))):
        start_s = float(next(values))
        if kind == POINTS:
            next(values)
            continue
        end_s, label = float(next(values)), " ".join(next(values).split())
        if label:
            intervals.append(Interval(start_s, end_s, label))
    return Tier(name, intervals) if kind == INTERVALS else None


def _values(text: str) -> Iterator[str]:
    for match in VALUE.finditer(text):
        quoted, number, flag = match.groups()
        yield quoted.replace('""', '"') if quoted is not None else number or flag
