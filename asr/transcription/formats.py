"""The formats of transcripts: text, JSON Lines and CSV of many; subtitles, TextGrid, JSON or a table of one.

transcript = recognizer.transcribe("lecture.mp3")
print(format_transcript(transcript, "srt"))
"""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TextIO, TypeAlias, get_args

from typing_extensions import TypeIs

from asr.base.errors import UserError
from asr.base.text.subtitles import Interval, write_srt, write_vtt
from asr.base.text.terminal_table import display_width
from asr.base.text.textgrid import write_textgrid
from asr.transcription.transcript import Transcript, Word

ListFormat: TypeAlias = Literal["text", "jsonl", "csv"]  # one file for all recordings
FileFormat: TypeAlias = Literal["srt", "vtt", "textgrid"]  # a file for each recording
Format: TypeAlias = ListFormat | FileFormat
TimeFormat: TypeAlias = FileFormat | Literal["json", "table"]  # those with times

FORMATS: tuple[Format, ...] = (*get_args(ListFormat), *get_args(FileFormat))
SUFFIXES: dict[TimeFormat, str] = {
    "table": ".tsv",
    "textgrid": ".TextGrid",
    "srt": ".srt",
    "vtt": ".vtt",
    "json": ".json",
}
CSV_COLUMNS = ("file", "text", "tokens", "score", "error")

LINE_COLUMNS = 40  # of a subtitle: 20 hanzi, which are two columns wide each
LINE_S = 7.0
PAUSE_S = 0.5  # ends a subtitle
SENTENCE_ENDS = "。！？；!?;…\n"
PHRASE_ENDS = "，、：,:—"
PHRASE_COLUMNS = 20  # a subtitle of this width or more ends with a phrase


def is_timed(format_name: Format) -> TypeIs[FileFormat]:
    """Return whether a format is one of subtitles, or a TextGrid."""
    return format_name in get_args(FileFormat)


class ListWriter:
    """A writer of the transcripts of many recordings, one by one.

    Args:
        file: open for writing text.
        format_name: of the file.
        with_names: whether text lines begin with the file's name.
    """

    def __init__(self, file: TextIO, format_name: ListFormat, with_names: bool) -> None:
        self._file, self._format, self._with_names = file, format_name, with_names
        self._csv = csv.writer(file, lineterminator="\n")
        if format_name == "csv":
            self._csv.writerow(CSV_COLUMNS)

    def write(self, name: str, result: Transcript | UserError) -> None:
        """Write the transcript of a file, or why there is none; the text format omits failures."""
        if self._format == "csv":
            self._csv.writerow(_row(name, result))
        elif self._format == "jsonl":
            self._file.write(json.dumps(_record(name, result), ensure_ascii=False) + "\n")
        elif not isinstance(result, UserError):
            self._file.write((f"{name}\t" if self._with_names else "") + result.text + "\n")
        self._file.flush()


def _row(name: str, result: Transcript | UserError) -> tuple[str, ...]:
    if isinstance(result, UserError):
        return name, "", "", "", str(result)
    return name, result.text, " ".join(result.tokens), f"{result.score:.3f}", ""


def _record(name: str, result: Transcript | UserError) -> dict[str, Any]:
    if isinstance(result, UserError):
        return {"file": name, "error": str(result)}
    record = {
        "file": name,
        "text": result.text,
        "tokens": result.tokens,
        "times_s": result.times_s,
        "confidences": [round(confidence, 3) for confidence in result.confidences],
        "score": round(result.score, 4),
    }
    if result.alternatives:
        record["alternatives"] = [
            {"text": other.text, "tokens": other.tokens, "score": round(other.score, 4)}
            for other in result.alternatives
        ]
    return record


def format_transcript(transcript: Transcript, format_name: TimeFormat) -> str:
    """Return the contents of a file of a transcript with its times.

    Subtitles never end inside a word; the other formats have the time of every syllable.
    """
    words = transcript.words if format_name in ("srt", "vtt") else transcript.units
    return format_words(words, transcript.duration_s, format_name, transcript.unit)


def format_words(words: Sequence[Word], duration_s: float, format_name: TimeFormat, unit: str) -> str:
    """Return the contents of a file of words with their times.

    Args:
        words: in order.
        duration_s: of the recording.
        format_name: of the file.
        unit: of the tokens: "syllables", "characters", "words" or "pieces".
    """
    if format_name == "textgrid":
        return textgrid(words, duration_s, unit)
    if format_name == "srt":
        return write_srt(map(_joined, subtitle_lines(words)))
    if format_name == "vtt":
        return write_vtt(map(_joined, subtitle_lines(words)))
    return as_json(words, duration_s, unit) if format_name == "json" else table(words)


