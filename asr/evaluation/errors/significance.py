"""Computes confidence intervals of error rates, and tests whether one of two systems is better.

Intervals come from the bootstrap of Bisani & Ney (2004, "Bootstrap estimates for confidence intervals in ASR
performance evaluation"): a test set samples utterances, not tokens, so whole utterances are resampled. The
utterances of a speaker are correlated, so if a set has enough speakers, these are resampled as blocks (Liu &
Peng 2020, arXiv:1912.09508).

    low, high = rate_interval(errors, lengths)
    paired_test(errors_a, errors_b, lengths).p_value
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

LEVEL = 0.95
NUM_DRAWS = 10_000
SEED = 0
MIN_SPEAKERS = 20  # a few blocks show little of how blocks differ
DRAWN_AT_ONCE = 2_000_000  # numbers in memory

Counts = npt.NDArray[np.int64]


class Blocks(NamedTuple):
    """The blocks that are resampled, speakers or single utterances, and the block of each utterance."""

    kind: str  # "speakers" or "utterances"
    indices: npt.NDArray[np.intp]  # (N,) the block of each utterance

    def summed(self, values: Sequence[int]) -> list[int]:
        """Sum values over the utterances of each block."""
        totals = np.zeros(int(self.indices.max(initial=-1)) + 1, np.int64)
        np.add.at(totals, self.indices, np.asarray(values, np.int64))
        return [int(total) for total in totals]


def blocks_of(speakers: Sequence[str]) -> Blocks:
    """Return speakers as blocks if all are known and there are at least 20; else single utterances.

    Args:
        speakers: of each utterance; empty where unknown.
    """
    names, indices = np.unique(np.asarray(speakers, dtype=object).astype(str), return_inverse=True)
    if all(speakers) and MIN_SPEAKERS <= len(names) < len(speakers):
        return Blocks("speakers", indices.astype(np.intp))
    return Blocks("utterances", np.arange(len(speakers)))


def rate_interval(errors: Sequence[int], lengths: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % confidence interval of an error rate.

    Its ends are percentiles of 10,000 bootstrap draws. But resampling never shows what the sample lacks:
    errors if hardly a block has one, or a block without errors if all have some. So the interval is at least
    as wide as that of the share of blocks with an error (`_limits_by_share`). For single sentences, right or
    wrong, it nearly equals that of Clopper & Pearson.

    Args:
        errors: of each utterance or block.
        lengths: of the reference of each utterance or block.

    Returns:
        Lower and upper end, the same at every call; the rate lies between them. Without any reference token,
        the upper end is infinite. A single block gives a wide interval: with errors, from a 40th of its rate
        to its rate; without, from 0 to 0.975 errors.
    """
    assert len(errors) == len(lengths) > 0
    block_errors, block_lengths = np.asarray(errors, np.int64), np.asarray(lengths, np.int64)
    low, high = _percentiles(_rates(*_drawn_totals(block_errors, block_lengths)))
    least, most = _rates(_limits_by_share(block_errors), block_lengths.sum())
    return min(low, float(least)), max(high, float(most))


class PairedTest(NamedTuple):
    """The result of comparing system B with system A on the same utterances."""

    difference: float  # rate of B minus rate of A: below 0 if B is better
    low: float  # of the 95 % interval of the difference
    high: float
    p_value: float  # two-sided: probability of so large a difference by chance
    better: float  # share of bootstrap draws in which B makes fewer errors, ties counted half


def paired_test(errors_a: Sequence[int], errors_b: Sequence[int], lengths: Sequence[int]) -> PairedTest:
    """Compare two systems utterance by utterance.

    The p-value is that of Fisher's randomisation test: if the systems were equal, each utterance's results
    could be swapped (Noreen, 1989). It needs neither the normal distribution of the matched-pairs test
    (Gillick & Cox, 1989) nor random draws: all ways of swapping are counted.

    Args:
        errors_a: of each utterance or block, by system A.
        errors_b: of each utterance or block, by system B.
        lengths: of the reference of each utterance or block.
    """
    assert len(errors_a) == len(errors_b) == len(lengths) > 0
    differences = np.asarray(errors_b, np.int64) - np.asarray(errors_a, np.int64)
    drawn, drawn_lengths = _drawn_totals(differences, np.asarray(lengths, np.int64))
    low, high = _percentiles(_rates(drawn, drawn_lengths))
    better = float(np.mean(drawn < 0) + np.mean(drawn == 0) / 2)
    difference = _rates(differences.sum(keepdims=True), np.asarray([sum(lengths)]))
    return PairedTest(float(difference[0]), low, high, swap_p_value(differences), better)


