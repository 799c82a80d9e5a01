"""Greedy CTC decoding: the best label of every frame, repeats merged, blanks removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from asr.types import Hypothesis, Logits, Tensor
from asr.vocabulary import BLANK_ID, Vocabulary

Ids = npt.NDArray[np.integer]


class BestPath(NamedTuple):
    """The most probable alignment of every clip in a batch."""

    frame_ids: Tensor  # (B, T) int32, blanks and repeats included
    num_frames: Tensor  # (B,) int32, the rest is padding
    scores: Tensor  # (B,) log probability of the path, natural logarithm


def best_path(logits: Logits) -> BestPath:
    """The best label of every frame, in the graph: (B, T, V) stays on the device."""
    values, num_frames = logits
    frame_scores = tf.reduce_max(values, axis=-1) - tf.reduce_logsumexp(values, axis=-1)  # (B, T)
    real = tf.sequence_mask(num_frames, tf.shape(values)[1], tf.float32)
    frame_ids = tf.argmax(values, axis=-1, output_type=tf.int32)
    return BestPath(frame_ids, num_frames, tf.reduce_sum(frame_scores * real, axis=-1))


def collapse(frame_ids: Ids) -> tuple[Ids, npt.NDArray[np.intp]]:
    """Labels of one clip's path, and the frame each one begins at.

    Args:
        frame_ids: (T,) one label for each real frame.
    """
    before = np.concatenate([[BLANK_ID], frame_ids])[:-1]
    starts = np.flatnonzero((frame_ids != BLANK_ID) & (frame_ids != before))
    return frame_ids[starts], starts


def labels_of(path: BestPath) -> list[list[int]]:
    """Each clip's labels."""
    frame_ids, num_frames = np.asarray(path.frame_ids), np.asarray(path.num_frames)
    return [collapse(row[:length])[0].tolist() for row, length in zip(frame_ids, num_frames, strict=True)]


def hypotheses_of(
    path: BestPath, utterance_ids: Sequence[str], vocabulary: Vocabulary, frame_s: float
) -> list[Hypothesis]:
    """Each clip's hypothesis.

    Args:
        path: of B clips.
        utterance_ids: (B,)
        vocabulary: turns ids into tokens.
        frame_s: seconds from one frame to the next.
    """
    frame_ids, num_frames, scores = (np.asarray(part) for part in path)
    hypotheses = []
    for row, utterance_id in enumerate(utterance_ids):
        ids, starts = collapse(frame_ids[row, : num_frames[row]])
        tokens = vocabulary.decode(ids.tolist())
        times_s = tuple(round(float(start) * frame_s, 3) for start in starts)
        text = vocabulary.join(tokens)
        hypotheses.append(Hypothesis(utterance_id, tokens, text, float(scores[row]), times_s))
    return hypotheses
