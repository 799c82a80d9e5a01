"""Look words up by pronunciation, in a trie over toned syllables for compiled functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.base.errors import UserError
from asr.base.system.files import read_lines
from asr.base.text.pinyin import TONES

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]

# special values of a syllable's id
ANY_TONE, ABSENT = -1, -2
# special values of a word: a syllable that is not the reading of any word; an edge without a syllable
AS_IS, NO_WORD = -1, -2


class Readings(NamedTuple):
    """Words with their readings; a word appears once for each of its readings."""

    words: Sequence[str]
    syllables: Sequence[str]  # the syllables of each reading, joined by spaces
    log_probs: Float32  # (N,) natural log probability of the reading given the word


class Sound(NamedTuple):
    """How a syllable is matched in the search.

    Attributes:
        begin: id of the first syllable that differs at most in its tone.
        end: id after the last of them.
        own: its id; `ANY_TONE` if it has no tone, `ABSENT` if no word contains it.
        instead: `AS_IS` if no word is read as this one syllable, else 0.
    """

    begin: int
    end: int
    own: int
    instead: int


UNKNOWN_SOUND = Sound(0, 0, ABSENT, AS_IS)
EPSILON_SOUND = Sound(0, 0, ABSENT, NO_WORD)


class Trie(NamedTuple):
    """The prefix tree: node 0 is its root, and the children of a node have consecutive ids.

    Attributes:
        syllables: (nodes,) id of the syllable that leads to a node (0 for the root); children are sorted by
            it.
        first_child: (nodes + 1,) first child of each node; its children end before the next node's first.
        first_entry: (nodes + 1,) first reading that ends at each node, likewise.
        entry_words: (N,) id of the reading's word in the language model.
        entry_log_probs: (N,) see `Readings`.
    """

    syllables: Int32
    first_child: Int32
    first_entry: Int32
    entry_words: Int32
    entry_log_probs: Float32


class Chosen(Sequence[str]):
    """Words chosen from a list by their ids, which are looked up when they are asked for.

    Args:
        words: by id.
        ids: (N,) of the chosen ones.
    """

    def __init__(self, words: Sequence[str], ids: Int32) -> None:
        self._words, self._ids = words, ids

    @override
    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Chosen: ...
    @override
    def __getitem__(self, index: int | slice) -> str | Chosen:
        if isinstance(index, slice):
            return Chosen(self._words, self._ids[index])
        return self._words[int(self._ids[index])]


class Dictionary:
    """Words by their pronunciation, a sequence of syllables.

    Args:
        syllables: syllables by id, sorted.
        trie: the trie of the readings.
        words: words of the trie's entries.
    """

    def __init__(self, syllables: Sequence[str], trie: Trie, words: Sequence[str]) -> None:
        self.syllables, self.trie, self.words = syllables, trie, words

    @classmethod
    def of_readings(cls, readings: Readings, word_ids: Mapping[str, int], unknown_id: int) -> Dictionary:
        """Build a dictionary of words and their readings.

        Args:
            readings: the words with their readings.
            word_ids: ids of the language model's words; other words count as its unknown word.
            unknown_id: id of the unknown word.
        """
        syllables = _sorted_syllables(readings)
        words = np.array([word_ids.get(word, unknown_id) for word in readings.words], np.int32)
        return cls._of_columns(
            syllables, _columns(readings, syllables), words, readings.log_probs, readings.words
        )

    def with_readings(self, readings: Readings, word_ids: Mapping[str, int]) -> Dictionary:
        """Return a dictionary with further readings; a word's reading that is known keeps its probability.

        Args:
            readings: to be added.
            word_ids: ids of their words, by which known ones are found.
        """
        syllables = sorted({*self.syllables, *_sorted_syllables(readings)})
        indices = {syllable: index for index, syllable in enumerate(syllables)}
        moved = np.array([indices[syllable] for syllable in self.syllables], np.int32)
        columns, added = self._columns(), _columns(readings, syllables)
        columns[columns != ABSENT] = moved[columns[columns != ABSENT]]
        longest = max(columns.shape[1], added.shape[1])
        columns, added = (
            np.pad(each, ((0, 0), (0, longest - each.shape[1])), constant_values=ABSENT)
            for each in (columns, added)
        )
        words = np.array([word_ids[word] for word in readings.words], np.int32)
        alike = np.isin(self.trie.entry_words, words)
        rows = np.concatenate(
            [np.column_stack([columns, self.trie.entry_words])[alike], np.column_stack([added, words])]
        )
        _, firsts = np.unique(rows, axis=0, return_index=True)
        new = np.sort(firsts[firsts >= alike.sum()]) - alike.sum()
        return self._of_columns(
            syllables,
            np.concatenate([columns, added[new]]),
            np.concatenate([self.trie.entry_words, words[new]]),
            np.concatenate([self.trie.entry_log_probs, readings.log_probs[new]]),
            [*self.words, *(readings.words[row] for row in new.tolist())],
        )

    @classmethod
    def _of_columns(
        cls,
        syllables: Sequence[str],
        columns: Int32,
        words: Int32,
        log_probs: Float32,
        names: Sequence[str],
    ) -> Dictionary:
        """Build a dictionary of readings as ids.

        Args:
            syllables: by id, sorted.
            columns: (N, longest) ids of each reading's syllables, `ABSENT` after the last.
            words: (N,) ids of the words.
            log_probs: (N,) see `Readings`.
            names: (N,) the words.
        """
        order = np.lexsort(columns.T[::-1])
        trie, by_node = _trie(columns[order], (columns[order] != ABSENT).sum(axis=1))
        order = order[by_node]
        trie = trie._replace(entry_words=words[order], entry_log_probs=log_probs[order])
        return cls(syllables, trie, [names[row] for row in order.tolist()])

    def _columns(self) -> Int32:
        """Return (N, longest) the ids of each reading's syllables, `ABSENT` after the last."""
        trie = self.trie
        num_nodes = len(trie.syllables)
        parents = np.zeros(num_nodes, np.int32)
        parents[1:] = np.repeat(np.arange(num_nodes), np.diff(trie.first_child))
        columns = np.full((num_nodes, 0), ABSENT, np.int32)
        begin, end = trie.first_child[:2]  # the nodes of a depth
        while begin < end:
            column = np.full((num_nodes, 1), ABSENT, np.int32)
            columns = np.concatenate([columns, column], axis=1)
            columns[begin:end, :-1] = columns[parents[begin:end], :-1]
            columns[begin:end, -1] = trie.syllables[begin:end]
            begin, end = trie.first_child[begin], trie.first_child[end]
        return columns[np.repeat(np.arange(num_nodes), np.diff(trie.first_entry))]

    def sounds(self, soft_tones: bool) -> dict[str, Sound]:
        """Return how each syllable of the dictionary is matched, in every tone and without one."""
        begin, end = self.trie.first_child[:2]
        is_word = np.diff(self.trie.first_entry)[begin:end] > 0
        alone = set(self.trie.syllables[begin:end][is_word].tolist())
        ids = {syllable: index for index, syllable in enumerate(self.syllables)}
        sounds = {}
        for base, (begin, end) in _ranges_of_bases(self.syllables).items():
            has_word = any(own in alone for own in range(begin, end))
            sounds[base] = Sound(begin, end, ANY_TONE, 0 if has_word else AS_IS)
            for tone in TONES:
                own = ids.get(base + tone, ABSENT)
                found = has_word if soft_tones else own in alone
                sounds[base + tone] = Sound(begin, end, own, 0 if found else AS_IS)
        return sounds


