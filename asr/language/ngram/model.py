"""Store a backoff n-gram model in the hash tables of KenLM's probing format, which can be memory-mapped.

Each order has a table with open addressing and linear probing. An n-gram's key is computed from its last
word backwards, so that another word of context takes one more multiplication. After Heafield (2011), "KenLM:
Faster and Smaller Language Model Queries".
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compilable_inline, compiled

Words32 = npt.NDArray[np.uint32]
Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]

UNKNOWN, SENTENCE_BEGIN, SENTENCE_END = "<unk>", "<s>", "</s>"
UNKNOWN_ID = 0
LN10 = math.log(10.0)
MAX_ORDER = 6  # KenLM's default

# sizes of entries in 4-byte words: probability and backoff; 8-byte key and both; 8-byte key and probability
UNIGRAM_WORDS, MIDDLE_WORDS, LONGEST_WORDS = 2, 4, 3
BUCKETS_PER_ENTRY = 1.5
NO_EXTENSION = np.float32(-0.0)  # the backoff of an n-gram that begins no longer one
FIRST_FACTOR = np.uint64(8978948897894561157)
NEXT_FACTOR = np.uint64(17894857484156487943)


class Tables(NamedTuple):
    """The model in the form that compiled functions use.

    All arrays are read-only, so that functions are compiled once for mapped files and for arrays.

    Attributes:
        memory: the unigrams by id, then a hash table for each higher order.
        floats: the same memory as float32.
        begins: (order - 1,) int64 index at which the table of 2-grams, 3-grams, ... begins in it.
        buckets: (order - 1,) int64 number of entries for which each table has room.
        entry_words: (order - 1,) int64 size of an entry of each table in 4-byte words.
    """

    memory: Words32
    floats: Float32
    begins: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int64]
    entry_words: npt.NDArray[np.int64]


class Context(NamedTuple):
    """The words that a model conditions on, the last one first; arrays are used up to `length`."""

    words: Int32  # (order - 1,)
    backoffs: Float32  # (order - 1,) log10, of the last word, of the last two, ...
    length: int


class NGrams(NamedTuple):
    """All n-grams of one order."""

    ids: Int32  # (N, order) in reading order
    log10_probs: Float32  # (N,)
    log10_backoffs: Float32  # (N,) zeros for the highest order


class NGramModel:
    """An n-gram language model.

    Args:
        words: words by id; the first is `<unk>`, and `<s>` and `</s>` are among them.
        tables: hash tables of its n-grams.
        counts: number of n-grams of each order.
        buckets_per_entry: ratio of buckets to n-grams in the tables.
    """

    def __init__(
        self,
        words: Sequence[str],
        tables: Tables,
        counts: Sequence[int],
        buckets_per_entry: float = BUCKETS_PER_ENTRY,
    ) -> None:
        self.words, self.tables, self.counts = words, tables, tuple(counts)
        self.buckets_per_entry = buckets_per_entry

    @property
    def order(self) -> int:
        """Return the length of the longest n-grams."""
        return len(self.counts)

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """Return the id of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def ids_of(self, words: Iterable[str]) -> Int32:
        """Return the ids of words; `UNKNOWN_ID` for unknown words."""
        return np.array([self.ids.get(word, UNKNOWN_ID) for word in words], np.int32)

    def empty_context(self) -> Context:
        """Return a context without words, in which only unigrams count."""
        return Context(np.zeros(self.order - 1, np.int32), np.zeros(self.order - 1, np.float32), 0)

    def begin_context(self) -> Context:
        """Return the context of a sentence's first word."""
        _, context = self.advance(self.empty_context(), self.words.index(SENTENCE_BEGIN))
        return context

    def advance(self, context: Context, word: int) -> tuple[float, Context]:
        """Return the natural log probability of a word in a context, and the context after it."""
        after = self.empty_context()
        log_prob, length, _ = advance(self.tables, *context, word, after.words, after.backoffs)
        return log_prob, after._replace(length=length)

    def log_probs(self, words: Sequence[str]) -> list[float]:
        """Return the natural log probability of each word of a sentence and of its end."""
        context = self.begin_context()
        log_probs = []
        for word in [*self.ids_of(words).tolist(), self.ids[SENTENCE_END]]:
            log_prob, context = self.advance(context, word)
            log_probs.append(log_prob)
        return log_probs

    @classmethod
    def of_ngrams(cls, words: Sequence[str], ngrams: Sequence[NGrams]) -> NGramModel:
        """Build a model of n-grams by order, from 1 to at least 2.

        Args:
            words: see `NGramModel`.
            ngrams: n-grams of each order; the unigrams are those of all words by id. Each n-gram's first
                words and its last words must be n-grams, too. The sign of a zero backoff is ignored.
        """
        counts = [len(table.ids) for table in ngrams]
        memory = np.zeros(begins_of(counts)[-1], np.uint32)
        tables = tables_over(memory, counts)
        fill_unigrams(memory.view(np.float32), ngrams[0].log10_probs, ngrams[0].log10_backoffs)
        for number, table in enumerate(ngrams[1:]):
            contiguous = NGrams(
                np.ascontiguousarray(table.ids, np.int32),
                np.ascontiguousarray(table.log10_probs, np.float32),
                np.ascontiguousarray(table.log10_backoffs, np.float32),
            )
            written = compiled(fill)(tables, memory, number, contiguous, longest=number == len(ngrams) - 2)
            assert written == len(table.ids), f"{table.ids[written]}: no n-gram of its first or last words"
        return cls(words, tables, counts)


