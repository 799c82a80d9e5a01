"""Join the Free Spoken Digit Dataset (Jackson et al., CC BY-SA 4.0) into strings of English digits.

Layout: `recordings/<digit>_<speaker>_<index>.wav`, or such files in the folder itself. One speaker is held
out of training as the test set; dev uses recordings of the other speakers that are not in train.

The dataset's recordings are cut at silence, more tightly for some speakers than for others, whose "six" may
begin with its vowel. Those of training are cut at random levels, so that a model learns both.
"""

from __future__ import annotations

import collections
import re
import zlib
from pathlib import Path

import numpy as np

from asr.audio.recording import Waveform, read_audio, write_wav
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.corpora.layout import files_below
from data_pipeline.recordings.concatenated_words import cut_at_silence, pause
from data_pipeline.types import UNREADABLE_AUDIO, Corpus, CorpusReading, LeftOut, Recording

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAME = re.compile(r"(?P<digit>[0-9])_(?P<speaker>[^_]+)_(?P<index>[0-9]+)")
TEST_SPEAKER = "yweweler"
DEV_INDICES = range(5)  # the dataset's own test recordings
NUM_STRINGS = {"train": 4000, "dev": 200, "test": 300}
MAX_DIGITS = 7
MAX_GAP_S = 0.4
CUT_DB = (10.0, 60.0)  # below the loudest frame; few recordings have anything 60 dB below
SEED = 7

Pool = dict[str, list[tuple[int, Waveform]]]  # speaker -> (digit, recording)


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Join recordings of one speaker into strings of one to seven digits with gaps between them.

    Raises:
        UserError: the folder has no such recordings, or none by the speaker held out for testing.
    """
    pools, left_out = _read_pools(source, on_progress)
    (target / "audio").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    splits: dict[str, list[Recording]] = {}
    for split, pool in pools.items():
        speakers = sorted(pool)
        task = f"joining digits for {split}"
        cuts = np.random.default_rng(SEED) if split == "train" else None
        splits[split] = [
            _join(f"{split}-{number:04d}", speakers[number % len(speakers)], pool, target, rng, cuts)
            for number in reported(range(NUM_STRINGS[split]), task, "strings", on_progress)
        ]
    return CorpusReading(splits, left_out)


def _read_pools(source: Path, on_progress: OnProgress) -> tuple[dict[str, Pool], list[LeftOut]]:
    pools: dict[str, Pool] = {split: collections.defaultdict(list) for split in NUM_STRINGS}
    left_out: list[LeftOut] = []
    files = sorted(path for path in files_below(source, (".wav",)) if NAME.fullmatch(path.stem))
    for path in reported(files, "reading digits", "clips", on_progress):
        match = NAME.fullmatch(path.stem)
        assert match
        try:
            recording = (int(match["digit"]), read_audio(path))
        except UserError as error:
            left_out.append(LeftOut(str(path), UNREADABLE_AUDIO, str(error)))
            continue
        split = "dev" if int(match["index"]) in DEV_INDICES else "train"
        pools["test" if match["speaker"] == TEST_SPEAKER else split][match["speaker"]].append(recording)
    for split, pool in pools.items():
        if not pool:
            raise UserError(
                f"{source}: no recording for {split}; expected files <digit>_<speaker>_<index>.wav below "
                f"this folder, of the speaker {TEST_SPEAKER} and of others"
            )
    return pools, left_out


def _join(
    name: str,
    speaker: str,
    pool: Pool,
    target: Path,
    rng: np.random.Generator,
    cuts: np.random.Generator | None,
) -> Recording:
    """Write a string of random recordings of a speaker, each cut at random levels if `cuts` draws them."""
    recordings = pool[speaker]
    chosen = [recordings[i] for i in rng.integers(len(recordings), size=rng.integers(1, MAX_DIGITS + 1))]
    pieces = [pause(MAX_GAP_S, rng)]
    for _, waveform in chosen:
        waveform = waveform if cuts is None else cut_at_silence(waveform, CUT_DB, cuts)
        pieces += [waveform, pause(MAX_GAP_S, rng)]
    waveform = np.concatenate(pieces)
    # by its contents, so that earlier manifests never name another string
    wav = target / "audio" / f"{name}-{zlib.crc32(waveform.tobytes()):08x}.wav"
    write_wav(wav, waveform)
    tokens = tuple(WORDS[digit] for digit, _ in chosen)
    return Recording(name, str(wav), " ".join(tokens), speaker)


CORPUS = Corpus(
    read=read,
    about="strings of English digits, joined from recordings of five speakers (Free Spoken Digit Dataset)",
    language="en",
    units="words",
    hours=3.5,
    licence="CC-BY-SA-4.0",
    address="https://github.com/Jakobovski/free-spoken-digit-dataset",
    layout="recordings/<digit>_<speaker>_<index>.wav",
)
