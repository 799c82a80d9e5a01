"""Measures how far `asr align` is from where sound begins and ends.

    python -m benchmarks.accuracy.known_text.alignment general MANIFEST [MANIFEST ...]

Clips of a manifest are joined by fours, with 0.05 to 0.5 s of silence between them, and aligned with their
text. Where the sound of a clip begins and ends is known from its level, so its first and its last token are
measured, also where the model recognizes others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, to_int16
from asr.base.types import Utterance
from asr.transcription.alignment.aligner import align_recording
from asr.transcription.recognizer import Recognizer
from benchmarks.accuracy.known_text.takes import Samples, sure_bounds
from benchmarks.common import show
from data_pipeline.manifests.manifest import read_manifest

NUM_JOINED, NUM_CLIPS = 50, 4
GAP_S = (0.05, 0.5)
MARGIN = SAMPLE_RATE_HZ // 20  # what is left of a clip before and after its sound
WITHIN_S = (0.05, 0.1, 0.25)


class Sound(NamedTuple):
    """Where a clip's sound is in a recording, in seconds, and its first and last token."""

    start_s: float
    end_s: float
    first: int
    last: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how well `asr align` finds when words are said.")
    parser.add_argument("run", help="a run, a model file, or `general`")
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of clips and pauses")
    arguments = parser.parse_args()
    recognizer = Recognizer.of_known_text(arguments.run)
    rows = {}
    for path in arguments.manifests:
        rng = np.random.default_rng(arguments.seed)
        utterances = read_manifest(path)
        starts, ends, num_doubted = [], [], 0
        for _ in range(NUM_JOINED):
            chosen = [utterances[index] for index in rng.choice(len(utterances), NUM_CLIPS, replace=False)]
            waveform, sounds = joined(chosen, rng)
            written = [(token, token) for utterance in chosen for token in utterance.tokens]
            aligned = align_recording(recognizer, to_int16(waveform), written, path.stem)
            num_doubted += bool(aligned.misfits)
            starts += [aligned.words[sound.first].start_s - sound.start_s for sound in sounds]
            ends += [aligned.words[sound.last].end_s - sound.end_s for sound in sounds]
        rows |= {
            f"{path.stem}: start": described(starts),
            f"{path.stem}: end": described(ends),
            f"{path.stem}: a text is said not to match": f"{num_doubted} of {NUM_JOINED}",
        }
    show("words of a known text", rows)


def joined(utterances: Sequence[Utterance], rng: np.random.Generator) -> tuple[Samples, list[Sound]]:
    """Return a recording of several clips, and where the sound of each is."""
    parts: list[Samples] = []
    sounds: list[Sound] = []
    length = first = 0
    for utterance in utterances:
        clip = read_audio(utterance.audio_path).astype(np.float32)
        begin, end = sure_bounds(clip)
        part = clip[max(0, begin - MARGIN) : end + MARGIN]
        gap = np.zeros(round(rng.uniform(*GAP_S) * SAMPLE_RATE_HZ), np.float32)
        start_s = (length + min(begin, MARGIN)) / SAMPLE_RATE_HZ
        last = first + len(utterance.tokens) - 1
        sounds.append(Sound(start_s, start_s + (end - begin) / SAMPLE_RATE_HZ, first, last))
        parts += [part, gap]
        length, first = length + len(part) + len(gap), last + 1
    return np.concatenate(parts), sounds


def described(errors_s: Sequence[float]) -> str:
    sizes = np.abs(errors_s)
    shares = (f"{np.mean(sizes <= limit_s):.0%} within {1000 * limit_s:.0f} ms" for limit_s in WITHIN_S)
    return f"median {1000 * np.median(errors_s):+.0f} ms, {', '.join(shares)}"


if __name__ == "__main__":
    main()
