"""List the n-grams of a model from its hash tables, which store no words.

Candidates are all overlapping pairs of shorter n-grams that the tables mark as parts of longer ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compiled, copy_into
from asr.base.work import OnProgress, Work, ignore_progress
from asr.language.ngram.model import (
    MIDDLE_WORDS,
    UNIGRAM_WORDS,
    Int32,
    NGramModel,
    NGrams,
    Tables,
    extend_key,
    find,
    key_of,
    keys_of,
)

PAIRS_AT_ONCE = 1 << 24


def ngrams_of(model: NGramModel, on_progress: OnProgress = ignore_progress) -> list[NGrams]:
    """Return all n-grams of a model by order.

    This is slow for large vocabularies: the number of candidates grows with the square of the words.
    """
    num_words = len(model.words)
    weights = model.tables.floats[: num_words * UNIGRAM_WORDS].reshape(-1, UNIGRAM_WORDS)
    listed = [NGrams(np.arange(num_words, dtype=np.int32)[:, None], *weights.T)]
    for table in range(model.order - 1):
        listed.append(_longer(model.tables, table, listed[-1], on_progress))
    return [table._replace(log10_probs=-np.abs(table.log10_probs)) for table in listed]


def _longer(tables: Tables, table: int, shorter: NGrams, on_progress: OnProgress) -> NGrams:
    """Return the n-grams of the next order, sorted."""
    begin, num_buckets, entry_words = tables.begins[table], tables.buckets[table], tables.entry_words[table]
    entries = tables.memory[begin : begin + num_buckets * entry_words].reshape(-1, entry_words)
    num_entries = int(np.count_nonzero(entries[:, 0] | entries[:, 1]))
    begun = shorter.ids[~((shorter.log10_backoffs == 0) & np.signbit(shorter.log10_backoffs))]
    ended = shorter.ids[~np.signbit(shorter.log10_probs)]
    ids = np.empty((num_entries, shorter.ids.shape[1] + 1), np.int32)
    indices = np.empty(num_entries, np.int64)
    count = 0
    for candidates in _pieces(begun, ended):
        count = compiled(look_up)(tables, table, candidates, ids, indices, count)
        on_progress(Work(f"listing {ids.shape[1]}-grams", count, num_entries, "n-grams"))
    order = np.lexsort(ids[:count].T[::-1])
    ids, indices = ids[order], indices[order]
    probs = tables.floats[indices + 2]
    backoffs = tables.floats[indices + 3] if entry_words == MIDDLE_WORDS else np.zeros_like(probs)
    return NGrams(ids, probs, backoffs)


class _Candidates(NamedTuple):
    """N-grams that may exist, by all but their last word and all but their first."""

    begun: Int32  # (N, order)
    ended: Int32  # (M, order)
    overlaps: npt.NDArray[np.int64]  # (N, 2) range of those of `ended` that each of `begun` overlaps


def _pieces(begun: Int32, ended: Int32) -> Iterator[_Candidates]:
    """Yield the n-grams that these may form, some at a time."""
    if begun.shape[1] == 1:
        overlaps = np.tile(np.array([0, len(ended)]), (len(begun), 1))
    else:
        keys = compiled(keys_of)(np.ascontiguousarray(ended[:, :-1]))
        order = np.argsort(keys)
        ended, keys = ended[order], keys[order]
        wanted = compiled(keys_of)(np.ascontiguousarray(begun[:, 1:]))
        overlaps = np.column_stack([np.searchsorted(keys, wanted, side) for side in ("left", "right")])
    pieces = np.cumsum(overlaps[:, 1] - overlaps[:, 0]) // PAIRS_AT_ONCE
    for rows in np.split(np.arange(len(begun)), np.flatnonzero(np.diff(pieces)) + 1):
        yield _Candidates(begun[rows], ended, overlaps[rows])


@compilable
def look_up(
    tables: Tables,
    table: int,
    candidates: _Candidates,
    ids: Int32,
    indices: npt.NDArray[np.int64],
    count: int,
) -> int:
    """Write the candidates that are in a table, and their positions, from row `count` on; return the end."""
    begun, ended, overlaps = candidates
    for row in range(len(begun)):
        for last in range(overlaps[row, 0], overlaps[row, 1]):
            key = extend_key(key_of(ended[last]), begun[row, 0])
            found = find(tables, table, key)
            if found >= 0:
                ids[count, 0] = begun[row, 0]
                copy_into(ids[count, 1:], ended[last])
                indices[count] = found
                count += 1
    return count
