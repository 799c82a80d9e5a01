"""Greedy CTC decoding: the best label of every frame, repeats merged, blanks removed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asr.types import Hypothesis
from asr.vocabulary import BLANK_ID, Vocabulary


def collapse(frame_ids: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.intp]]:
    """Labels of one clip's best path, and the frame each one begins at.

    Args:
        frame_ids: (T,) the best label of every real frame.
    """
    starts = np.flatnonzero((frame_ids != BLANK_ID) & (frame_ids != np.append(BLANK_ID, frame_ids[:-1])))
    return frame_ids[starts], starts


def greedy_hypotheses(
    utterance_ids: Sequence[str],
    frame_ids: npt.NDArray[np.integer],
    scores: npt.NDArray[np.floating],
    num_frames: npt.NDArray[np.integer],
    vocabulary: Vocabulary,
    frame_s: float,
) -> list[Hypothesis]:
    """Hypotheses of a batch.

    Args:
        utterance_ids: (B,)
        frame_ids: (B, T) the best label of every frame.
        scores: (B,) log probability of the best path.
        num_frames: (B,) real frames.
        vocabulary: turns ids into tokens.
        frame_s: seconds from one frame to the next.
    """
    hypotheses = []
    for row, utterance_id in enumerate(utterance_ids):
        ids, starts = collapse(frame_ids[row, : num_frames[row]])
        tokens = vocabulary.decode(ids.tolist())
        times_s = tuple(round(float(start) * frame_s, 3) for start in starts)
        hypotheses.append(
            Hypothesis(utterance_id, tokens, vocabulary.join(tokens), float(scores[row]), times_s)
        )
    return hypotheses
