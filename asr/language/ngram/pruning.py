"""Prune by relative entropy: drop the n-grams whose loss changes the model least.

Stolcke (1998), "Entropy-based Pruning of Backoff Language Models": each n-gram is ranked by the relative
entropy between the model with it and without it. A context is weighted by how often it occurs in the text,
because Kneser-Ney's probabilities of short n-grams are not probabilities of contexts (Chelba et al., 2010,
"Study on Interaction between Entropy Pruning and Kneser-Ney Smoothing").
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from asr.language.ngram.counting import BEGIN_ID, END_ID, Counts
from asr.language.ngram.kneser_ney import Estimates, Float64, Mask
from asr.language.ngram.model import (
    BUCKETS_PER_ENTRY,
    LONGEST_WORDS,
    MIDDLE_WORDS,
    UNIGRAM_WORDS,
    num_buckets,
)

BYTES_PER_WORD = 4  # of a word of the tables' memory
MIN_LEFT_OVER = 1e-12  # avoids the logarithm of 0


def table_bytes(counts: Sequence[int]) -> int:
    """Return the size of a model's tables, given the number of n-grams of each order."""
    total = (counts[0] + 1) * UNIGRAM_WORDS
    for order, count in enumerate(counts[1:], start=2):
        words = LONGEST_WORDS if order == len(counts) else MIDDLE_WORDS
        total += num_buckets(count, BUCKETS_PER_ENTRY) * words
    return total * BYTES_PER_WORD


def prune_to_size(estimates: Sequence[Estimates], max_bytes: int) -> list[Estimates]:
    """Return the model without as many n-grams as needed for its tables to have at most this size.

    All unigrams are kept, and all parts of a kept n-gram. The probabilities in each context still sum to 1.
    """
    if table_bytes([len(table.rows) for table in estimates]) <= max_bytes:
        return list(estimates)
    losses = _losses(estimates)
    values = np.unique(np.concatenate(losses))
    low, high = (
        0,
        len(values),
    )  # n-grams above values[low - 1] are too many, those above values[high - 1] are not
    while low + 1 < high:
        middle = (low + high) // 2
        sizes = [len(estimates[0].rows), *(int((loss > values[middle - 1]).sum()) for loss in losses)]
        if table_bytes(sizes) > max_bytes:
            low = middle
        else:
            high = middle
    return _without(estimates, [loss > values[high - 1] for loss in losses])


def _losses(estimates: Sequence[Estimates]) -> list[Float64]:
    """Return the loss of dropping each n-gram of order 2 and more; its parts get at least the same loss."""
    losses = [_own_losses(table, shorter) for shorter, table in itertools.pairwise(estimates)]
    for order in range(len(losses) - 1, 0, -1):
        table = estimates[order + 1]
        np.maximum.at(losses[order - 1], table.contexts, losses[order])
        np.maximum.at(losses[order - 1], table.endings, losses[order])
    return losses


def _own_losses(table: Estimates, shorter: Estimates) -> Float64:
    """Return, for each n-gram, the relative entropy between the models with and without it."""
    backed_off = shorter.probs[table.endings]
    left, left_shorter = _left_over(table, shorter)
    left, left_shorter = left[table.contexts], left_shorter[table.contexts]
    weight = np.log(shorter.backoffs[table.contexts])
    new_weight = np.log(left + table.probs) - np.log(left_shorter + backed_off)
    counts = shorter.counts.copy()
    if shorter.rows.shape[1] == 1:
        # <s> begins each sentence, but is not counted, since it follows no word
        counts[BEGIN_ID] = counts[END_ID]
    occurs = counts[table.contexts] / max(1, shorter.counts.sum())
    change = table.probs * (np.log(backed_off) + new_weight - np.log(table.probs))
    losses: Float64 = -occurs * (change + left * (new_weight - weight))
    return losses


def _left_over(table: Estimates, shorter: Estimates) -> tuple[Float64, Float64]:
    """Return the probability that each context, and its shorter one, leaves to words without an n-gram."""
    num = len(shorter.rows)
    given = np.bincount(table.contexts, table.probs, num)
    shorter_given = np.bincount(table.contexts, shorter.probs[table.endings], num)
    return np.maximum(1 - given, MIN_LEFT_OVER), np.maximum(1 - shorter_given, MIN_LEFT_OVER)


def _without(estimates: Sequence[Estimates], kept: Sequence[Mask]) -> list[Estimates]:
    """Return the model of the kept n-grams of order 2 and more, with recomputed backoffs."""
    pruned = [estimates[0]]
    positions: Counts = np.arange(len(estimates[0].rows))
    for table, mask in zip(estimates[1:], kept, strict=True):
        if not mask.any():
            break
        contexts, endings = positions[table.contexts[mask]], positions[table.endings[mask]]
        pruned.append(table.select(mask)._replace(contexts=contexts, endings=endings))
        positions = np.where(mask, np.cumsum(mask) - 1, -1)
    for order, shorter in enumerate(pruned):
        backoffs, begins = np.ones(len(shorter.rows)), np.zeros(len(shorter.rows), np.bool_)
        if order + 1 < len(pruned):
            left, left_shorter = _left_over(pruned[order + 1], shorter)
            begins[pruned[order + 1].contexts] = True
            backoffs[begins] = (left / left_shorter)[begins]
        pruned[order] = shorter._replace(backoffs=backoffs, begins_longer=begins)
    return pruned
