"""Measures the time of each augmentation of a waveform, and of a plain implementation of it, on one core.

python -m benchmarks.training.augment
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.signal

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.config import AugmentConfig
from benchmarks.common import compare, seconds, show
from data_pipeline.augment.augmenter import Augmenter, change_speed, speed_factors
from data_pipeline.augment.noise import ColouredNoises, add_noise, find_noises
from data_pipeline.augment.rooms import find_responses, reverberate
from data_pipeline.manifests.columns import utterance_keys

CLIP_S = 5.0
SPEEDS = (0.9, 0.95, 1.05, 1.1)
NUM_KEYS = 100_000
EVERYTHING = AugmentConfig(speed_min=0.9, speed_max=1.1, noise="coloured", reverb="rooms", gain_db_max=6.0)
RNG = np.random.default_rng(0)
CLIP = RNG.normal(0, 3000, round(CLIP_S * SAMPLE_RATE_HZ)).astype(np.int16)


def main() -> None:
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (ours, peer, num_clips) in effects(Path(folder)).items():
            ours_s, peer_s, ratio = compare(ours, peer, runs=9)
            audio_s = num_clips * CLIP_S
            rows[name] = (
                f"{ours_s / audio_s * 1e3:6.3f} ms, peer {peer_s / audio_s * 1e3:7.3f} ms, ratio {ratio:.2f}"
            )
    show("augmentation of one second of audio, one core", rows)
    keys = utterance_keys([str(number) for number in range(NUM_KEYS)])
    ours_s, peer_s, ratio = compare(
        lambda: speed_factors(EVERYTHING, 1, 0, keys), lambda: one_generator_each(keys), runs=3
    )
    show(
        f"speeds of {NUM_KEYS} utterances",
        {
            "speed_factors": f"{ours_s * 1e3:6.1f} ms",
            "a generator each": f"{peer_s * 1e3:6.1f} ms",
            "ratio": f"{ratio:.0f}",
            "utterance_keys, once": f"{seconds(lambda: utterance_keys([str(n) for n in keys])) * 1e3:.0f} ms",
        },
    )
    show("before the first step", {"256 rooms": f"{seconds(lambda: Augmenter.load(EVERYTHING, 1)):.2f} s"})


def effects(folder: Path) -> dict[str, tuple[Callable[[], object], Callable[[], object], int]]:
    """Return by name our implementation, the plain one, and the number of clips that each of them changes."""
    samples = CLIP.astype(np.float32)
    responses = find_responses("rooms", (0.5, 0.5), RNG)
    assert responses is not None
    response, _ = responses.draw(RNG)
    noise_path = folder / "noise.wav"
    write_wav(noise_path, RNG.normal(0, 3000, 60 * SAMPLE_RATE_HZ).astype(np.int16))
    noises = find_noises(str(folder))
    assert noises is not None
    coloured = ColouredNoises()
    always = dataclasses.replace(EVERYTHING, noise_probability=1.0, reverb_probability=1.0)
    augmenter, often = Augmenter.load(EVERYTHING, 1), Augmenter.load(always, 1)

    def read_and_add() -> object:
        start = int(RNG.integers(55 * SAMPLE_RATE_HZ))
        return add_noise(samples, read_audio(noise_path)[start : start + len(samples)].astype(np.float32), 10)

    def apply_all(to: Augmenter) -> object:
        return [to.apply(CLIP, 0, key, speed) for key, speed in enumerate(SPEEDS)]

    return {
        "change_speed, against resample_poly": (
            lambda: [change_speed(CLIP, speed) for speed in SPEEDS],
            lambda: [scipy.signal.resample_poly(samples, 100, round(100 * speed)) for speed in SPEEDS],
            len(SPEEDS),
        ),
        "a room of 0.5 s, against np.convolve": (
            lambda: reverberate(samples, response),
            lambda: np.convolve(samples, response)[: len(samples)],
            1,
        ),
        "recorded noise, against reading its file": (
            lambda: add_noise(samples, noises.draw(RNG, len(samples))[0], 10),
            read_and_add,
            1,
        ),
        "coloured noise, against filtering white noise": (
            lambda: add_noise(samples, coloured.draw(RNG, len(samples))[0], 10),
            lambda: add_noise(samples, filtered_noise(len(samples)), 10),
            1,
        ),
        "all with probability 0.5, against all always": (
            lambda: apply_all(augmenter),
            lambda: apply_all(often),
            len(SPEEDS),
        ),
    }


def filtered_noise(num_samples: int) -> np.ndarray:
    """Return white noise filtered by an FIR filter with a slope."""
    bands_hz = np.array([0, 50, 100, 200, 400, 800, 1600, 3200, 6400, 8000])
    gains = (np.maximum(bands_hz, 50) / 50) ** -0.5
    taps = scipy.signal.firwin2(513, bands_hz, gains, fs=SAMPLE_RATE_HZ).astype(np.float32)
    return scipy.signal.fftconvolve(RNG.standard_normal(num_samples, np.float32) * 1000, taps, "same")


def one_generator_each(keys: np.ndarray) -> list[float]:
    return [0.9 * (1.1 / 0.9) ** np.random.default_rng((1, 0, int(key))).random() for key in keys]


if __name__ == "__main__":
    main()
