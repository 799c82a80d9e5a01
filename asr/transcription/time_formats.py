"""Formats timed tokens as a TextGrid for Praat, as subtitles (SRT, WebVTT), as JSON, or as a table."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from asr.base.columns import display_width
from asr.base.files import whole_file

TimeFormat: TypeAlias = Literal["table", "textgrid", "srt", "vtt", "json"]
TimedFormat: TypeAlias = Literal["srt", "vtt", "textgrid"]  # those that `asr transcribe` writes

SUFFIXES: dict[str, TimeFormat] = {
    ".textgrid": "textgrid",
    ".srt": "srt",
    ".vtt": "vtt",
    ".json": "json",
    ".tsv": "table",
}
LINE_COLUMNS = 40  # of a subtitle: 20 hanzi, which are two columns wide each
LINE_S = 7.0
PAUSE_S = 0.5  # ends a subtitle
SENTENCE_ENDS = "。！？；!?;…\n"
PHRASE_ENDS = "，、：,:—"
PHRASE_COLUMNS = 20  # a subtitle of this width or more ends with a phrase


@dataclass(frozen=True, slots=True)
class TimedToken:
    """A token and when it is said.

    Attributes:
        token: of the vocabulary.
        start_s: seconds from the recording's start.
        end_s: at or after `start_s`; at or before the next token's `start_s`.
        confidence: from 0 to 1.
        text: as it was written, up to where the next token's text begins; empty if no text was given.
    """

    token: str
    start_s: float
    end_s: float
    confidence: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time and its label."""

    start_s: float
    end_s: float
    label: str


def format_tokens(tokens: Sequence[TimedToken], duration_s: float, format_name: TimeFormat, tier: str) -> str:
    """Return the contents of a file of timed tokens.

    Args:
        tokens: in order.
        duration_s: of the recording.
        format_name: of the file.
        tier: the unit of the tokens: "syllables", "characters" or "words".
    """
    if format_name == "textgrid":
        return textgrid(tokens, duration_s, tier)
    if format_name == "srt":
        return srt(tokens)
    if format_name == "vtt":
        return vtt(tokens)
    return as_json(tokens, duration_s, tier) if format_name == "json" else table(tokens)


def write_alignment(path: Path, contents: str) -> None:
    """Write a file atomically, as UTF-8.

    Raises:
        UserError: the file cannot be written.
    """
    with whole_file(path, "alignment") as file:
        file.write(contents.encode())


def textgrid(tokens: Sequence[TimedToken], duration_s: float, tier: str) -> str:
    """Return Praat's long text format, with tiers of tokens, characters and words (of a text), and lines.

    The intervals of each tier cover the recording; labels are empty where there is no speech.
    """
    tiers = {tier: [Interval(t.start_s, t.end_s, t.token) for t in tokens]}
    if any(_without_punctuation(token.text) not in ("", token.token) for token in tokens):
        written = [Interval(t.start_s, t.end_s, _without_punctuation(t.text)) for t in tokens]
        if tier == "syllables":
            tiers["characters"] = written
        if tier != "words" and any(token.text.endswith(" ") for token in tokens):
            words = map(_joined, _words(tokens))
            tiers["words"] = [
                Interval(word.start_s, word.end_s, _without_punctuation(word.label)) for word in words
            ]
    tiers["lines"] = [_joined(line) for line in subtitle_lines(tokens)]
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


def srt(tokens: Sequence[TimedToken]) -> str:
    """Return SubRip subtitles, each a number, a time, a line of text and an empty line."""
    cues = (_cue(line, ",", line.label) for line in map(_joined, subtitle_lines(tokens)))
    return "\n".join(f"{number}\n{cue}" for number, cue in enumerate(cues, start=1))


def vtt(tokens: Sequence[TimedToken]) -> str:
    """Return subtitles in the format WebVTT, in which `<` and `&` of a text are escaped."""
    lines = map(_joined, subtitle_lines(tokens))
    cues = (_cue(line, ".", html.escape(line.label, quote=False)) for line in lines)
    return "\n".join(["WEBVTT\n", *cues])


