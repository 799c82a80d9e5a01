"""Convert toned syllables to Chinese characters, by word n-grams and a pronunciation dictionary; needs NumPy.

from hanzi import Converter

Converter(Path("hanzi.npz")).convert(["ni3", "hao3"])    # 你好
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

STEPS = -32.0  # codes per unit of a logarithm
TONES = "12345"
LATIN = "▁"  # before Latin words
UNKNOWN, END = 0, "</s>"  # a word's id, and a word
NO_SYLLABLE = 1 << 30
AS_IS = -1  # in place of a dictionary's entry: a syllable that is not the reading of any word
BEAM = 16  # paths that are kept at each place, one for each context of the language model
MARGIN = 10.0  # natural logarithm: how much worse than the best a path may be

Array = npt.NDArray[Any]


class Paths(NamedTuple):
    """The best paths to a place between two syllables, (P,) each, best first.

    A language model's context is its last word and, where the model knows more than it, its last two.

    Attributes:
        scores: natural logarithm.
        entries: entry of the last word.
        starts: place where the last word begins.
        before: index of the preceding path among those to that place.
        lengths: number of words of the context.
        words: id of the last word.
        pairs: row of the last two words among the 2-grams.
    """

    scores: Array
    entries: Array
    starts: Array
    before: Array
    lengths: Array
    words: Array
    pairs: Array


class Converter:
    """A beam search for the most probable words with a given pronunciation.

    Args:
        path: of `hanzi.npz`.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        self._words: list[str] = arrays["words"].tobytes().decode().split("\n")
        syllables = arrays["syllables"].tobytes().decode().split("\n")
        self._ids = {syllable: index for index, syllable in enumerate(syllables)}
        lines = arrays["rare"].tobytes().decode().splitlines()
        self._rare: dict[str, str] = dict(line.split(" ") for line in lines)
        # the dictionary, a prefix tree: children and entries of a node have consecutive indices
        self._node_syllables = _numbers(arrays["trie_syllables"])
        self._first_child = 1 + _sums(_numbers(arrays["num_children"]))
        self._first_entry = _sums(_numbers(arrays["num_entries"]))
        self._entry_words = _numbers(arrays["entry_words"])
        self._entry_log_probs = _logs(arrays["entry_log_probs"]).astype(float)
        self._bases: dict[str, list[int]] = {}
        for syllable, index in self._ids.items():
            self._bases.setdefault(syllable.rstrip(TONES), []).append(index)
        # the language model: n-grams are sorted, and found by those they begin with and their last word
        self._log10_probs = [_logs(arrays[f"probs_{order}"]) for order in (1, 2, 3)]
        self._backoffs = [_logs(arrays[f"backoffs_{order}"]) for order in (1, 2)]
        self._extends = [arrays[f"backoffs_{order}"] > 0 for order in (1, 2)]
        self._keys = [
            self._key(np.repeat(np.arange(len(counts)), counts), _numbers(arrays[f"last_words_{order}"]))
            for order, counts in ((order, _numbers(arrays[f"num_longer_{order}"])) for order in (2, 3))
        ]
        unstarted = Paths(np.zeros(1), *(np.zeros(1, np.int64) for _ in range(6)))  # no words, no context
        self._begin = self._advance(unstarted, np.array([self._words.index("<s>")]))[1]

    def convert(self, syllables: Sequence[str]) -> str:
        """Return the best text for a sentence of toned syllables: `ni3`, neutral tone 5, ü written v.

        A word after the mark `▁` is Latin and stays as it is, with spaces between such words.
        """
        arcs = self._arcs(syllables)
        paths = [self._begin]
        for place in range(1, len(syllables) + 1):
            paths.append(self._extended(arcs[place], paths))
        end_scores, _ = self._advance(paths[-1], np.array([self._words.index(END)]))
        path = int(np.argmax(paths[-1].scores + end_scores))
        words: list[str] = []
        place = len(syllables)
        while place:
            last = paths[place]
            entry, start = int(last.entries[path]), int(last.starts[path])
            space = " " * (place < len(syllables) and _are_latin(syllables[start], syllables[place]))
            words.append(self._text(entry, syllables[start]) + space)
            place, path = start, int(last.before[path])
        return "".join(reversed(words))

    def _text(self, entry: int, syllable: str) -> str:
        if entry != AS_IS:
            return self._words[int(self._entry_words[entry])]
        if syllable.startswith(LATIN):
            return syllable.removeprefix(LATIN)
        return self._rare.get(syllable, f"〔{syllable}〕")

    def _arcs(self, syllables: Sequence[str]) -> list[list[tuple[int, Array]]]:
        """Return, for each place, the entries of the words that end there, by the place where they begin."""
        arcs: list[list[tuple[int, Array]]] = [[] for _ in range(len(syllables) + 1)]
        for start in range(len(syllables)):
            nodes = [0]
            for place in range(start, len(syllables)):
                nodes = [child for node in nodes for child in self._children(node, syllables[place])]
                ranges = [np.arange(self._first_entry[node], self._first_entry[node + 1]) for node in nodes]
                entries = np.concatenate([np.zeros(0, np.int64), *ranges])
                if place == start and not len(entries):
                    entries = np.array([AS_IS])
                if len(entries):
                    arcs[place + 1].append((start, entries))
                if not nodes:
                    break
        return arcs

    def _children(self, node: int, syllable: str) -> list[int]:
        """Return the nodes after a node by a syllable; one without a tone has every tone."""
        first, last = self._first_child[node], self._first_child[node + 1]
        has_tone = syllable[-1:] in TONES
        own = self._bases.get(syllable, []) if not has_tone else [self._ids.get(syllable, NO_SYLLABLE)]
        places = first + np.searchsorted(self._node_syllables[first:last], own)
        return [
            int(place)
            for place, index in zip(places, own, strict=True)
            if place < last and self._node_syllables[place] == index
        ]

    def _extended(self, arcs: list[tuple[int, Array]], paths: list[Paths]) -> Paths:
        """Return the best paths to a place, one for each context."""
        parts = []
        for start, entries in arcs:
            kept = paths[start]
            rows, columns = (part.ravel() for part in np.indices((len(entries), len(kept.scores))))
            parts.append((np.full(len(rows), start), entries[rows], columns, [p[columns] for p in kept]))
        starts, found, before = (np.concatenate([part[place] for part in parts]) for place in range(3))
        previous = Paths(*(np.concatenate(column) for column in zip(*(p[3] for p in parts), strict=True)))
        known = found != AS_IS
        words = np.where(known, self._entry_words[found], UNKNOWN)
        scores = previous.scores + np.where(known, self._entry_log_probs[found], 0.0)
        log_probs, after = self._advance(previous, words)
        scores = scores + log_probs
        candidates = after._replace(scores=scores, entries=found, starts=starts, before=before)
        best = self._best_of_each_context(candidates)
        return Paths(*(column[best] for column in candidates))

    def _best_of_each_context(self, paths: Paths) -> Array:
        """Return the indices of the best paths, best first; the first counts where two are equal."""
        one_word = np.where(paths.lengths == 1, paths.words, -1)
        contexts = np.where(paths.lengths == 2, paths.pairs + len(self._words), one_word)
        _, first, group = np.unique(contexts, return_index=True, return_inverse=True)
        order = np.lexsort((-paths.scores, group))
        best = order[np.unique(group[order], return_index=True)[1]]
        best = best[np.lexsort((first, -paths.scores[best]))][:BEAM]
        kept: Array = best[paths.scores[best] >= paths.scores[best[0]] - MARGIN]
        return kept

    def _advance(self, paths: Paths, words: Array) -> tuple[Array, Paths]:
        """Return the log probability of a word after each path, and the paths with the context after it."""
        words = np.broadcast_to(words, paths.words.shape)
        pair, has_pair = self._find(0, paths.words, words, paths.lengths >= 1)
        triple, has_triple = self._find(1, paths.pairs, words, has_pair & (paths.lengths == 2))
        log10 = self._log10_probs[0][words]
        log10 = np.where(has_pair, self._log10_probs[1][pair], log10)
        log10 = np.where(has_triple, self._log10_probs[2][triple], log10)
        backs_off = ~has_pair & (paths.lengths >= 1)
        log10 = log10 + np.where(backs_off, self._backoffs[0][paths.words], np.float32(0))
        backs_off = ~has_triple & (paths.lengths == 2)
        log10 = log10 + np.where(backs_off, self._backoffs[1][paths.pairs], np.float32(0))
        lengths = np.where(has_pair & self._extends[1][pair], 2, np.where(self._extends[0][words], 1, 0))
        return log10.astype(float) * math.log(10), paths._replace(lengths=lengths, words=words, pairs=pair)

    def _find(self, table: int, contexts: Array, words: Array, wanted: Array) -> tuple[Array, Array]:
        """Return the rows of n-grams in a table, and which of those that are wanted are there."""
        keys = self._key(contexts, words)
        rows = np.minimum(np.searchsorted(self._keys[table], keys), len(self._keys[table]) - 1)
        return rows, wanted & (self._keys[table][rows] == keys)

    def _key(self, contexts: Array, words: Array) -> Array:
        return contexts.astype(np.int64) * len(self._words) + words


def _are_latin(*words: str) -> bool:
    return all(word.startswith(LATIN) for word in words)


def _numbers(planes: Array) -> npt.NDArray[np.int64]:
    """Return numbers of three bytes, given in planes of bytes (3, N), the lowest first."""
    low, middle, high = planes.astype(np.int64)
    numbers: npt.NDArray[np.int64] = low + (middle << 8) + (high << 16)
    return numbers


def _logs(codes: Array) -> npt.NDArray[np.float32]:
    return (codes.astype(np.float32) / STEPS).astype(np.float32)


def _sums(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)])