def read_pronunciations(path: Path) -> Readings:
    """Read a TSV file with a word, its syllables and their natural log probability in each line.

    Raises:
        UserError: the file or one of its lines cannot be read.
    """
    words, syllables, log_probs = [], [], []
    for number, line in enumerate(read_lines(path, "pronunciation dictionary"), start=1):
        try:
            word, reading, log_prob = line.split("\t")
            log_probs.append(float(log_prob))
        except ValueError:
            log_prob = "nan"
        if not (line and word and reading.split(" ") == reading.split() and float(log_prob) <= 0):
            raise UserError(
                f"{path}:{number}: expected WORD<TAB>SYLLABLES<TAB>LOG PROBABILITY, received {line[:80]!r}; "
                "make the folder again with `asr lm train`"
            )
        words.append(word)
        syllables.append(reading)
    return Readings(words, syllables, np.array(log_probs, np.float32))


def _ranges_of_bases(syllables: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the range of ids of the toned forms of each toneless syllable.

    The forms are consecutive, as the digit of a tone sorts before any letter.
    """
    ranges: dict[str, tuple[int, int]] = {}
    for index, syllable in enumerate(syllables):
        base = syllable.rstrip(TONES)
        begin, _ = ranges.get(base, (index, index))
        ranges[base] = (begin, index + 1)
    return ranges


def _sorted_syllables(readings: Readings) -> list[str]:
    return sorted({syllable for text in readings.syllables for syllable in text.split(" ")})


def _columns(readings: Readings, syllables: Sequence[str]) -> Int32:
    """Return (N, longest) the ids of each reading's syllables, `ABSENT` after the last."""
    ids = {syllable: index for index, syllable in enumerate(syllables)}
    lengths = np.array([text.count(" ") + 1 for text in readings.syllables], np.int32)
    columns = np.full((len(lengths), int(lengths.max(initial=0))), ABSENT, np.int32)
    columns[np.arange(columns.shape[1]) < lengths[:, None]] = [
        ids[syllable] for text in readings.syllables for syllable in text.split(" ")
    ]
    return columns


def _trie(columns: Int32, lengths: Int32) -> tuple[Trie, npt.NDArray[np.int64]]:
    """Build the trie without its words, with nodes numbered level by level, and its readings by node.

    Args:
        columns: (N, longest) ids of each reading's syllables, sorted.
        lengths: (N,) number of syllables of each reading.
    """
    syllables, parents = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    nodes = np.zeros(len(columns), np.int64)  # the node that each reading has reached so far
    num_nodes = 1
    for depth in range(columns.shape[1]):
        rows = np.flatnonzero(lengths > depth)
        way = np.stack([nodes[rows], columns[rows, depth]], axis=1)
        begins = np.ones(len(rows), bool)
        begins[1:] = (way[1:] != way[:-1]).any(axis=1)
        parents.append(way[begins, 0])
        syllables.append(way[begins, 1])
        nodes[rows] = num_nodes - 1 + np.cumsum(begins)
        num_nodes += int(begins.sum())
    by_node = np.argsort(nodes, kind="stable")
    indices = np.arange(num_nodes + 1)
    trie = Trie(
        np.concatenate(syllables).astype(np.int32),
        # children are numbered from 1 in the order of their parents
        (1 + np.searchsorted(np.concatenate(parents), indices)).astype(np.int32),
        np.searchsorted(nodes[by_node], indices).astype(np.int32),
        np.zeros(0, np.int32),
        np.zeros(0, np.float32),
    )
    return trie, by_node
