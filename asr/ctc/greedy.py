"""Decodes CTC greedily: takes the best label of every frame, merges repeats and removes blanks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.types import Hypothesis, Logits, Tensor
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.ctc.confidence import path_confidences
from asr.ctc.posteriors import log_softmax

Ids = npt.NDArray[np.integer]


class BestPath(NamedTuple):
    """The most probable alignment of every clip in a batch."""

    frame_ids: Tensor  # (B, T) int32, blanks and repeats included
    num_frames: Tensor  # (B,) int32, the rest is padding
    frame_scores: Tensor  # (B, T) natural logarithm of each label's probability


def best_path(logits: Logits) -> BestPath:
    """Return the best label of every frame, of tensors in the graph: (B, T, V) stays on the device."""
    values, num_frames = logits
    if isinstance(values, np.ndarray):  # as where TensorFlow is not needed
        scores = log_softmax(values).max(axis=-1)
        return BestPath(values.argmax(axis=-1).astype(np.int32), num_frames, scores)
    import tensorflow as tf

    frame_scores = tf.reduce_max(values, axis=-1) - tf.reduce_logsumexp(values, axis=-1)  # (B, T)
    frame_ids = tf.argmax(values, axis=-1, output_type=tf.int32)
    return BestPath(frame_ids, num_frames, frame_scores)


def collapse(frame_ids: Ids) -> tuple[Ids, npt.NDArray[np.intp]]:
    """Merge repeats and remove blanks; return the labels of a path, and the frame at which each begins.

    Args:
        frame_ids: (T,) the label of each frame, without padding.
    """
    before = np.concatenate([[BLANK_ID], frame_ids])[:-1]
    starts = np.flatnonzero((frame_ids != BLANK_ID) & (frame_ids != before))
    return frame_ids[starts], starts


def labels_of(path: BestPath) -> list[list[int]]:
    """Return the labels of each clip."""
    frame_ids, num_frames = np.asarray(path.frame_ids), np.asarray(path.num_frames)
    return [collapse(row[:length])[0].tolist() for row, length in zip(frame_ids, num_frames, strict=True)]


def hypotheses_of(path: BestPath, vocabulary: Vocabulary, frame_s: float) -> list[Hypothesis]:
    """Return the hypothesis of each clip.

    Args:
        path: of B clips.
        vocabulary: turns ids into tokens.
        frame_s: seconds from one frame to the next.
    """
    hypotheses = []
    for row, length, row_scores in zip(*map(np.asarray, path), strict=True):
        frame_ids, frame_scores = row[:length], row_scores[:length]
        ids, starts = collapse(frame_ids)
        score = float(np.sum(frame_scores, dtype=np.float64))
        confidences = path_confidences(frame_ids, frame_scores, starts)
        tokens, times_s = vocabulary.decode(ids.tolist()), seconds(starts, frame_s)
        hypotheses.append(Hypothesis(tokens, times_s, score, score, confidences))
    return hypotheses


def seconds(frames: Ids, frame_s: float) -> tuple[float, ...]:
    """Return when frames begin, in seconds rounded to the millisecond."""
    return tuple(round(float(frame) * frame_s, 3) for frame in frames)
