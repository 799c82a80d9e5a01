"""Complete tables of n-grams so that backing off finds every n-gram."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compiled
from asr.base.errors import UserError
from asr.language.ngram.model import Float32, Int32, NGrams, keys_of

Keys = npt.NDArray[np.uint64]


def complete_ngrams(path: Path, words: Sequence[str], ngrams: Sequence[NGrams]) -> list[NGrams]:
    """Return the n-grams with those restored that were pruned, but are the last words of longer ones.

    Args:
        path: path of the file, for errors.
        words: words by id.
        ngrams: n-grams of each order.

    Raises:
        UserError: an n-gram appears twice, or its first words are not an n-gram.
    """
    tables = list(ngrams)
    num_given = [len(table.ids) for table in tables]
    for index in range(len(tables) - 1, 1, -1):
        tables[index - 1] = _with_pruned(tables[index - 1], tables[index].ids[:, 1:])
    for index in range(1, len(tables)):
        shorter, table, given = tables[index - 1], tables[index], num_given[index]
        if index > 1 and (row := _first(~np.isin(_keys(table.ids[:, :-1]), _keys(shorter.ids)))) is not None:
            gram, context = _text_of(words, table.ids[row]), _text_of(words, table.ids[row, :-1])
            raise UserError(
                f"{path}: expected {context!r} among the {index}-grams, as {gram!r} begins with it, "
                "received none; prune only n-grams that begin no longer ones"
            )
        if (row := _repeated(_keys(table.ids))) is not None:
            raise UserError(f"{path}: the {index + 1}-gram {_text_of(words, table.ids[row])!r} appears twice")
        table.log10_probs[given:] = _weights(shorter, table.ids[given:, 1:], shorter.log10_probs) + _weights(
            shorter, table.ids[given:, :-1], shorter.log10_backoffs
        )
    return tables


def _with_pruned(table: NGrams, needed: Int32) -> NGrams:
    """Append the n-grams that a table lacks, with a probability to be filled in later."""
    pruned = np.unique(needed[~np.isin(_keys(needed), _keys(table.ids))], axis=0)
    zeros = np.zeros(len(pruned), np.float32)
    return NGrams(
        np.concatenate([table.ids, pruned]),
        np.concatenate([table.log10_probs, zeros]),
        np.concatenate([table.log10_backoffs, zeros]),
    )


def _weights(table: NGrams, ids: Int32, weights: Float32) -> Float32:
    """Return the weights of n-grams that are in the table."""
    if not len(ids):
        return np.zeros(0, np.float32)
    keys = _keys(table.ids)
    order = np.argsort(keys)
    return weights[order[np.searchsorted(keys, _keys(ids), sorter=order)]]


def _keys(ids: Int32) -> Keys:
    keys: Keys = compiled(keys_of)(np.ascontiguousarray(ids))
    return keys


def _first(found: npt.NDArray[np.bool_]) -> int | None:
    return int(found.argmax()) if found.any() else None


def _repeated(keys: Keys) -> int | None:
    """Return the index of a key that appears twice; None if there is none."""
    order = np.argsort(keys, kind="stable")
    row = _first(keys[order][1:] == keys[order][:-1])
    return int(order[row + 1]) if row is not None else None


def _text_of(words: Sequence[str], ids: Int32) -> str:
    return " ".join(words[index] for index in ids)