def textgrid(words: Sequence[Word], duration_s: float, unit: str) -> str:
    """Return Praat's long text format, with tiers of tokens, characters and words (of a text), and lines.

    The intervals of each tier cover the recording; labels are empty where there is no speech.
    """
    first = "words" if unit == "pieces" else unit  # pieces are written as words
    tiers = {first: [Interval(word.start_s, word.end_s, word.spoken) for word in words]}
    if any(_without_punctuation(word.text) not in ("", word.spoken) for word in words):
        if unit == "syllables":
            tiers["characters"] = [
                Interval(word.start_s, word.end_s, _without_punctuation(word.text)) for word in words
            ]
        if unit != "words" and any(word.gap.endswith(" ") for word in words):
            groups = map(_joined, _between_gaps(words))
            tiers["words"] = [
                Interval(group.start_s, group.end_s, _without_punctuation(group.label)) for group in groups
            ]
    tiers["lines"] = [_joined(line) for line in subtitle_lines(words)]
    return write_textgrid(tiers, duration_s)


def as_json(words: Sequence[Word], duration_s: float, unit: str) -> str:
    """Return a JSON object with `duration_s`, `unit` and `tokens`, a list of each word's fields."""
    fields = [
        {
            "token": word.spoken,
            "text": word.text.strip(),
            "start_s": round(word.start_s, 3),
            "end_s": round(word.end_s, 3),
            "confidence": round(_certainty(word), 4),
        }
        for word in words
    ]
    document = {"duration_s": round(duration_s, 3), "unit": unit, "tokens": fields}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def table(words: Sequence[Word]) -> str:
    """Return tab-separated start, end, token, text and confidence, below a header row."""
    rows = ["start_s\tend_s\ttoken\ttext\tconfidence"]
    for word in words:
        times = f"{word.start_s:.3f}\t{word.end_s:.3f}"
        rows.append(f"{times}\t{word.spoken}\t{_without_punctuation(word.text)}\t{_certainty(word):.3f}")
    return "\n".join(rows) + "\n"


def _certainty(word: Word) -> float:
    return 1.0 if word.confidence is None else word.confidence


def subtitle_lines(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the words of each subtitle, cut at sentence ends and pauses, and by width and duration."""
    line: list[Word] = []
    for word in words:
        if line and not _continues_line(line, word):
            yield line
            line = []
        line.append(word)
    if line:
        yield line


def _continues_line(line: Sequence[Word], word: Word) -> bool:
    last, label = line[-1], _joined(line).label
    written = last.text + last.gap
    after = set(_punctuation_after(written))
    if word.start_s - last.end_s >= PAUSE_S or after & set(SENTENCE_ENDS):
        return False
    if after & set(PHRASE_ENDS) and display_width(label) >= PHRASE_COLUMNS:
        return False
    if written.isascii() and written.isalpha():
        return True  # the letters of a word are aligned one by one
    longer = display_width(_joined([*line, word]).label)
    return longer <= LINE_COLUMNS and word.end_s - line[0].start_s <= LINE_S


def _between_gaps(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the letters of each word of a text; white space or punctuation separates words."""
    group: list[Word] = []
    for word in words:
        group.append(word)
        if word.gap or word.text != _without_punctuation(word.text):
            yield group
            group = []
    if group:
        yield group


def _joined(words: Sequence[Word]) -> Interval:
    """Join words into one interval, labelled with their text, or with their tokens if they have none."""
    written = "".join(word.text + word.gap for word in words)
    label = " ".join(written.split()) or " ".join(word.spoken for word in words)
    return Interval(words[0].start_s, words[-1].end_s, label)


def _without_punctuation(text: str) -> str:
    """Return a text without punctuation and space around it: `《好，` -> `好`."""
    start, end = 0, len(text)
    while start < end and _is_silent(text[start]):
        start += 1
    while end > start and _is_silent(text[end - 1]):
        end -= 1
    return text[start:end]


def _punctuation_after(text: str) -> str:
    """Return the punctuation and space at the end of a text: `《好，` -> `，`."""
    return text.rpartition(_without_punctuation(text))[2] if _without_punctuation(text) else text


def _is_silent(char: str) -> bool:
    return char.isspace() or unicodedata.category(char)[0] == "P"
