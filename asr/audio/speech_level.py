"""Measure the level of speech without its pauses, which would make a recording seem quiet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from asr.audio.recording import WINDOW_SAMPLES

ACTIVE_SHARE = 1e-3  # speech frames are within 30 dB of the loudest; the rest are pauses


def frame_powers(samples: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the mean square, (T,), of each 25 ms frame of (S,) samples; a shorter clip is one frame."""
    frame_samples = min(WINDOW_SAMPLES, len(samples))
    frames = samples[: len(samples) // frame_samples * frame_samples].reshape(-1, frame_samples)
    powers: npt.NDArray[np.float64] = np.square(frames).mean(axis=1, dtype=np.float64)
    return powers


def active_power(powers: npt.NDArray[np.float64]) -> float:
    """Return the mean power of the frames, (T,), within 30 dB of the loudest."""
    return float(powers[powers >= ACTIVE_SHARE * powers.max()].mean())
