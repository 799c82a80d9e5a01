"""Map words to ids by hash, in the table that begins KenLM's probing files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compilable_inline, compiled
from asr.language.ngram.model import LONGEST_WORDS, Tables, Words32, num_buckets, seek, tables_of

Bytes = npt.NDArray[np.uint8]

MIX, SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
EIGHT = np.uint64(8)


def word_table(words: Sequence[str], count: int, buckets_per_entry: float) -> Tables:
    """Build a table of the ids of words.

    Args:
        words: words by id; `<unk>`, whose id is 0, is left out, as KenLM does.
        count: number of words to reserve room for.
        buckets_per_entry: see `num_buckets`.

    Returns:
        one hash table, each entry a hash in two 4-byte words and an id.
    """
    buckets = num_buckets(count, buckets_per_entry)
    memory = np.zeros(buckets * LONGEST_WORDS, np.uint32)
    tables = tables_of(memory, [0], [buckets])
    encoded = [word.encode() for word in words]
    ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    compiled(insert)(tables, memory, np.frombuffer(b"".join(encoded), np.uint8), ends)
    return tables


@compilable
def insert(tables: Tables, memory: Words32, text: Bytes, ends: npt.NDArray[np.int64]) -> None:
    """Write the words from id 1 on into the table's memory; the text has all words, one after the other."""
    for word in range(1, len(ends)):
        key = hash_of(text, ends[word - 1], ends[word])
        index = seek(tables, 0, key)
        memory[index] = np.uint32(key & np.uint64(0xFFFFFFFF))
        memory[index + 1] = np.uint32(key >> np.uint64(32))
        memory[index + 2] = word


@compilable
def hash_of(text: Bytes, begin: int, end: int) -> np.uint64:
    """Return the 64-bit MurmurHash2 of Austin Appleby (MurmurHash64A) with seed 0."""
    state = np.uint64(end - begin) * MIX
    index = begin
    while index + 8 <= end:
        block = little_endian(text, index, index + 8) * MIX
        block ^= block >> SHIFT
        state = (state ^ (block * MIX)) * MIX
        index += 8
    if index < end:
        state = (state ^ little_endian(text, index, end)) * MIX
    state ^= state >> SHIFT
    state *= MIX
    return state ^ (state >> SHIFT)


@compilable_inline
def little_endian(text: Bytes, begin: int, end: int) -> np.uint64:
    """Return up to eight bytes as a number."""
    number = np.uint64(0)
    for index in range(end - 1, begin - 1, -1):
        number = (number << EIGHT) | np.uint64(text[index])
    return number
