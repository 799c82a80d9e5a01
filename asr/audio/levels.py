"""Measure the level of a recording, and whether it is silent, too quiet or clipped.

The doctor of corpora and the judgement of single takes share these definitions.
"""

from __future__ import annotations

import math

import numpy as np

from asr.audio.mixing import INT16_SCALE
from asr.audio.recording import SAMPLE_RATE_HZ, Waveform

SILENCE_DBFS = -80.0  # about three steps of 16 bits: dither, hum of an unused line
QUIET_PEAK = 0.01
CLIP_PEAK = 0.03  # flat tops below this are quantization, not clipping
CLIP_RUN_S = 3 / SAMPLE_RATE_HZ  # two equal samples at 16 kHz may be a real peak between them
CLIPPED_SHARE = 2e-4
CLIPPED_SAMPLES = 10


def level_dbfs(waveform: Waveform) -> float:
    """Return the root mean square around the mean, in dB relative to full scale."""
    return 20 * math.log10(float(waveform.std(dtype=np.float32)) / INT16_SCALE + 1e-6)


def num_clipped(waveform: Waveform, rate_hz: int = SAMPLE_RATE_HZ) -> int:
    """Count the samples in flat tops: runs at the lowest or the highest value; real waves have single peaks.

    Args:
        waveform: (S,) int16, as the microphone gave it: resampling makes flat tops round.
        rate_hz: sample rate of the waveform.
    """
    shortest = max(2, math.ceil(CLIP_RUN_S * rate_hz))
    return sum(_in_runs_at(waveform, int(extreme), shortest) for extreme in (waveform.min(), waveform.max()))


def is_clipped(num_flat: int, num_samples: int) -> bool:
    """Return whether a recording is clipped, given its number of clipped samples."""
    return num_flat >= CLIPPED_SAMPLES and num_flat >= CLIPPED_SHARE * num_samples


def _in_runs_at(waveform: Waveform, extreme: int, shortest: int) -> int:
    """Count the samples in runs of at least this length at an extreme value."""
    if abs(extreme) < CLIP_PEAK * INT16_SCALE:
        return 0
    at = np.flatnonzero(waveform == extreme)
    if len(at) < shortest:
        return 0
    firsts = np.flatnonzero(np.diff(at, prepend=at[0] - 2) != 1)
    lengths = np.diff(firsts, append=len(at))
    return int(lengths[lengths >= shortest].sum())
