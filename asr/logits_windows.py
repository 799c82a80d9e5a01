"""What a model says of a recording of any length: window by window, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tqdm import tqdm

from asr.acoustic import AcousticModel
from asr.audio import SAMPLE_RATE_HZ, Waveform
from asr.types import Tensor

WINDOW_S = 30.0
CONTEXT_S = 5.0  # heard to each side of a window and thrown away
BAR_FROM_S = 120.0  # shorter recordings are done before a bar is read


def windowed_log_probs(
    model: AcousticModel, waveform: Waveform, columns: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Natural logarithm of the posteriors of some ids in every frame.

    A recording that fits a window and its context is heard as a whole. A feature layer that normalises over
    the clip does so over each window.

    Args:
        model: audio -> logits.
        waveform: (S,) int16 at 16 kHz, at least 400 samples.
        columns: (C,) ids, the blank too where it is wanted.

    Returns:
        (T, C)
    """

    def step(audio: Tensor, num_samples: Tensor) -> Tensor:
        log_probs = tf.nn.log_softmax(model(audio, num_samples).values)
        return tf.gather(log_probs[0], list(columns), axis=-1)

    signature = [tf.TensorSpec((1, None), tf.int16), tf.TensorSpec((1,), tf.int32)]
    compiled: Any = tf.function(step, input_signature=signature)
    frame_samples = round(model.frame_s * SAMPLE_RATE_HZ)
    window, context = (round(seconds / model.frame_s) for seconds in (WINDOW_S, CONTEXT_S))  # frames
    num_frames = int(model.num_output_frames(len(waveform)))
    if num_frames <= window + 2 * context:
        window = num_frames
    log_probs = np.empty((num_frames, len(columns)), np.float32)
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    for begin in tqdm(range(0, num_frames, window), unit=" windows", disable=duration_s < BAR_FROM_S):
        first, end = max(0, begin - context), begin + window + context
        heard = waveform[first * frame_samples : end * frame_samples if end < num_frames else len(waveform)]
        frames = np.asarray(compiled(heard[None], np.array([len(heard)], np.int32)))
        kept = frames[begin - first : begin - first + window]
        log_probs[begin : begin + window] = kept
    return log_probs
