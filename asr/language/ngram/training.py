"""Train an n-gram model on sentences of word ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.base.errors import UserError
from asr.language.ngram.counting import count_ngrams
from asr.language.ngram.kneser_ney import Estimates, smooth
from asr.language.ngram.model import (
    BUCKETS_PER_ENTRY,
    LONGEST_WORDS,
    MAX_ORDER,
    NO_EXTENSION,
    SENTENCE_BEGIN,
    SENTENCE_END,
    UNKNOWN,
    Int32,
    NGramModel,
    NGrams,
    num_buckets,
)
from asr.language.ngram.pruning import BYTES_PER_WORD, prune_to_size, table_bytes

SPECIAL_WORDS = (UNKNOWN, SENTENCE_BEGIN, SENTENCE_END)  # with the ids 0, 1 and 2
MB = 10**6
HEADER_BYTES = 1000  # upper bound for a KenLM file


@dataclass(frozen=True)
class TrainingOptions:
    """The options of training a model.

    Attributes:
        order: length of the longest n-grams, from 2 to 6.
        prune: n-grams of each order that occur at most this often are dropped; the last number is used for
            all longer ones.
        max_bytes: maximum size of the model as a file; 0 for any size.
        memory_bytes: memory for counting; all shorter n-grams, and the longest that `prune` keeps, need more.
    """

    order: int = 3
    prune: tuple[int, ...] = (0,)
    max_bytes: int = 0
    memory_bytes: int = 500 * MB

    def __post_init__(self) -> None:
        if not 2 <= self.order <= MAX_ORDER:
            raise UserError(f"`order`: expected 2 to {MAX_ORDER}, received {self.order}")
        if not self.prune or self.prune[0] != 0 or list(self.prune) != sorted(self.prune):
            raise UserError(
                f"`prune`: expected a count for each order, such as 0 0 1, the first 0 and none lower "
                f"than the one before it, received {' '.join(map(str, self.prune))}"
            )
        if len(self.prune) > self.order:
            raise UserError(f"`prune`: expected at most {self.order} counts, received {len(self.prune)}")

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Return the pruning count of each order."""
        return (*self.prune, *(self.prune[-1:] * (self.order - len(self.prune))))


@dataclass(frozen=True)
class TrainedNGrams:
    """A trained model with statistics of its training.

    Attributes:
        model: the model.
        num_unpruned: number of n-grams of each order before the size was limited.
        discounts: for each order, of n-grams seen once, twice and more often.
        fallback_orders: orders with fallback discounts, for a text too small or too regular.
    """

    model: NGramModel
    num_unpruned: tuple[int, ...]
    discounts: tuple[tuple[float, ...], ...]
    fallback_orders: tuple[int, ...]


def train_ngrams(
    words: Sequence[str], blocks: Iterable[Int32], folder: Path, options: TrainingOptions
) -> TrainedNGrams:
    """Train a model by interpolated modified Kneser-Ney smoothing.

    The same sentences give the same model, whatever the memory for counting.

    Args:
        words: words by id; the first are `SPECIAL_WORDS`.
        blocks: whole sentences of ids, each ending with the id of </s>; at least one sentence.
        folder: folder for temporary files without a name.
        options: see `TrainingOptions`.

    Raises:
        UserError: the folder's disk is full, or `max_bytes` is too small for the words alone.
    """
    assert tuple(words[:3]) == SPECIAL_WORDS
    max_table_bytes = options.max_bytes - _vocabulary_bytes(words)
    least_bytes = _vocabulary_bytes(words) + table_bytes([len(words), 0])
    if options.max_bytes and least_bytes > options.max_bytes:
        raise UserError(
            f"the model: expected a maximum size of at least {least_bytes / MB + 0.05:.1f} MB, which "
            f"{len(words):,} words take alone, received {options.max_bytes / MB:g} MB; allow more"
        )
    counts = count_ngrams(blocks, options.order, len(words), options.memory_bytes, folder)
    smoothing = smooth(counts, options.order, len(words), options.thresholds)
    estimates = smoothing.estimates
    num_unpruned = tuple(len(table.rows) for table in estimates)
    if options.max_bytes:
        estimates = prune_to_size(estimates, max_table_bytes)
    return TrainedNGrams(
        NGramModel.of_ngrams(list(words), _in_reading_order(estimates)),
        num_unpruned,
        tuple(tuple(float(value) for value in row) for row in smoothing.discounts),
        smoothing.fallback_orders,
    )


def _vocabulary_bytes(words: Sequence[str]) -> int:
    """Return the size of a KenLM file without the n-gram tables."""
    strings = sum(len(word.encode()) + 1 for word in words)
    return (
        HEADER_BYTES + BYTES_PER_WORD * LONGEST_WORDS * num_buckets(len(words), BUCKETS_PER_ENTRY) + strings
    )


def _in_reading_order(estimates: Sequence[Estimates]) -> list[NGrams]:
    tables = []
    for table in estimates:
        log10_backoffs = np.log10(table.backoffs).astype(np.float32)
        log10_backoffs[~table.begins_longer] = NO_EXTENSION
        log10_probs = np.log10(table.probs).astype(np.float32)
        tables.append(NGrams(np.ascontiguousarray(table.rows[:, ::-1]), log10_probs, log10_backoffs))
    if len(tables) == 1:  # all 2-grams were pruned; a model needs a table of them
        nothing = np.zeros(0, np.float32)
        tables.append(NGrams(np.zeros((0, 2), np.int32), nothing, nothing))
    return tables
