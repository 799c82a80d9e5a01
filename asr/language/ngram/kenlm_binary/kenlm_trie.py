"""Read the n-grams of KenLM's tries, sorted by their last word, the word before it, etc., and bit-packed.

The layout is that of github.com/kpu/kenlm: lm/trie.hh, with values in tables if quantised (lm/quantize.hh)
and the high bits of pointers in arrays if array-compressed (lm/bhiksha.hh, Raj and Whittaker, 2003).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compiled
from asr.language.ngram.kenlm_binary.kenlm_header import (
    ARRAYS,
    COPY,
    QUANTISED,
    REBUILD,
    KenlmHeader,
    aligned,
    format_error,
    truncated_error,
)
from asr.language.ngram.model import Float32, Int32, NGrams
from asr.language.ngram.word_table import Bytes

Int64 = npt.NDArray[np.int64]
Uint64 = npt.NDArray[np.uint64]

UNIGRAM = np.dtype([("log10_prob", "<f4"), ("log10_backoff", "<f4"), ("next", "<u8")])
PROB_BITS, BACKOFF_BITS = 31, 32  # if not quantised; a probability's sign is not stored
SIGN = np.uint32(0x80000000)
QUANTISATION_VERSION, ARRAY_VERSION = 2, 0
PADDING_BYTES = 8  # let KenLM read whole words at the end
MAX_QUANTISED_BITS = 25


class Values(NamedTuple):
    """How the probabilities and backoffs of one order are stored."""

    prob_bits: int
    backoff_bits: int
    probs: Float32 | None = None  # value of each code; None if the values are not quantised
    backoffs: Float32 | None = None


class KenlmTrie:
    """A file that is read part by part.

    Args:
        path: path of the file.
        file: its bytes.
        header: its header.
    """

    def __init__(self, path: Path, file: Bytes, header: KenlmHeader) -> None:
        self.path, self.file, self.header = path, file, header
        self.place = header.size_bytes + 8 + 8 * header.counts[0]  # after the sorted hashes of the words

    def take(self, num_bytes: int) -> Bytes:
        """Return the next bytes."""
        end = self.place + num_bytes
        if end > len(self.file):
            raise truncated_error(self.path, end, len(self.file))
        self.place, begin = end, self.place
        return self.file[begin:end]


def read_trie(path: Path, file: Bytes, header: KenlmHeader) -> tuple[list[NGrams], int]:
    """Return all n-grams by order, and the position in the file at which the words begin.

    Raises:
        UserError: the file is truncated or damaged.
    """
    trie = KenlmTrie(path, file, header)
    values = _values(trie)
    unigrams = trie.take((header.counts[0] + 2) * UNIGRAM.itemsize).view(UNIGRAM)
    num_words = header.counts[0]
    ids: Int32 = np.arange(num_words, dtype=np.int32)[:, None]
    ngrams = [NGrams(ids, unigrams["log10_prob"][:num_words], unigrams["log10_backoff"][:num_words])]
    following = unigrams["next"][: num_words + 1].astype(np.int64)
    for order, how in enumerate(values, start=2):
        _check_pointers(trie, following, header.counts[order - 1])
        parents = ids[np.repeat(np.arange(len(ids)), np.diff(following))]
        words, probs, backoffs, following = _read_order(trie, order, how)
        if len(words) and words.max() >= num_words:
            raise format_error(
                path, f"words below {num_words:,}", f"{words.max():,} in the {order}-grams", COPY
            )
        ids = np.column_stack([words.astype(np.int32), parents])
        ngrams.append(NGrams(ids, probs, backoffs))
    return ngrams, trie.place


def _values(trie: KenlmTrie) -> list[Values]:
    """Return how the values of each order from 2 on are stored."""
    order = len(trie.header.counts)
    if trie.header.kind not in QUANTISED:
        return [Values(PROB_BITS, BACKOFF_BITS)] * (order - 2) + [Values(PROB_BITS, 0)]
    version, prob_bits, backoff_bits = trie.take(8)[:3].tolist()
    if version != QUANTISATION_VERSION or max(prob_bits, backoff_bits) > MAX_QUANTISED_BITS:
        expected = f"quantisation of version {QUANTISATION_VERSION}"
        raise format_error(
            trie.path, expected, f"version {version}, {prob_bits} and {backoff_bits} bits", REBUILD
        )
    values = []
    for longest in [False] * (order - 2) + [True]:
        probs = trie.take(4 << prob_bits).view(np.float32)
        if longest:
            values.append(Values(prob_bits, 0, probs))
        else:
            values.append(
                Values(prob_bits, backoff_bits, probs, trie.take(4 << backoff_bits).view(np.float32))
            )
    return values


def _read_order(trie: KenlmTrie, order: int, how: Values) -> tuple[Uint64, Float32, Float32, Int64]:
    """Return words, probabilities, backoffs, and where the extensions of each n-gram begin."""
    counts = trie.header.counts
    num_entries, longest = counts[order - 1], order == len(counts)
    word_bits = counts[0].bit_length()
    next_bits, high = (0, None) if longest else _pointers(trie, num_entries + 1, counts[order])
    entry_bits = word_bits + how.prob_bits + how.backoff_bits + next_bits
    packed = trie.take(((1 + num_entries) * entry_bits + 7) // 8 + PADDING_BYTES)
    words = compiled(unpack)(packed, 0, entry_bits, num_entries, word_bits)
    # KenLM writes a quantised backoff before the probability, and an unquantised one after it
    prob_bit, backoff_bit = word_bits, word_bits + how.prob_bits
    if how.probs is not None:
        prob_bit, backoff_bit = word_bits + how.backoff_bits, word_bits
    prob_codes = compiled(unpack)(packed, prob_bit, entry_bits, num_entries, how.prob_bits)
    backoff_codes = compiled(unpack)(packed, backoff_bit, entry_bits, num_entries, how.backoff_bits)
    if how.probs is None:
        probs = (prob_codes.astype(np.uint32) | SIGN).view(np.float32)
        backoffs = backoff_codes.astype(np.uint32).view(np.float32)
    else:
        probs = how.probs[prob_codes]
        backoffs = how.backoffs[backoff_codes] if how.backoffs is not None else np.zeros_like(probs)
    pointers = compiled(unpack)(
        packed, entry_bits - next_bits, entry_bits, num_entries + 1, next_bits
    ).astype(np.int64)
    if high is not None:
        of_entry = np.searchsorted(high, np.arange(num_entries + 1), side="right") - 1
        pointers |= of_entry << next_bits
    return words, probs, backoffs, pointers


def _pointers(trie: KenlmTrie, num_pointers: int, largest: int) -> tuple[int, Int64 | None]:
    """Return the bits of a pointer in its entry, and the first entry with each value of its other bits."""
    if trie.header.kind not in ARRAYS:
        return largest.bit_length(), None
    begin = trie.place
    version, most_bits = trie.take(2).tolist()
    if version != ARRAY_VERSION:
        raise format_error(trie.path, f"arrays of version {ARRAY_VERSION}", f"version {version}", REBUILD)
    high_bits = _high_bits(num_pointers, largest, most_bits)
    next_bits = largest.bit_length() - high_bits
    length = (largest >> next_bits) + 1
    trie.place = aligned(begin) + 8
    high = trie.take(8 * length).view(np.int64)
    trie.place = begin + 8 * (1 + length) + 7  # padding for alignment
    return next_bits, high


def _high_bits(num_pointers: int, largest: int, most_bits: int) -> int:
    """Return how many bits KenLM keeps in an array: the number that minimizes the total size."""
    total = largest.bit_length()

    def added_bits(high_bits: int) -> int:
        return 64 * (largest >> (total - high_bits)) - num_pointers * high_bits

    return min(range(min(total, most_bits) + 1), key=added_bits)


def _check_pointers(trie: KenlmTrie, pointers: Int64, num_entries: int) -> None:
    if pointers[0] != 0 or pointers[-1] != num_entries or (np.diff(pointers) < 0).any():
        expected = f"pointers that increase from 0 to {num_entries:,}"
        raise format_error(trie.path, expected, f"{pointers[0]:,} to {pointers[-1]:,}", COPY)


@compilable
def unpack(packed: Bytes, first_bit: int, entry_bits: int, count: int, num_bits: int) -> Uint64:
    """Return a field of up to 57 bits of each entry."""
    fields = np.empty(count, np.uint64)
    mask = (np.uint64(1) << np.uint64(num_bits)) - np.uint64(1)
    for entry in range(count):
        bit = first_bit + entry * entry_bits
        number = np.uint64(0)
        for place in range(bit // 8 + 7, bit // 8 - 1, -1):
            number = (number << np.uint64(8)) | np.uint64(packed[place])
        fields[entry] = (number >> np.uint64(bit % 8)) & mask
    return fields
