"""Estimates the probability that each token of a hypothesis is right, and how well such estimates calibrate.

If only the acoustic model decides, a token's confidence is the posterior of its frames. With a language
model or hot words that posterior is too low for the tokens that they corrected, so the confidence is the
share of the candidates that agree on the token, weighted by score (Wessel et al., 2001, "Confidence measures
for large vocabulary continuous speech recognition"). Words that choose among the alternatives of each place
leave it at the posterior of the sound. Calibration follows Guo et al. (2017), arXiv:1706.04599.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from asr.ctc.beam_search import Candidate
    from asr.ctc.forced_alignment import TokenAlignment

# scores are overconfident; the best of 1, 1.5, 2 and 3 on the demo's dev set
TEMPERATURE = 1.5


def token_confidences(
    candidates: Sequence[Candidate], alignment: TokenAlignment, chosen_by_words: bool = False
) -> tuple[float, ...]:
    """Return the confidence of each token of the first candidate, from 0 to 1.

    Args:
        candidates: the whole beam of one utterance, the chosen candidate first; after rescoring it need not
            have the highest score.
        alignment: of the chosen candidate.
        chosen_by_words: whether the candidate is the best of all alternatives by its words.
    """
    best = candidates[0]
    if chosen_by_words or best.score == best.acoustic:
        return tuple(np.exp(np.minimum(alignment.log_probs, 0.0)).astype(float).tolist())
    scores = np.array([candidate.score for candidate in candidates])
    scores[0] = scores.max()
    weights = np.exp((scores - scores[0]) / TEMPERATURE)
    agreeing = np.array(
        [correct_tokens(best.ids, candidate.ids) for candidate in candidates], float
    )  # (N, U)
    return tuple(np.minimum(weights @ agreeing / weights.sum(), 1.0).tolist())


def path_confidences(
    frame_ids: npt.NDArray[np.integer],
    frame_log_probs: npt.NDArray[np.floating],
    starts: npt.NDArray[np.integer],
) -> tuple[float, ...]:
    """Return the confidence of each token of a greedy path: the geometric mean of its frames' posteriors.

    Args:
        frame_ids: (T,) the best label of each frame.
        frame_log_probs: (T,) its natural log posterior.
        starts: (U,) the first frame of each token.
    """
    last_frames = np.flatnonzero(np.diff(frame_ids, append=-1))
    ends = last_frames[np.searchsorted(last_frames, starts)] + 1
    sums = np.concatenate([[0.0], np.cumsum(frame_log_probs, dtype=np.float64)])
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return tuple(np.exp(np.minimum(means, 0.0)).tolist())


def correct_tokens(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> list[bool]:
    """Return whether each token of a hypothesis is right, by an alignment with the fewest edits."""
    correct = [False] * len(hypothesis)
    for block in Levenshtein.opcodes(hypothesis, reference):
        if block.tag == "equal":
            correct[block.src_start : block.src_end] = [True] * (block.src_end - block.src_start)
    return correct


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """The tokens of similar confidence.

    Attributes:
        low: lower limit of the confidences, inclusive.
        high: upper limit, exclusive, except that the last bin includes 1.
        num_tokens: number of tokens.
        confidence: mean confidence.
        accuracy: share of right tokens, from 0 to 1.
    """

    low: float
    high: float
    num_tokens: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration of confidences: whether tokens of 0.9 are right nine times out of ten.

    Attributes:
        bins: those that contain tokens, by rising confidence.
        error: the expected calibration error: the mean over tokens of the difference between confidence and
            accuracy in a token's bin.
    """

    bins: tuple[CalibrationBin, ...]
    error: float


def calibration(confidences: Sequence[float], correct: Sequence[bool], num_bins: int = 10) -> Calibration:
    """Measure how well confidences predict which tokens are right.

    Args:
        confidences: (N,) from 0 to 1.
        correct: (N,) whether each token is right.
        num_bins: of equal width.
    """
    values, right = np.array(confidences, float), np.array(correct, float)
    indices = np.minimum((values * num_bins).astype(int), num_bins - 1)
    bins = tuple(
        CalibrationBin(
            index / num_bins,
            (index + 1) / num_bins,
            int(np.sum(indices == index)),
            float(values[indices == index].mean()),
            float(right[indices == index].mean()),
        )
        for index in np.unique(indices).tolist()
    )
    distances = sum(one.num_tokens * abs(one.confidence - one.accuracy) for one in bins)
    return Calibration(bins, distances / len(values) if len(values) else 0.0)
