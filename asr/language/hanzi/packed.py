"""Pack a small model into one file: 8-bit probabilities, sorted ids, split into planes of bytes."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError
from asr.base.system.cache import cached_array
from asr.base.system.files import sha256_of, whole_file
from asr.language.hanzi.dictionary import Chosen, Dictionary, Trie
from asr.language.ngram.model import NGramModel, NGrams, begins_of, tables_over

STEPS = 32.0  # steps per unit of a logarithm (base 10; in readings base e): the error is up to 0.016
LARGEST = 255
ID_BYTES = 3

UInt8 = npt.NDArray[np.uint8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]


def pack(path: Path, words: Sequence[str], ngrams: Sequence[NGrams], dictionary: Dictionary) -> None:
    """Write a model to a file; the same model gives the same bytes.

    Args:
        path: path of the file, `.npz`.
        words: words by id.
        ngrams: n-grams of each order, sorted by words; the first words of each are n-grams, too.
        dictionary: pronunciations of words of the model.

    Raises:
        UserError: the file cannot be written.
    """
    trie = dictionary.trie
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "words": _bytes("\n".join(words)),
        "syllables": _bytes("\n".join(dictionary.syllables)),
        "trie_syllables": _planes(trie.syllables),
        "num_children": _planes(np.diff(trie.first_child)),
        "num_entries": _planes(np.diff(trie.first_entry)),
        "entry_words": _planes(trie.entry_words),
        "entry_log_probs": _codes(trie.entry_log_probs),
    }
    for order, table in enumerate(ngrams, start=1):
        arrays[f"probs_{order}"] = _codes(table.log10_probs)
        arrays[f"backoffs_{order}"] = _backoff_codes(table.log10_backoffs)
        if order > 1:
            contexts = _places(table.ids[:, :-1], ngrams[order - 2].ids)
            num_contexts = len(ngrams[order - 2].ids)
            arrays[f"num_longer_{order}"] = _planes(np.bincount(contexts, minlength=num_contexts))
            arrays[f"last_words_{order}"] = _planes(table.ids[:, -1])
    with whole_file(path, "packed model") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def unpack(path: Path) -> tuple[NGramModel, Dictionary]:
    """Read a model that `pack` wrote, with its hash tables built, from the cache if they are there.

    Raises:
        UserError: the file is missing or damaged.
    """
    with _opened(path) as arrays:
        words = _lines(arrays["words"])
        counts = [len(arrays[f"probs_{order}"]) for order in _orders(arrays)]
        memory = cached_array(
            f"hanzi-{sha256_of(path).hex()[:16]}",
            begins_of(counts)[-1],
            lambda: NGramModel.of_ngrams(words, _ngrams(arrays, len(words))).tables.memory,
        )
        return NGramModel(words, tables_over(memory, counts), counts), _dictionary(arrays, words)


def read_packed(path: Path) -> tuple[list[str], list[NGrams], Dictionary]:
    """Read the words, n-grams and dictionary that were given to `pack`.

    Raises:
        UserError: the file is missing or damaged.
    """
    with _opened(path) as arrays:
        words = _lines(arrays["words"])
        return words, _ngrams(arrays, len(words)), _dictionary(arrays, words)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Arrays]:
    try:
        with np.load(path) as arrays:
            yield arrays
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: cannot read this model ({error}); reinstall Polyphone") from None


def _orders(arrays: Arrays) -> range:
    return range(1, sum(name.startswith("probs_") for name in arrays) + 1)


def _ngrams(arrays: Arrays, num_words: int) -> list[NGrams]:
    ids = np.arange(num_words, dtype=np.int32)[:, None]
    ngrams = []
    for order in _orders(arrays):
        if order > 1:
            contexts = np.repeat(ids, _numbers(arrays[f"num_longer_{order}"]), axis=0)
            ids = np.column_stack([contexts, _numbers(arrays[f"last_words_{order}"])])
        ngrams.append(NGrams(ids, _logs(arrays[f"probs_{order}"]), _logs(arrays[f"backoffs_{order}"])))
    return ngrams


def _dictionary(arrays: Arrays, words: Sequence[str]) -> Dictionary:
    trie = Trie(
        _numbers(arrays["trie_syllables"]),
        _firsts(_numbers(arrays["num_children"]), 1),
        _firsts(_numbers(arrays["num_entries"]), 0),
        _numbers(arrays["entry_words"]),
        _logs(arrays["entry_log_probs"]),
    )
    return Dictionary(_lines(arrays["syllables"]), trie, Chosen(words, trie.entry_words))


def _lines(encoded: UInt8) -> list[str]:
    return encoded.tobytes().decode().split("\n")


def _bytes(text: str) -> UInt8:
    return np.frombuffer(text.encode(), np.uint8)


def _planes(numbers: npt.NDArray[np.integer]) -> UInt8:
    """Return numbers (N,) as planes of bytes (3, N), the lowest first."""
    assert numbers.min(initial=0) >= 0
    assert numbers.max(initial=0) < 256**ID_BYTES
    return np.ascontiguousarray(numbers.astype("<u4")[:, None].view(np.uint8)[:, :ID_BYTES].T)


def _numbers(planes: UInt8) -> Int32:
    numbers = np.zeros(planes.shape[1], np.int32)
    for index in range(ID_BYTES):
        numbers |= planes[index].astype(np.int32) << (8 * index)
    return numbers


def _codes(logs: Float32) -> UInt8:
    """Quantise logarithms of at most 0."""
    steps = np.round(logs.astype(np.float64) * -STEPS)
    return np.clip(steps, 0, LARGEST).astype(np.uint8)


def _backoff_codes(log10_backoffs: Float32) -> UInt8:
    """Encode backoffs; code 0 (-0.0) is reserved for n-grams that begin no longer one."""
    begins_longer = ~((log10_backoffs == 0) & np.signbit(log10_backoffs))
    codes: UInt8 = np.maximum(_codes(log10_backoffs), begins_longer.astype(np.uint8))
    return codes


def _logs(codes: UInt8) -> Float32:
    return (codes.astype(np.float32) / -STEPS).astype(np.float32)


def _firsts(counts: Int32, first: int) -> Int32:
    """Return where each of several consecutive runs begins, and where the last one ends."""
    return np.concatenate([[first], first + np.cumsum(counts)]).astype(np.int32)


def _places(rows: Int32, table: Int32) -> Int64:
    """Return the indices of rows in a sorted table that contains them all."""
    indices = {row: index for index, row in enumerate(map(tuple, table.tolist()))}
    return np.array([indices[row] for row in map(tuple, rows.tolist())], np.int64)
