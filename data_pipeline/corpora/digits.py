"""Strings of English digits: the Free Spoken Digit Dataset (Jackson et al., CC BY-SA 4.0), joined.

Layout: `recordings/<digit>_<speaker>_<index>.wav`, or such files in the folder itself. One speaker is
kept out of training and makes the test set; dev uses recordings of the others that training never sees.
"""

from __future__ import annotations

import collections
import re
from pathlib import Path

import numpy as np
from tqdm import tqdm

from asr.audio import SAMPLE_RATE_HZ, Waveform, read_audio, write_wav
from asr.types import UserError, Utterance
from data_pipeline.doctor import tell_left_out

ABOUT = (
    "English digits by five speakers, <digit>_<speaker>_<index>.wav; Free Spoken Digit Dataset, CC BY-SA 4.0"
)
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAME = re.compile(r"(?P<digit>[0-9])_(?P<speaker>[^_]+)_(?P<index>[0-9]+)")
TEST_SPEAKER = "yweweler"
DEV_INDICES = range(5)  # the dataset's own test recordings
NUM_STRINGS = {"train": 4000, "dev": 200, "test": 300}
MAX_DIGITS = 7
MAX_GAP_S = 0.4
SEED = 7

Pool = dict[str, list[tuple[int, Waveform]]]  # speaker -> (digit, recording)


def prepare(source: Path, target: Path) -> dict[str, list[Utterance]]:
    """Join recordings of one speaker into strings of one to seven digits with gaps between them.

    Raises:
        UserError: the folder holds no such recordings, or none of the speaker kept for testing.
    """
    pools = _read_pools(source)
    (target / "audio").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    splits: dict[str, list[Utterance]] = {}
    for split, pool in pools.items():
        speakers = sorted(pool)
        numbers = tqdm(range(NUM_STRINGS[split]), desc=f"joining digits for {split}", unit="string")
        splits[split] = [
            _join(f"{split}-{number:04d}", speakers[number % len(speakers)], pool, target, rng)
            for number in numbers
        ]
    return splits


def _read_pools(source: Path) -> dict[str, Pool]:
    pools: dict[str, Pool] = {split: collections.defaultdict(list) for split in NUM_STRINGS}
    failures: list[UserError] = []
    files = sorted(path for path in source.rglob("*.wav") if NAME.fullmatch(path.stem))
    for path in tqdm(files, desc="reading digits", unit="clip"):
        match = NAME.fullmatch(path.stem)
        assert match
        try:
            recording = (int(match["digit"]), read_audio(path))
        except UserError as error:
            failures.append(error)
            continue
        seen = "dev" if int(match["index"]) in DEV_INDICES else "train"
        pools["test" if match["speaker"] == TEST_SPEAKER else seen][match["speaker"]].append(recording)
    tell_left_out([str(failure) for failure in failures], len(files), str(source))
    for split, pool in pools.items():
        if not pool:
            raise UserError(
                f"{source}: no recording for {split}; expected <digit>_<speaker>_<index>.wav "
                f"of {TEST_SPEAKER} and of others below this folder"
            )
    return pools


def _join(name: str, speaker: str, pool: Pool, target: Path, rng: np.random.Generator) -> Utterance:
    recordings = pool[speaker]
    chosen = [recordings[i] for i in rng.integers(len(recordings), size=rng.integers(1, MAX_DIGITS + 1))]
    pieces = [_gap(rng)]
    for _, waveform in chosen:
        pieces += [waveform, _gap(rng)]
    waveform = np.concatenate(pieces)
    wav = target / "audio" / f"{name}.wav"
    write_wav(wav, waveform)
    tokens = tuple(WORDS[digit] for digit, _ in chosen)
    return Utterance(name, str(wav), len(waveform) / SAMPLE_RATE_HZ, " ".join(tokens), tokens, speaker)


def _gap(rng: np.random.Generator) -> Waveform:
    """Up to 0.4 s of faint noise: digital silence would tell where recordings begin."""
    num_samples = rng.integers(int(MAX_GAP_S * SAMPLE_RATE_HZ))
    return rng.normal(0, 3, num_samples).round().astype(np.int16)