def begins_of(counts: Sequence[int], buckets_per_entry: float = BUCKETS_PER_ENTRY) -> list[int]:
    """Return the index in memory at which the table of each order from 2 begins, and that of the end."""
    sizes = [num_buckets(count, buckets_per_entry) * MIDDLE_WORDS for count in counts[1:-1]]
    sizes += [num_buckets(counts[-1], buckets_per_entry) * LONGEST_WORDS] * (len(counts) > 1)
    first = (counts[0] + 1) * UNIGRAM_WORDS  # KenLM reserves one more
    return list(itertools.accumulate(sizes, initial=first))


def tables_over(
    memory: Words32, counts: Sequence[int], buckets_per_entry: float = BUCKETS_PER_ENTRY
) -> Tables:
    """Return the tables of a model over its memory, of the size that ends `begins_of`.

    Args:
        memory: filled, or zeros.
        counts: number of n-grams of each order.
        buckets_per_entry: see `num_buckets`.
    """
    *begins, _ = begins_of(counts, buckets_per_entry)
    return tables_of(memory, begins, [num_buckets(count, buckets_per_entry) for count in counts[1:]])


def num_buckets(count: int, buckets_per_entry: float) -> int:
    """Return the number of buckets for n-grams, computed in single precision as KenLM does."""
    return max(count + 1, int(np.float32(buckets_per_entry) * np.float32(count)))


def tables_of(memory: Words32, begins: Sequence[int], buckets: Sequence[int]) -> Tables:
    """Return tables over existing memory; the last has entries of the highest order."""
    entry_words = [MIDDLE_WORDS] * (len(begins) - 1) + [LONGEST_WORDS] * bool(begins)
    tables = Tables(
        memory.view(np.ndarray),
        memory.view(np.ndarray).view(np.float32),
        np.array(begins, np.int64),
        np.array(buckets, np.int64),
        np.array(entry_words, np.int64),
    )
    for array in tables:
        array.flags.writeable = False
    return tables


def fill_unigrams(floats: Float32, log10_probs: Float32, log10_backoffs: Float32) -> None:
    """Write the unigrams in the order of their ids."""
    pairs = floats[: len(log10_probs) * UNIGRAM_WORDS].reshape(-1, UNIGRAM_WORDS)
    pairs[:, 0] = -np.abs(log10_probs)
    pairs[:, 1] = np.where(log10_backoffs == 0, NO_EXTENSION, log10_backoffs)


@compilable
def advance(
    tables: Tables,
    context_words: Int32,
    context_backoffs: Float32,
    context_length: int,
    word: int,
    after_words: Int32,
    after_backoffs: Float32,
) -> tuple[float, int, int]:
    """Return the log probability of a word in a context, and write the context after it.

    Args:
        tables: tables of the model.
        context_words: (order - 1,) words of the context, see `Context`.
        context_backoffs: (order - 1,) backoffs of the context.
        context_length: length of the context.
        word: id of the word.
        after_words: (order - 1,) written: words of the next context; must not share memory with the context.
        after_backoffs: (order - 1,) written: backoffs of the next context.

    Returns:
        natural log probability; length of the context after the word; number of the context's words that the
        longest n-gram with this word has, 0 where only the word itself counts.
    """
    num_tables = len(tables.begins)
    log10_prob = tables.floats[word * 2]
    after_words[0], after_backoffs[0] = word, tables.floats[word * 2 + 1]
    key = np.uint64(word)
    matched = 0
    while matched < context_length and not np.signbit(log10_prob):  # a sign: no longer n-gram ends with it
        key = extend_key(key, context_words[matched])
        entry = find(tables, matched, key)
        if entry < 0:
            break
        log10_prob = tables.floats[entry + 2]
        matched += 1
        if matched == num_tables:
            break
        after_words[matched], after_backoffs[matched] = context_words[matched - 1], tables.floats[entry + 3]
    log10_prob = -abs(log10_prob)
    for index in range(matched, context_length):
        log10_prob += context_backoffs[index]
    length = min(matched + 1, num_tables)
    while length and after_backoffs[length - 1] == 0.0 and np.signbit(after_backoffs[length - 1]):
        length -= 1  # no longer n-gram begins with it
    return np.float64(log10_prob) * LN10, length, matched


