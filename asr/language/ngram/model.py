"""A backoff n-gram model in the hash tables of KenLM's probing format, which a file can be mapped onto.

Each order has a table of its own. An n-gram's key is chained from its last word backwards, so that one word
more of context is one multiplication more; a table is open addressing with linear probing. After Heafield
(2011), "KenLM: Faster and Smaller Language Model Queries".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compiled, compiled_inline

Words32 = npt.NDArray[np.uint32]
Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]

UNKNOWN, SENTENCE_BEGIN, SENTENCE_END = "<unk>", "<s>", "</s>"
UNKNOWN_ID = 0
LN10 = math.log(10.0)
MAX_ORDER = 6  # as KenLM is built by default

# in 4-byte words: probability and backoff; key, probability and backoff; key and probability
UNIGRAM_WORDS, MIDDLE_WORDS, LONGEST_WORDS = 2, 4, 3
BUCKETS_PER_ENTRY = 1.5
NO_EXTENSION = np.float32(-0.0)  # the backoff of an n-gram that begins no longer one
FIRST_FACTOR = np.uint64(8978948897894561157)
NEXT_FACTOR = np.uint64(17894857484156487943)


class Tables(NamedTuple):
    """The model as compiled functions take it.

    Attributes:
        memory: the unigrams by id, then a hash table for each higher order.
        floats: the same memory.
        begins: (order - 1,) int64 where the table of 2-grams, 3-grams, ... begins in it.
        buckets: (order - 1,) int64 how many entries each of them has room for.
    """

    memory: Words32
    floats: Float32
    begins: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int64]


class Context(NamedTuple):
    """What a model remembers of the words so far, the last word first; the rest of the arrays is not used."""

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
        words: by id; the first is `<unk>`, and `<s>` and `</s>` are among them.
        tables: of its n-grams.
        counts: number of n-grams of each order.
        buckets_per_entry: room that was made in the tables.
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
        """Length of the longest n-grams."""
        return len(self.counts)

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """Id of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def ids_of(self, words: Iterable[str]) -> Int32:
        """Ids of words; `UNKNOWN_ID` for each that the model does not know."""
        return np.array([self.ids.get(word, UNKNOWN_ID) for word in words], np.int32)

    def empty_context(self) -> Context:
        """No words before: the unigrams alone count."""
        return Context(np.zeros(self.order - 1, np.int32), np.zeros(self.order - 1, np.float32), 0)

    def begin_context(self) -> Context:
        """The context of a sentence's first word."""
        _, context = self.advance(self.empty_context(), self.ids[SENTENCE_BEGIN])
        return context

    def advance(self, context: Context, word: int) -> tuple[float, Context]:
        """Natural log probability of a word after a context, and the context after it."""
        after = self.empty_context()
        log_prob, length = advance(
            self.tables, context.words, context.backoffs, context.length, word, after.words, after.backoffs
        )
        return log_prob, after._replace(length=length)

    def log_probs(self, words: Sequence[str]) -> list[float]:
        """Natural log probability of each word of a sentence and, at last, of its end."""
        context = self.begin_context()
        log_probs = []
        for word in [*self.ids_of(words).tolist(), self.ids[SENTENCE_END]]:
            log_prob, context = self.advance(context, word)
            log_probs.append(log_prob)
        return log_probs

    @classmethod
    def of_ngrams(cls, words: Sequence[str], ngrams: Sequence[NGrams]) -> NGramModel:
        """A model of n-grams by order, from 1 to at least 2.

        Args:
            words: see `NGramModel`.
            ngrams: of each order; unigrams of every word in the order of their ids. Each n-gram's first
                words and its last words must be n-grams, too. The sign of a zero backoff does not matter.
        """
        tables = make_tables([len(table.ids) for table in ngrams])
        fill_unigrams(tables, ngrams[0].log10_probs, ngrams[0].log10_backoffs)
        for place, table in enumerate(ngrams[1:]):
            longest = place == len(ngrams) - 2
            written = fill(
                tables,
                place,
                np.ascontiguousarray(table.ids, np.int32),
                np.ascontiguousarray(table.log10_probs, np.float32),
                np.ascontiguousarray(table.log10_backoffs, np.float32),
                longest,
            )
            assert written == len(table.ids), f"{table.ids[written]}: its first or last words are no n-gram"
        return cls(words, tables, [len(table.ids) for table in ngrams])


def make_tables(counts: Sequence[int], buckets_per_entry: float = BUCKETS_PER_ENTRY) -> Tables:
    """Empty tables for so many n-grams of each order."""
    begins, buckets = [], []
    place = (counts[0] + 1) * UNIGRAM_WORDS  # KenLM keeps room for one more
    for order, count in enumerate(counts[1:], start=2):
        begins.append(place)
        buckets.append(num_buckets(count, buckets_per_entry))
        place += buckets[-1] * (LONGEST_WORDS if order == len(counts) else MIDDLE_WORDS)
    return tables_of(np.zeros(place, np.uint32), begins, buckets)


def num_buckets(count: int, buckets_per_entry: float) -> int:
    """Room of a hash table for so many n-grams, as KenLM reckons it in single precision."""
    return max(count + 1, int(np.float32(buckets_per_entry) * np.float32(count)))


def tables_of(memory: Words32, begins: Sequence[int], buckets: Sequence[int]) -> Tables:
    """Tables over memory that is there."""
    return Tables(memory, memory.view(np.float32), np.array(begins, np.int64), np.array(buckets, np.int64))