def swap_p_value(differences: Counts) -> float:
    """Return the share of all sign assignments whose sum is as far from 0 as the observed sum.

    The characteristic function of that sum is a product of cosines, one for each difference; its inverse
    Fourier transform counts all assignments exactly, however many there are.

    Args:
        differences: (N,) of errors.
    """
    sizes, times = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    seen, farthest = abs(int(differences.sum())), int(sizes @ times)
    if seen == 0:
        return 1.0
    num_sums = 2 * farthest + 1
    frequencies = np.arange(farthest + 1)
    transform = np.ones(farthest + 1)
    for size, count in zip(sizes, times, strict=True):
        transform *= np.cos(2 * np.pi / num_sums * (frequencies * size % num_sums)) ** count
    probabilities = np.fft.irfft(transform, num_sums)[: farthest + 1]
    fewest = 2.0 ** (1 - min(1000, int(times.sum())))  # at least two: the observed one and its mirror image
    return float(np.clip(2 * probabilities[seen:].sum(), fewest, 1.0))


def _limits_by_share(errors: Counts) -> npt.NDArray[np.float64]:
    """Return (2,) limits of the total errors, from the share of blocks that have an error.

    They are the limits of that share (Clopper & Pearson, 1934) times the mean errors of the blocks with
    errors. For the upper limit, the mean over only the worst blocks, and a block with one error, are tried
    too, so that one error more never lowers it.
    """
    num_blocks, beyond = len(errors), (1 - LEVEL) / 2
    worst = -np.sort(-errors[errors > 0])
    num_wrong = np.arange(len(worst) + 1)
    means = np.concatenate([[1.0], np.cumsum(worst) / num_wrong[1:]])  # over that many of the worst blocks
    shares = np.ones(len(means))  # at most
    some = num_wrong < num_blocks
    shares[some] = betaincinv(num_wrong[some] + 1, num_blocks - num_wrong[some], 1 - beyond)
    least_share = betaincinv(len(worst), num_blocks - len(worst) + 1, beyond) if len(worst) else 0.0
    return num_blocks * np.array([least_share * means[-1], (shares * means).max()])


def _drawn_totals(values: Counts, lengths: Counts) -> tuple[Counts, Counts]:
    """Return (NUM_DRAWS,) sums of values and lengths over blocks that are drawn with replacement."""
    rng = np.random.default_rng(SEED)
    kinds, times = np.unique(np.stack([values, lengths], axis=1), axis=0, return_counts=True)
    num_blocks, num_kinds = len(values), len(kinds)
    few = 7 * num_kinds < num_blocks  # drawing counts is then cheaper than drawing indices
    totals = []
    step = max(1, DRAWN_AT_ONCE // (num_kinds if few else num_blocks))
    for start in range(0, NUM_DRAWS, step):
        size = min(step, NUM_DRAWS - start)
        if few:
            totals.append(rng.multinomial(num_blocks, times / num_blocks, size) @ kinds)
        else:
            drawn = rng.integers(num_blocks, size=(size, num_blocks), dtype=np.int32)
            totals.append(np.stack([values[drawn].sum(axis=1), lengths[drawn].sum(axis=1)], axis=1))
    total_values, total_lengths = np.concatenate(totals).T
    return total_values, total_lengths


def _rates(errors: Counts | npt.NDArray[np.float64], lengths: Counts | np.int64) -> npt.NDArray[np.float64]:
    """Return errors per length, as `EditCounts.rate` defines it."""
    without = np.where(errors == 0, 0.0, np.copysign(math.inf, errors))
    return np.where(lengths > 0, errors / np.maximum(lengths, 1), without)


def _percentiles(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return two of the values as the limits that exclude the same share of draws on both sides."""
    beyond = round((1 - LEVEL) / 2 * len(values))
    ordered = np.sort(values)
    return float(ordered[beyond - 1]), float(ordered[-beyond])
