"""Estimate n-gram models by interpolated modified Kneser-Ney smoothing.

Chen and Goodman (1998), "An Empirical Study of Smoothing Techniques for Language Modeling"; sentence begins
and pruning as in Heafield et al. (2013), "Scalable Modified Kneser-Ney Language Model Estimation": an n-gram
that begins a sentence keeps its own count in every order, and the mass of pruned n-grams goes to the backoff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compiled
from asr.language.ngram.counting import BEGIN_ID, PAD_ID, Counts, SortedCounts
from asr.language.ngram.model import Int32

Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts that are too small or too regular to estimate discounts
MIN_PROBABILITY = 1e-99  # of <s>, which is never predicted


class Estimates(NamedTuple):
    """The n-grams of one order, with the positions of their parts among those one word shorter.

    Attributes:
        rows: (N, order) word ids, the last word first; sorted.
        counts: (N,) how often each occurs.
        probs: (N,) probability of the last word after the others.
        backoffs: (N,) backoff weight as a context; 1 if it begins no longer n-gram.
        begins_longer: (N,) whether it begins a longer n-gram.
        contexts: (N,) position of all words but the last.
        endings: (N,) position of all words but the first.
    """

    rows: Int32
    counts: Counts
    probs: Float64
    backoffs: Float64
    begins_longer: Mask
    contexts: Counts
    endings: Counts

    def select(self, mask: Mask) -> Estimates:
        """Select n-grams; positions still refer to the unselected shorter ones."""
        return Estimates._make(column[mask] for column in self)


class _Counted(NamedTuple):
    """N-grams of one order, or a block of them.

    Attributes:
        rows: (N, order) word ids, the last word first.
        counts: (N,) how often each occurs.
        adjusted: (N,) number of different words before it, or its count if none can precede it.
    """

    rows: Int32
    counts: Counts
    adjusted: Counts

    def select(self, mask: Mask) -> _Counted:
        return _Counted(self.rows[mask], self.counts[mask], self.adjusted[mask])


class Smoothing(NamedTuple):
    """The result of smoothing.

    Attributes:
        estimates: estimates of each order from 1 on.
        discounts: (order, 3) discounts of n-grams seen once, twice and more often.
        fallback_orders: orders with fallback discounts.
    """

    estimates: list[Estimates]
    discounts: list[Float64]
    fallback_orders: tuple[int, ...]


def smooth(counts: SortedCounts, order: int, num_words: int, prune: Sequence[int]) -> Smoothing:
    """Estimate a model of all n-grams in a text.

    Args:
        counts: counts of the longest n-grams.
        order: length of the longest n-grams, at least 2.
        num_words: size of the vocabulary, including <unk>, <s> and </s>.
        prune: for each order, n-grams that occur at most this often are dropped; the first is 0, and none
            is lower than the one before it.

    Returns:
        the estimates; of fewer orders if no sentence is long enough.
    """
    assert prune[0] == 0
    assert list(prune) == sorted(prune)
    shorter = _shorter_orders(counts, order, num_words)
    discounts, fallback_orders = [], []
    for length in range(1, order + 1):
        blocks = [shorter[length - 1]] if length < order else _longest(counts)
        found = _discounts(blocks)
        if found is None:
            fallback_orders.append(length)
        discounts.append(np.array([0.0, *(FALLBACK_DISCOUNTS if found is None else found)]))

    estimates = [_unigrams(shorter[0], discounts[0])]
    positions = np.arange(num_words)  # positions of the previous order among its estimates; -1 if pruned
    for length in range(2, order + 1):
        context_table = shorter[length - 2]

        def blocks_of(length: int = length) -> Iterator[_Counted]:
            return iter([shorter[length - 1]]) if length < order else _longest(counts)

        longer, kept = _next_order(
            blocks_of, context_table, estimates, positions, discounts[length - 1], prune[length - 1]
        )
        if not len(longer.rows):
            break
        estimates.append(longer)
        if length < order:
            positions = np.where(kept, np.cumsum(kept) - 1, -1)
    used_fallbacks = [number for number in fallback_orders if number <= len(estimates)]
    return Smoothing(estimates, [table[1:] for table in discounts[: len(estimates)]], tuple(used_fallbacks))


def _longest(counts: SortedCounts) -> Iterator[_Counted]:
    """Yield the longest n-grams, without those that the beginning of a sentence cuts short."""
    for rows, numbers in counts.blocks():
        whole = rows[:, -1] != PAD_ID
        yield _Counted(rows[whole], numbers[whole], numbers[whole])


def _shorter_orders(counts: SortedCounts, order: int, num_words: int) -> list[_Counted]:
    """Return all n-grams of each order below the highest one; the unigrams by id."""
    longer = _concatenated([_endings(rows, numbers) for rows, numbers in counts.blocks()])
    tables = [longer]
    for _ in range(order - 2):
        tables.insert(0, _endings(tables[0].rows, tables[0].counts))
    unigrams = _Counted(
        np.arange(num_words, dtype=np.int32)[:, None],
        np.zeros(num_words, np.int64),
        np.zeros(num_words, np.int64),
    )
    seen = tables[0].rows[:, 0]
    unigrams.counts[seen], unigrams.adjusted[seen] = tables[0].counts, tables[0].adjusted
    return [unigrams, *(table.select(table.rows[:, -1] != PAD_ID) for table in tables[1:])]


def _endings(rows: Int32, counts: Counts) -> _Counted:
    """Return the n-grams that end sorted n-grams which are one word longer."""
    differs = (rows[1:, :-1] != rows[:-1, :-1]).any(axis=1)
    begins = np.flatnonzero(np.concatenate([[True], differs])) if len(rows) else np.zeros(0, np.int64)
    totals = np.add.reduceat(counts, begins) if len(rows) else counts
    kinds = np.diff(np.append(begins, len(rows)))
    # only <s> precedes an n-gram that begins a sentence
    return _Counted(rows[begins, :-1], totals, np.where(rows[begins, -1] == PAD_ID, totals, kinds))


def _concatenated(blocks: list[_Counted]) -> _Counted:
    """Concatenate blocks; the last n-gram of a block may be the first of the next one."""
    rows, counts, adjusted = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    begins = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)]))
    return _Counted(rows[begins], np.add.reduceat(counts, begins), np.add.reduceat(adjusted, begins))


def _discounts(blocks: Iterable[_Counted]) -> list[float] | None:
    """Return the discounts for counts of 1, 2, 3 and more; None if the text does not determine them."""
    kinds = np.zeros(5)
    for block in blocks:
        kinds += np.bincount(np.minimum(block.adjusted, 5), minlength=6)[:5]
    if not kinds[1:].all():
        return None
    y = kinds[1] / (kinds[1] + 2 * kinds[2])
    discounts = [k - (k + 1) * y * kinds[k + 1] / kinds[k] for k in (1, 2, 3)]
    return discounts if all(0 <= d <= k for k, d in enumerate(discounts, start=1)) else None


def _unigrams(table: _Counted, discounts: Float64) -> Estimates:
    num_words = len(table.rows)
    total = table.adjusted.sum()
    taken = discounts[np.minimum(table.adjusted, 3)]
    # the discounted mass is shared by all words that can follow, including <unk> but not <s>
    probs = (table.adjusted - taken) / total + taken.sum() / total / (num_words - 1)
    probs[BEGIN_ID] = MIN_PROBABILITY
    nothing = np.zeros(num_words, np.int64)
    return Estimates(
        table.rows, table.counts, probs, np.ones(num_words), np.zeros(num_words, np.bool_), nothing, nothing
    )


def _next_order(
    blocks_of: Callable[[], Iterator[_Counted]],
    table: _Counted,
    estimates: Sequence[Estimates],
    positions: Counts,
    discounts: Float64,
    prune: int,
) -> tuple[Estimates, Mask]:
    """Estimate the n-grams one word longer, and set the backoffs of the shorter ones.

    Args:
        blocks_of: yields the n-grams of this order at each call.
        table: all n-grams one word shorter.
        estimates: estimates of all shorter orders.
        positions: of the table's rows among the estimates.
        discounts: discounts by count.
        prune: n-grams that occur at most this often are dropped.

    Returns:
        the estimates, and which of this order's n-grams are among them.
    """
    before = estimates[-1]
    firsts = np.searchsorted(table.rows[:, 0], np.arange(table.rows[:, 0].max(initial=0) + 2))
    num_contexts = len(table.rows)
    sums = _Sums(np.zeros(num_contexts), np.zeros(num_contexts), np.zeros(num_contexts, np.bool_))
    for block in blocks_of():
        contexts = compiled(find_rows)(block.rows[:, 1:], table.rows, firsts)
        compiled(_add_up)(contexts, block.counts, block.adjusted, discounts, prune, sums)
    totals, freed, extended = sums
    weights = np.divide(freed, totals, out=np.ones_like(freed), where=totals > 0)
    kept_before = positions >= 0
    before.backoffs[positions[kept_before]] = weights[kept_before]
    before.begins_longer[positions[kept_before]] = extended[kept_before]

    parts, kept_of = [], []
    for block in blocks_of():
        kept = block.counts > prune
        kept_of.append(kept)
        block = block.select(kept)
        contexts = compiled(find_rows)(block.rows[:, 1:], table.rows, firsts)
        endings = positions[compiled(find_rows)(block.rows[:, :-1], table.rows, firsts)]
        own = (block.adjusted - discounts[np.minimum(block.adjusted, 3)]) / totals[contexts]
        probs = own + weights[contexts] * before.probs[endings]
        nothing = np.ones(len(probs)), np.zeros(len(probs), np.bool_)
        parts.append(Estimates(block.rows, block.counts, probs, *nothing, positions[contexts], endings))
    longer = Estimates(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return longer, np.concatenate(kept_of)


class _Sums(NamedTuple):
    """What is known of each context: its counts, the mass freed by discounting and pruning, and more."""

    totals: Float64
    freed: Float64
    extended: Mask  # whether an n-gram is kept that begins with it


@compilable
def _add_up(
    contexts: Counts, counts: Counts, adjusted: Counts, discounts: Float64, prune: int, sums: _Sums
) -> None:
    """Add the n-grams of a block to the sums of their contexts."""
    totals, freed, extended = sums
    for index in range(len(contexts)):
        context, count = contexts[index], adjusted[index]
        totals[context] += count
        if counts[index] > prune:
            freed[context] += discounts[min(count, 3)]
            extended[context] = True
        else:
            freed[context] += count


@compilable
def find_rows(wanted: Int32, rows: Int32, firsts: Counts) -> Counts:
    """Return the positions of rows that are all among the sorted ones.

    Args:
        wanted: (N, order) rows to find.
        rows: (M, order) sorted.
        firsts: index of the first row of each first word, and the number of rows at the end.
    """
    found = np.empty(len(wanted), np.int64)
    for index in range(len(wanted)):
        low, high = firsts[wanted[index, 0]], firsts[wanted[index, 0] + 1] - 1
        while low < high:
            middle = (low + high) // 2
            below = False
            for column in range(1, rows.shape[1]):
                if rows[middle, column] != wanted[index, column]:
                    below = rows[middle, column] < wanted[index, column]
                    break
            if below:
                low = middle + 1
            else:
                high = middle
        found[index] = low
    return found