def _cue(line: Interval, decimal: str, text: str) -> str:
    """Return the times and the text of a subtitle."""
    times = f"{_clock_time(line.start_s, decimal)} --> {_clock_time(line.end_s, decimal)}"
    return f"{times}\n{text}\n"


def as_json(tokens: Sequence[TimedToken], duration_s: float, tier: str) -> str:
    """Return a JSON object with `duration_s`, `unit` and `tokens`, a list of each token's fields."""
    fields = [
        {
            "token": token.token,
            "text": token.text.strip(),
            "start_s": round(token.start_s, 3),
            "end_s": round(token.end_s, 3),
            "confidence": round(token.confidence, 4),
        }
        for token in tokens
    ]
    document = {"duration_s": round(duration_s, 3), "unit": tier, "tokens": fields}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def table(tokens: Sequence[TimedToken]) -> str:
    """Return tab-separated start, end, token, text and confidence, below a header row."""
    rows = ["start_s\tend_s\ttoken\ttext\tconfidence"]
    for token in tokens:
        times = f"{token.start_s:.3f}\t{token.end_s:.3f}"
        rows.append(f"{times}\t{token.token}\t{_without_punctuation(token.text)}\t{token.confidence:.3f}")
    return "\n".join(rows) + "\n"


def subtitle_lines(tokens: Sequence[TimedToken]) -> Iterator[list[TimedToken]]:
    """Yield the tokens of each subtitle, cut at sentence ends and pauses, and by width and duration."""
    line: list[TimedToken] = []
    for token in tokens:
        if line and not _continues_line(line, token):
            yield line
            line = []
        line.append(token)
    if line:
        yield line


def _continues_line(line: Sequence[TimedToken], token: TimedToken) -> bool:
    last, label = line[-1], _joined(line).label
    after = set(_punctuation_after(last.text))
    if token.start_s - last.end_s >= PAUSE_S or after & set(SENTENCE_ENDS):
        return False
    if after & set(PHRASE_ENDS) and display_width(label) >= PHRASE_COLUMNS:
        return False
    if last.text.isascii() and last.text.isalpha():
        return True  # inside a word
    longer = display_width(_joined([*line, token]).label)
    return longer <= LINE_COLUMNS and token.end_s - line[0].start_s <= LINE_S


def _words(tokens: Sequence[TimedToken]) -> Iterator[list[TimedToken]]:
    """Yield the tokens of each word; white space or punctuation separates words."""
    word: list[TimedToken] = []
    for token in tokens:
        word.append(token)
        if token.text != _without_punctuation(token.text):
            yield word
            word = []
    if word:
        yield word


def _joined(tokens: Sequence[TimedToken]) -> Interval:
    """Join tokens into one interval, labelled with their text, or with the tokens if they have none."""
    written = "".join(token.text for token in tokens)
    label = " ".join(written.split()) or " ".join(token.token for token in tokens)
    return Interval(tokens[0].start_s, tokens[-1].end_s, label)


def _tier_lines(name: str, intervals: Sequence[Interval], duration_s: float) -> list[str]:
    lines = ['        class = "IntervalTier"', f"        name = {_quoted(name)}"]
    lines += _span(0.0, duration_s, " " * 8)
    lines.append(f"        intervals: size = {len(intervals)}")
    for place, interval in enumerate(intervals, start=1):
        lines.append(f"        intervals [{place}]:")
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


def _clock_time(seconds: float, decimal: str) -> str:
    ms = round(seconds * 1000)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{decimal}{ms % 1000:03}"


def _without_punctuation(text: str) -> str:
    """Return a token's text without punctuation and space around it: `《好，` -> `好`."""
    start, end = 0, len(text)
    while start < end and _is_silent(text[start]):
        start += 1
    while end > start and _is_silent(text[end - 1]):
        end -= 1
    return text[start:end]


def _punctuation_after(text: str) -> str:
    """Return the punctuation and space after a token in its text: `《好，` -> `，`."""
    return text.rpartition(_without_punctuation(text))[2] if _without_punctuation(text) else text


def _is_silent(char: str) -> bool:
    return char.isspace() or unicodedata.category(char)[0] == "P"