@compilable_inline
def extend_key(key: np.uint64, word: int) -> np.uint64:
    """Return the key of an n-gram, given the key of its last words and the word before them."""
    # not `*`, which warns of the overflow where it is interpreted
    extended: np.uint64 = np.multiply(key, FIRST_FACTOR) ^ np.multiply(np.uint64(word + 1), NEXT_FACTOR)
    return extended


@compilable
def keys_of(ids: Int32) -> npt.NDArray[np.uint64]:
    """Return the keys of n-grams, (N, order) in reading order; a unigram's key is its id."""
    keys = np.empty(len(ids), np.uint64)
    for row in range(len(ids)):
        keys[row] = key_of(ids[row])
    return keys


@compilable
def key_of(words: Int32) -> np.uint64:
    """Return the key of an n-gram in reading order."""
    key = np.uint64(words[-1])
    for index in range(len(words) - 2, -1, -1):
        key = extend_key(key, words[index])
    return key


@compilable
def find(tables: Tables, table: int, key: np.uint64) -> int:
    """Return the index in memory of the entry with a key; -1 if there is none."""
    entry = seek(tables, table, key)
    return entry if entry >= 0 and (tables.memory[entry] or tables.memory[entry + 1]) else -1


@compilable
def seek(tables: Tables, table: int, key: np.uint64) -> int:
    """Return the index in memory of the entry with a key, or of the empty entry it would get.

    Returns -1 if the key is absent and no entry is empty, which happens in damaged files only.
    """
    begin: int = tables.begins[table]
    entry_words: int = tables.entry_words[table]
    end: int = begin + tables.buckets[table] * entry_words
    entry = begin + int(np.int64(key % np.uint64(tables.buckets[table]))) * entry_words
    for _ in range(tables.buckets[table]):
        stored = np.uint64(tables.memory[entry]) | (np.uint64(tables.memory[entry + 1]) << np.uint64(32))
        if stored == key or stored == np.uint64(0):
            return entry
        entry += entry_words
        if entry == end:
            entry = begin
    return -1


@compilable
def fill(tables: Tables, memory: Words32, table: int, ngrams: NGrams, longest: bool) -> int:
    """Write the n-grams of one order into its empty hash table, and mark the n-grams that they extend.

    The marks are KenLM's. The sign of a probability means that no longer n-gram ends with these words, the
    sign of a zero backoff that none begins with them, so that the context after them can be shorter.

    Args:
        tables: tables of the model.
        memory: their memory, written.
        table: index of the table of this order.
        ngrams: of this order.
        longest: whether they are of the highest order, without backoffs.

    Returns:
        the number of n-grams written; writing stops at one whose first or last words are not an n-gram.
    """
    floats = memory.view(np.float32)
    for row in range(len(ngrams.ids)):
        first = weights_of(tables, ngrams.ids[row, :-1])
        last = weights_of(tables, ngrams.ids[row, 1:])
        if first < 0 or last < 0:
            return row
        if floats[first + 1] == 0.0:
            floats[first + 1] = 0.0
        floats[last] = abs(floats[last])
        key = key_of(ngrams.ids[row])
        entry = seek(tables, table, key)
        memory[entry] = np.uint32(key & np.uint64(0xFFFFFFFF))
        memory[entry + 1] = np.uint32(key >> np.uint64(32))
        floats[entry + 2] = -abs(ngrams.log10_probs[row])
        if not longest:
            backoff = ngrams.log10_backoffs[row]
            floats[entry + 3] = backoff if backoff != 0.0 else NO_EXTENSION
    return len(ngrams.ids)


@compilable
def weights_of(tables: Tables, words: Int32) -> int:
    """Return the index of probability and backoff of an n-gram below the highest order; -1 if absent."""
    if len(words) == 1:
        return int(words[0]) * UNIGRAM_WORDS
    entry = find(tables, len(words) - 2, key_of(words))
    return entry + 2 if entry >= 0 else -1
