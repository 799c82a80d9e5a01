"""How probable each token of a hypothesis is to be right, and whether such figures can be believed.

What the acoustic model alone decided has the posterior of the token's frames. Where a language model or hot
words took part, that posterior is too low for what they corrected: there a token has the share of the
candidates that agree on it, each weighed by its score (Wessel et al., 2001, "Confidence measures for large
vocabulary continuous speech recognition"). Calibration after Guo et al. (2017), arXiv:1706.04599.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

if TYPE_CHECKING:
    from asr.recognition.decoding.beam import Candidate
    from asr.recognition.decoding.forced_alignment import TokenAlignment

# scores differ by more than the candidates' chances do: of 1, 1.5, 2 and 3 best on the demo's dev set
TEMPERATURE = 1.5


def token_confidences(candidates: Sequence[Candidate], alignment: TokenAlignment) -> tuple[float, ...]:
    """How probable each token of the first candidate is to be right, from 0 to 1.

    Args:
        candidates: of one utterance, the whole beam: first the one chosen, which need not have the highest
            score where something else had its say.
        alignment: of the one chosen.
    """
    best = candidates[0]
    if best.score == best.acoustic:
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
    """The same for greedy decoding: each token's posterior, the geometric mean over its frames.

    Args:
        frame_ids: (T,) the best label of each frame.
        frame_log_probs: (T,) its natural log posterior.
        starts: (U,) the frame that each token begins at.
    """
    last_frames = np.flatnonzero(np.diff(frame_ids, append=-1))
    ends = last_frames[np.searchsorted(last_frames, starts)] + 1
    sums = np.concatenate([[0.0], np.cumsum(frame_log_probs, dtype=np.float64)])
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return tuple(np.exp(np.minimum(means, 0.0)).tolist())


def correct_tokens(heard: Sequence[Hashable], reference: Sequence[Hashable]) -> list[bool]:
    """Whether each token that was heard stands in the reference, by an alignment of the fewest edits."""
    correct = [False] * len(heard)
    for block in Levenshtein.opcodes(heard, reference):
        if block.tag == "equal":
            correct[block.src_start : block.src_end] = [True] * (block.src_end - block.src_start)
    return correct


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Tokens of like confidence.

    Attributes:
        low: the smallest confidence that falls in here.
        high: below which all of them are, but for 1, which the last bin holds.
        num_tokens: how many there are.
        confidence: their mean.
        accuracy: how many of them are right, from 0 to 1.
    """

    low: float
    high: float
    num_tokens: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Whether tokens of confidence 0.9 are right nine times of ten.

    Attributes:
        bins: those that hold tokens, by rising confidence.
        error: the expected calibration error: how far confidence and accuracy lie apart in a bin, the mean
            over tokens.
    """

    bins: tuple[CalibrationBin, ...]
    error: float


def calibration(confidences: Sequence[float], correct: Sequence[bool], num_bins: int = 10) -> Calibration:
    """Compare confidences with what was right.

    Args:
        confidences: (N,) from 0 to 1.
        correct: (N,) whether each token was right.
        num_bins: of equal width.
    """
    values, right = np.array(confidences, float), np.array(correct, float)
    places = np.minimum((values * num_bins).astype(int), num_bins - 1)
    bins = tuple(
        CalibrationBin(
            place / num_bins,
            (place + 1) / num_bins,
            int(np.sum(places == place)),
            float(values[places == place].mean()),
            float(right[places == place].mean()),
        )
        for place in np.unique(places).tolist()
    )
    distances = sum(one.num_tokens * abs(one.confidence - one.accuracy) for one in bins)
    return Calibration(bins, distances / len(values) if len(values) else 0.0)
