"""Measure the signal-to-noise ratio of recordings of speech."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from asr.audio.recording import Waveform, read_audio, refuse_pipe
from asr.audio.speech_level import active_power, frame_powers
from asr.base.errors import UserError

NOISE_PERCENTILE = 5.0  # of the frames' powers: the frames between words
ROUNDING_POWER = 1 / 12  # quantisation noise of 16-bit samples, the least that a recording has


def signal_to_noise_db(waveform: Waveform) -> float:
    """Estimate the signal-to-noise ratio, assuming that the quietest 5 % of the frames are noise.

    The error is below 1 dB for steady noise 5 to 40 dB below speech with pauses, and below 2 dB for noise as
    loud as the speech. A clip without pauses is estimated as noisier than it is.

    Args:
        waveform: (S,) int16 samples at 16 kHz, at least one window of 25 ms.
    """
    samples = waveform - np.float32(waveform.mean())
    powers = frame_powers(samples)  # (T,)
    noise = max(float(np.percentile(powers, NOISE_PERCENTILE)), ROUNDING_POWER)
    return 10 * math.log10(max(active_power(powers) - noise, ROUNDING_POWER) / noise)


def recordings_signal_to_noise_db(paths: Sequence[str]) -> list[float]:
    """Return `signal_to_noise_db` of each recording; NaN for one that cannot be read."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return list(pool.map(_of_recording, paths))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for recordings not yet read


def _of_recording(path: str) -> float:
    try:
        refuse_pipe(path)
        return signal_to_noise_db(read_audio(path))
    except UserError:
        return math.nan
