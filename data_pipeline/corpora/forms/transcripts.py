"""Read the transcript beside a recording: its text as a whole, or lines of text with their times."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.text.encodings import file_text
from asr.base.text.hanzi_text import ONE_HANZI
from asr.base.text.subtitles import Interval, read_lrc, read_subtitles
from asr.base.text.textgrid import Tier, read_textgrid
from data_pipeline.corpora.layout import plain_spaces, text_lines
from data_pipeline.corpora.matching import EMPTY, UNREADABLE_TRANSCRIPT
from data_pipeline.types import LeftOut, Recording

# The first of several is used: subtitles have the text line by line, whole texts follow. A TextGrid is last,
# since aligners write one of words and phones beside the text that they aligned.
TRANSCRIPT_SUFFIXES = (".srt", ".vtt", ".lrc", ".txt", ".lab", ".trn", ".textgrid")
# transcripts all the same: they are named with the remedy where a recording has their name
OTHER_SUFFIXES = (".ass", ".ssa", ".sbv", ".ttml", ".dfxp", ".eaf", ".docx", ".doc", ".rtf", ".wps", ".pdf")
ONE_LINE = ".trn"  # further lines repeat the text in syllables and phones
TIMED = re.compile(r"[0-9]+(\.[0-9]+)?\s+[0-9]+(\.[0-9]+)?\s+\S+")  # begin, end and label of a phone
TIERS = (  # names of the tier that has what is said, the preferred first
    *(
        "lines",
        "line",
        "sentences",
        "sentence",
        "utterances",
        "utterance",
        "utt",
        "transcript",
        "transcription",
    ),
    *("text", "句子", "句", "文本", "内容", "转写", "标注", "汉字", "hanzi", "chinese"),
)
REMEDY = "repair it, or delete it and write the text into a .txt"


@dataclass(frozen=True)
class WrittenTranscript:
    """What a file says about the recording beside it.

    Attributes:
        recordings: the whole one, or each stretch that has a text; without ids.
        tier: of a TextGrid, that the texts are from.
        other_tiers: of intervals, that were not read.
    """

    recordings: list[Recording]
    tier: str = ""
    other_tiers: tuple[str, ...] = ()


def read_transcript(path: Path, audio: Path) -> WrittenTranscript | LeftOut:
    """Return what a transcript says about the recording beside it, or why it cannot be used.

    The text is all lines of a .txt or .lab, and the first line of a .trn. Subtitles, lyrics and TextGrids are
    read at their times.
    """
    if path.suffix.lower() in OTHER_SUFFIXES:
        return LeftOut(
            str(path), UNREADABLE_TRANSCRIPT, "files of this kind are not read; save it as .srt or .txt"
        )
    read = {".srt": read_subtitles, ".vtt": read_subtitles, ".lrc": read_lrc}.get(path.suffix.lower())
    try:
        if path.suffix.lower() == ".textgrid":
            return _of_tiers(read_textgrid(file_text(path)), path, audio)
        if read:
            return _of_intervals(read(file_text(path)), path, audio)
        lines = [line for _, line in text_lines(path)]
    except (UserError, ValueError) as error:
        detail = str(error).removeprefix(f"{path}: ")
        return LeftOut(str(path), UNREADABLE_TRANSCRIPT, f"{detail}; {REMEDY}")
    if not lines:
        return LeftOut(str(path), EMPTY, f"write what is said in {audio.name} into it")
    if all(TIMED.fullmatch(line) for line in lines):
        return LeftOut(str(path), "transcript of timed phones, not words", "write the text into a .txt")
    text = plain_spaces(lines[0] if path.suffix.lower() == ONE_LINE else " ".join(lines))
    return WrittenTranscript([Recording("", str(audio), text)])


def _of_intervals(
    intervals: list[Interval], path: Path, audio: Path, tier: str = "", others: tuple[str, ...] = ()
) -> WrittenTranscript | LeftOut:
    recordings = [
        Recording(
            "",
            str(audio),
            plain_spaces(interval.label),
            interval.speaker,
            begin_s=interval.start_s,
            end_s=None if math.isinf(interval.end_s) else interval.end_s,
        )
        for interval in intervals
    ]
    return WrittenTranscript(recordings, tier, others) if recordings else LeftOut(str(path), EMPTY, REMEDY)


def _of_tiers(tiers: list[Tier], path: Path, audio: Path) -> WrittenTranscript | LeftOut:
    labelled = [tier for tier in tiers if tier.intervals]
    if not labelled:
        return LeftOut(str(path), EMPTY, "no tier of intervals has a label")
    chosen = min(labelled, key=_rank)
    others = tuple(tier.name for tier in labelled if tier is not chosen)
    return _of_intervals(chosen.intervals, path, audio, chosen.name, others)


def _rank(tier: Tier) -> tuple[int, bool, float]:
    """Rank a tier: by its name, else one with hanzi first; of these the one with the longest labels."""
    name = tier.name.strip().lower()
    labels = [interval.label for interval in tier.intervals]
    num_with_hanzi = sum(ONE_HANZI.search(label) is not None for label in labels)
    by_name = TIERS.index(name) if name in TIERS else len(TIERS)
    return by_name, 2 * num_with_hanzi < len(labels), -sum(map(len, labels)) / len(labels)
