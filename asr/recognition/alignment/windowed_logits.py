"""What a model says of a recording of any length, of a few outputs alone, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.recognition.streaming import StreamingRecognizer

if TYPE_CHECKING:
    from asr.recognition.recognizer import Recognizer

WINDOW_S = 30.0
BAR_FROM_S = 120.0  # shorter recordings are done before a bar is read


def windowed_log_probs(
    recognizer: Recognizer, waveform: Waveform, columns: Sequence[int]
) -> npt.NDArray[np.float32]:
    """Natural logarithm of the posteriors of some ids in every frame.

    The recording is heard as a stream is, see asr/recognition/streaming.py: a model that normalises
    features over the clip hears each stretch between two pauses by itself.

    Args:
        recognizer: its model.
        waveform: (S,) int16 at 16 kHz.
        columns: (C,) ids, the blank too where it is wanted.

    Returns:
        (T, C)
    """
    logits = StreamingRecognizer(recognizer).new_logits()
    heard = [np.zeros((0, len(columns)), np.float32)]
    step = round(WINDOW_S * SAMPLE_RATE_HZ)
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    for begin in tqdm(range(0, len(waveform), step), unit=" windows", disable=duration_s < BAR_FROM_S):
        heard += [part[:, columns] for part in logits.feed(waveform[begin : begin + step])]
    heard += [part[:, columns] for part in logits.finish()]
    return np.concatenate(heard)