def fill_unigrams(tables: Tables, log10_probs: Float32, log10_backoffs: Float32) -> None:
    """Write the unigrams in the order of their ids."""
    pairs = tables.floats[: len(log10_probs) * UNIGRAM_WORDS].reshape(-1, UNIGRAM_WORDS)
    pairs[:, 0] = -np.abs(log10_probs)
    pairs[:, 1] = np.where(log10_backoffs == 0, NO_EXTENSION, log10_backoffs)


@compiled
def advance(
    tables: Tables,
    context_words: Int32,
    context_backoffs: Float32,
    context_length: int,
    word: int,
    after_words: Int32,
    after_backoffs: Float32,
) -> tuple[float, int]:
    """Log probability of a word after a context, and the context after it.

    Args:
        tables: of the model.
        context_words: (order - 1,) see `Context`, as are the next two.
        context_backoffs: (order - 1,)
        context_length: how many of them are used.
        word: id.
        after_words: (order - 1,) written; no array of the context.
        after_backoffs: (order - 1,) written.

    Returns:
        natural log probability, and the length of the context after the word.
    """
    num_tables = len(tables.begins)
    log10_prob = tables.floats[word * 2]
    after_words[0], after_backoffs[0] = word, tables.floats[word * 2 + 1]
    key = np.uint64(word)
    matched = 0
    while matched < context_length and not np.signbit(log10_prob):  # the sign: it ends no longer n-gram
        key = chained(key, context_words[matched])
        longest = matched == num_tables - 1
        place = find(tables, matched, key, LONGEST_WORDS if longest else MIDDLE_WORDS)
        if place < 0:
            break
        log10_prob = tables.floats[place + 2]
        matched += 1
        if longest:
            break
        after_words[matched], after_backoffs[matched] = context_words[matched - 1], tables.floats[place + 3]
    log10_prob = -abs(log10_prob)
    for index in range(matched, context_length):
        log10_prob += context_backoffs[index]
    length = min(matched + 1, num_tables)
    while length and after_backoffs[length - 1] == 0.0 and np.signbit(after_backoffs[length - 1]):
        length -= 1  # it begins no longer n-gram
    return log10_prob * LN10, length


@compiled_inline
def chained(key: np.uint64, word: int) -> np.uint64:
    """The key of an n-gram, from that of its last words and the word before them."""
    return (key * FIRST_FACTOR) ^ (np.uint64(word + 1) * NEXT_FACTOR)


@compiled
def keys_of(ids: Int32) -> npt.NDArray[np.uint64]:
    """The keys of n-grams, (N, order) in reading order; a unigram's is its id."""
    keys = np.empty(len(ids), np.uint64)
    for row in range(len(ids)):
        keys[row] = key_of(ids[row])
    return keys


@compiled
def key_of(words: Int32) -> np.uint64:
    """The key of an n-gram in reading order."""
    key = np.uint64(words[-1])
    for place in range(len(words) - 2, -1, -1):
        key = chained(key, words[place])
    return key


@compiled
def find(tables: Tables, table: int, key: np.uint64, entry_words: int) -> int:
    """Where in memory the entry of a key begins; -1 where there is none."""
    place = seek(tables, table, key, entry_words)
    return place if place >= 0 and (tables.memory[place] or tables.memory[place + 1]) else -1


@compiled
def seek(tables: Tables, table: int, key: np.uint64, entry_words: int) -> int:
    """Where in memory the entry of a key begins, or the empty one that it would take.

    -1 where it is in none of them and none is empty: so in damaged files alone.
    """
    begin: int = tables.begins[table]
    end: int = begin + tables.buckets[table] * entry_words
    place = begin + int(np.int64(key % np.uint64(tables.buckets[table]))) * entry_words
    for _ in range(tables.buckets[table]):
        stored = np.uint64(tables.memory[place]) | (np.uint64(tables.memory[place + 1]) << np.uint64(32))
        if stored == key or stored == np.uint64(0):
            return place
        place += entry_words
        if place == end:
            place = begin
    return -1


@compiled
def fill(
    tables: Tables, table: int, ids: Int32, log10_probs: Float32, log10_backoffs: Float32, longest: bool
) -> int:
    """Write the n-grams of one order into its empty hash table, and mark those they make longer.

    The marks are KenLM's. The sign of a probability tells that no longer n-gram ends with these words, the
    sign of a zero backoff that none begins with them: the context after them can be shorter.

    Returns:
        how many were written; fewer than there are where the next one's first or last words are no n-gram.
    """
    entry_words = LONGEST_WORDS if longest else MIDDLE_WORDS
    for row in range(len(ids)):
        first = weights_of(tables, ids[row, :-1])
        last = weights_of(tables, ids[row, 1:])
        if first < 0 or last < 0:
            return row
        if tables.floats[first + 1] == 0.0:
            tables.floats[first + 1] = 0.0
        tables.floats[last] = abs(tables.floats[last])
        key = key_of(ids[row])
        place = seek(tables, table, key, entry_words)
        tables.memory[place] = np.uint32(key & np.uint64(0xFFFFFFFF))
        tables.memory[place + 1] = np.uint32(key >> np.uint64(32))
        tables.floats[place + 2] = -abs(log10_probs[row])
        if not longest:
            backoff = log10_backoffs[row]
            tables.floats[place + 3] = backoff if backoff != 0.0 else NO_EXTENSION
    return len(ids)


@compiled
def weights_of(tables: Tables, words: Int32) -> int:
    """Where in memory probability and backoff of an n-gram stand, not the longest; -1 where it is none."""
    if len(words) == 1:
        return int(words[0]) * UNIGRAM_WORDS
    place = find(tables, len(words) - 2, key_of(words), MIDDLE_WORDS)
    return place + 2 if place >= 0 else -1
