"""Write and read subtitles, SubRip (.srt) and WebVTT (.vtt), and read the lines of lyrics (.lrc).

1
00:00:01,500 --> 00:00:03,000
今天天气很好
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ARROW = "-->"
CLOCK = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{1,2}(?:[.,][0-9]{1,9})?)")
# no pattern passes over another opening sign, so that a crafted line takes no more time than others
VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
MARKUP = re.compile(r"<rt\b[^<>]*>[^<]*</rt>|</?[a-zA-Z0-9][^<>]*>|\{\\[^{}]*\}|\{[a-zA-Z]:[^{}]*\}")
SOUNDS = re.compile(r"\[[^\[\]]*\]|【[^【】]*】|\([^()]*\)|（[^（）]*）")  # [music], （笑）: not spoken
SPEAKER = re.compile(
    r"^\s*(?:>>+|[-–—](?!\d[\d.]*\s*[度℃°%％])|(?:说话人|发言人|讲话人|speaker|spk)[\s_]*\w{0,3}\s*[:：])\s*",
    re.IGNORECASE,
)
WORD_TIMES = re.compile(r"<[0-9:.]+>")
LRC_TIME = re.compile(r"\s*\[([0-9]{1,4}:[0-9]{1,2}(?:[.:][0-9]{1,3})?)\]")
LRC_OFFSET = re.compile(r"^\s*\[offset:\s*([+-]?[0-9]{1,9})\s*\]", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time and its label.

    Attributes:
        start_s: from the recording's begin.
        end_s: infinite for the recording's end.
        label: what is said.
        speaker: empty if unknown.
    """

    start_s: float
    end_s: float
    label: str
    speaker: str = ""


def write_srt(lines: Iterable[Interval]) -> str:
    """Return SubRip subtitles, each a number, a time, a line of text and an empty line."""
    cues = (_cue(line, ",", line.label) for line in lines)
    return "\n".join(f"{number}\n{cue}" for number, cue in enumerate(cues, start=1))


def write_vtt(lines: Iterable[Interval]) -> str:
    """Return subtitles in the format WebVTT, in which `<` and `&` of a text are escaped."""
    cues = (_cue(line, ".", html.escape(line.label, quote=False)) for line in lines)
    return "\n".join(["WEBVTT\n", *cues])


def _cue(line: Interval, decimal: str, text: str) -> str:
    """Return the times and the text of a subtitle."""
    return f"{_clock_time(line.start_s, decimal)} {ARROW} {_clock_time(line.end_s, decimal)}\n{text}\n"


def _clock_time(seconds: float, decimal: str) -> str:
    ms = round(seconds * 1000)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{decimal}{ms % 1000:03}"


def clock_seconds(time: str) -> float:
    """Return the seconds of a time such as 00:01:02,500 or 1:02.5.

    Raises:
        ValueError: it is no such time.
    """
    match = CLOCK.fullmatch(time.strip())
    if match is None:
        raise ValueError(f"expected a time such as 00:01:02.500, received {time.strip()[:40]!r}")
    hours, minutes, seconds = match.groups()
    return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds.replace(",", "."))


def read_subtitles(text: str) -> list[Interval]:
    """Return the lines of SubRip or WebVTT subtitles that hold text.

    Markup, positions, sounds in brackets and the names of speakers are removed; a voice of WebVTT is the
    line's speaker. In subtitles with a time for every word, which roll, a line is read once. A text ends at
    an empty line in WebVTT, whose notes follow one, and at the next number in SubRip.

    Raises:
        ValueError: there are no times, or one is broken; the message names the line.
    """
    lines = text.splitlines()
    begins = [number for number, line in enumerate(lines) if ARROW in line]
    if not begins:
        raise ValueError(f"no line with times such as 00:00:01,500 {ARROW} 00:00:03,000")
    rolls = WORD_TIMES.search(text) is not None
    is_vtt = text.lstrip("\ufeff").startswith("WEBVTT")
    numbered = not is_vtt and _ends_in_number(lines[: begins[0]])
    intervals = []
    shown: list[str] = []
    for begin, following in zip(begins, [*begins[1:], len(lines) + 1], strict=True):
        start, _, rest = lines[begin].partition(ARROW)
        try:
            start_s, end_s = clock_seconds(start), clock_seconds((rest.split() or [""])[0])
        except ValueError as error:
            raise ValueError(f"line {begin + 1}: {error}") from None
        body = lines[begin + 1 : following]
        if following <= len(lines) and _ends_in_number(body if numbered else body[-1:]):
            while not body.pop().strip():  # without the number of the next subtitle
                pass
        if is_vtt:
            body = list(itertools.takewhile(bool, body))  # a blank is a line
        voices = set(VOICE.findall(" ".join(body)))
        spoken = [spoken_text(line) for line in body]
        label = " ".join(line for line in spoken if line and not (rolls and line in shown))
        shown = spoken
        if label:
            intervals.append(
                Interval(start_s, end_s, label, voices.pop().strip() if len(voices) == 1 else "")
            )
    return intervals


def _ends_in_number(lines: Sequence[str]) -> bool:
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last.strip("\ufeff \t").isdigit()


def spoken_text(line: str) -> str:
    """Return a line of subtitles without markup, sounds in brackets and the speaker's name."""
    plain = html.unescape(MARKUP.sub("", line)).replace("\\N", " ").replace("\\h", " ")
    return " ".join(SPEAKER.sub("", SOUNDS.sub("", plain), count=1).split()) if plain.strip() else ""


def read_lrc(text: str) -> list[Interval]:
    """Return the lines of lyrics that hold text; each ends where the next begins, the last never.

    Raises:
        ValueError: no line begins with a time.
    """
    offset = LRC_OFFSET.search(text)
    earlier_s = int(offset[1]) / 1000 if offset else 0.0
    timed: list[tuple[float, str]] = []
    for line in text.splitlines():
        begins_s = []
        while match := LRC_TIME.match(line):
            minutes, _, seconds = match[1].partition(":")
            begins_s.append(int(minutes) * 60 + float(seconds.replace(":", ".")))
            line = line[match.end() :]
        timed += [(max(0.0, begin_s - earlier_s), spoken_text(line)) for begin_s in begins_s]
    if not timed:
        raise ValueError("no line that begins with a time such as [00:01.50]")
    timed.sort(key=lambda line: line[0])
    intervals = []
    for number, (begin_s, label) in enumerate(timed, start=1):
        if label:
            end_s = next((later_s for later_s, _ in timed[number:] if later_s > begin_s), math.inf)
            intervals.append(Interval(begin_s, end_s, label))
    return intervals
