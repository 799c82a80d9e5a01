"""Read Audio-cmn (Yue Tan for Shtooka, CC BY-SA): Mandarin words of the HSK lists by one speaker.

Layout: `audio/cmn-<hanzi>.mp3`, or such files in the folder itself.
"""

from __future__ import annotations

import collections
import zlib
from pathlib import Path

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import files_below
from data_pipeline.recordings.conversion import convert_to_wav
from data_pipeline.types import SPLITS, UNREADABLE_AUDIO, Corpus, CorpusReading, LeftOut, Recording

PREFIX = "cmn-"
SPEAKER = "yue_tan"
HELD_OUT_PERCENT = {"test": 6, "dev": 3}


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Convert each file to WAV, with its name as the text; a word is in one split only.

    Raises:
        UserError: the folder has no such file, or has it twice.
    """
    files = sorted(path for path in files_below(source, (".mp3",)) if path.name.startswith(PREFIX))
    if not files:
        raise UserError(f"{source}: no {PREFIX}<hanzi>.mp3 below this folder; is it Audio-cmn?")
    stems = collections.Counter(path.stem for path in files)
    repeated, times = stems.most_common(1)[0]
    if times > 1:
        folders = sorted({str(path.parent) for path in files if path.stem == repeated})
        raise UserError(
            f"{source}: {repeated}.mp3 is in {times} folders below it; "
            f"choose one of them: {', '.join(folders)}"
        )
    (target / "audio").mkdir(parents=True, exist_ok=True)
    pairs = [(path, target / "audio" / f"{path.stem}.wav") for path in files]
    durations = convert_to_wav(pairs, "converting hsk_words", on_progress)

    splits: dict[str, list[Recording]] = {split: [] for split in SPLITS}
    left_out: list[LeftOut] = []
    for (path, wav), duration_s in zip(pairs, durations, strict=True):
        word = path.stem.removeprefix(PREFIX)
        if isinstance(duration_s, UserError):
            left_out.append(LeftOut(str(path), UNREADABLE_AUDIO, str(duration_s)))
        else:
            splits[split_of(word)].append(Recording(path.stem, str(wav), word, SPEAKER))
    return CorpusReading(splits, left_out)


def split_of(word: str) -> str:
    """Return the split of a word, by its checksum, so that adding files moves no word to another split."""
    position = zlib.crc32(word.encode()) % 100
    for split, percent in HELD_OUT_PERCENT.items():
        if position < percent:
            return split
        position -= percent
    return "train"


CORPUS = Corpus(
    read=read,
    about="8,000 Mandarin words by one speaker (Audio-cmn, Yue Tan for Shtooka)",
    language="zh",
    hours=2.8,
    licence="CC-BY-SA-4.0",
    address="https://github.com/hugolpz/audio-cmn",
    layout="cmn-<hanzi>.mp3",
)
