"""Changes to waveforms in training, each a pure function of (seed, epoch, utterance id)."""

from __future__ import annotations

import math
import zlib

import numpy as np
import scipy.fft

from asr.audio import Waveform, to_int16

EDGE_SAMPLES = 160  # of silence between the clip's end and its beginning, which touch in an FFT
NUM_CANDIDATES = 12


def speed_factor(seed: int, epoch: int, utterance_id: str, slowest: float, fastest: float) -> float:
    """How much faster a clip is played in this epoch: log-uniform between the two factors."""
    if slowest == fastest:
        return slowest
    key = zlib.crc32(utterance_id.encode(errors="backslashreplace"))
    position = np.random.default_rng((seed, epoch, key)).random()
    return float(slowest * (fastest / slowest) ** position)


def num_samples_at(num_samples: int, factor: float) -> int:
    """Samples of a clip played `factor` times as fast."""
    return max(1, round(num_samples / factor))


def change_speed(waveform: Waveform, factor: float) -> Waveform:
    """Play a clip faster (`factor` > 1) or slower: its pitch and its formants move along.

    Band-limited, by cutting or extending the clip's spectrum. The lengths are rounded to ones that an FFT
    is fast at, which moves the pitch by a thousandth or so of what the factor says.

    Args:
        waveform: (S,) int16.
        factor: above 0.

    Returns:
        (`num_samples_at(S, factor)`,) int16.
    """
    num_out = num_samples_at(len(waveform), factor)
    if num_out == len(waveform):
        return waveform
    padded_in, padded_out = _fast_lengths(len(waveform), num_out)
    spectrum = scipy.fft.rfft(waveform.astype(np.float32), padded_in)
    kept = min(padded_in, padded_out) // 2 + 1
    resized = np.zeros(padded_out // 2 + 1, np.complex64)
    resized[:kept] = spectrum[:kept]
    resampled = scipy.fft.irfft(resized, padded_out)[:num_out] * np.float32(padded_out / padded_in)
    return to_int16(resampled)


def _fast_lengths(num_in: int, num_out: int) -> tuple[int, int]:
    """Two lengths that an FFT is fast at, not below these and in about their ratio."""
    ratio = num_out / num_in
    pairs = []
    padded_in = num_in + EDGE_SAMPLES
    for _ in range(NUM_CANDIDATES):
        padded_in = scipy.fft.next_fast_len(padded_in, real=True)
        exact = math.ceil(padded_in * ratio)
        for padded_out in (scipy.fft.next_fast_len(exact, True), scipy.fft.prev_fast_len(exact, True)):
            if padded_out >= num_out:
                pairs.append((abs(padded_out / padded_in / ratio - 1), padded_in, padded_out))
        padded_in += 1
    _, padded_in, padded_out = min(pairs)
    return padded_in, padded_out
