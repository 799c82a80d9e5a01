"""Features of the pitch of the voice, which `features.pitch` adds to those of the spectrum.

Windows of 25 ms do not resolve the harmonics of a low voice, and so say little about its tone. Here, each
frame is the autocorrelation of 50 ms at delays of 2 to 18 ms, one of which is the period of the voice.
Neighbouring delays differ by the same factor: a tone draws the same line for every voice, higher or lower.
The autocorrelation is that of magnitudes instead of powers, in which the period is clearer than the formants
(Tolonen & Karjalainen, 2000, doi:10.1109/89.876309).
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.types import Tensor

Float32 = npt.NDArray[np.float32]

PITCH_WINDOW = 800
"""Samples that a frame depends on."""
NUM_DELAYS = 48
"""Features of the pitch, from the highest voice to the lowest."""
HIGHEST_HZ, LOWEST_HZ = 500.0, 55.0
BINS_HZ = 20.0 * np.arange(3, 65)  # an offset of the samples has no part in them
NUM_BINS = len(BINS_HZ)
QUIET = 10.0  # sum of amplitudes, on the int16 scale, at which the features of quieter sound begin to vanish
SCALE = 2.0  # features lie between -2 and 2


@functools.cache
def pitch_filters() -> Float32:
    """Return cosines and sines under a Hann window, (800, 124), which give amplitudes of audio."""
    time_s = (np.arange(PITCH_WINDOW) - PITCH_WINDOW / 2)[:, None] / SAMPLE_RATE_HZ
    phase = 2 * np.pi * time_s * BINS_HZ
    window = (1 + np.cos(2 * np.pi * time_s * SAMPLE_RATE_HZ / PITCH_WINDOW)) / PITCH_WINDOW
    return (np.concatenate([np.cos(phase), np.sin(phase)], axis=1) * window).astype(np.float32)


@functools.cache
def pitch_cosines() -> Float32:
    """Return the matrix (62, 48) from amplitudes to the autocorrelation at each delay."""
    steps = np.arange(NUM_DELAYS) / (NUM_DELAYS - 1)
    delays_s = 1 / (HIGHEST_HZ * (LOWEST_HZ / HIGHEST_HZ) ** steps)
    return (SCALE * np.cos(2 * np.pi * BINS_HZ[:, None] * delays_s)).astype(np.float32)


def pitch_features(audio: Tensor, hop: int) -> Tensor:
    """Map audio to autocorrelations, from -2 to 2, 0 in digital silence.

    Args:
        audio: (B, S) float32 samples on the int16 scale.
        hop: samples from one frame to the next.

    Returns:
        (B, (S - 800) // hop + 1, 48) float32.
    """
    parts = tf.nn.conv1d(ops.expand_dims(audio, -1), pitch_filters()[:, None], hop, "VALID")
    power = ops.square(parts[..., :NUM_BINS]) + ops.square(parts[..., NUM_BINS:])
    amplitudes = ops.sqrt(power)
    total = ops.sum(amplitudes, axis=-1, keepdims=True)
    return ops.matmul(amplitudes, pitch_cosines()) / (total + QUIET)
