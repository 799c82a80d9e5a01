"""Words to expect: names, places, terms. A file holds one a line, and after a tab how much it matters.

Every token of a hot word adds the boost times the word's weight. In a hypothesis the words are found from
left to right, the longest one first, and no token counts twice. While a word is being heard its tokens count
in advance, and are taken back where it breaks off: a finished hypothesis has the boosts of whole words alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from asr.base.files import read_lines
from asr.base.pinyin import is_syllable
from asr.base.types import UserError
from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from asr.base.wording import listed
from asr.recognition.decoding.prefixes import HotWordTables

PinyinOf: TypeAlias = Callable[[str], Sequence[str]]  # raises UserError for what has no reading
MAX_LISTED = 10


@dataclass(frozen=True)
class HotWords:
    """Words to expect.

    Attributes:
        weights: of each word, given as the ids of its tokens.
        left_out: which lines cannot be used, and why, if any.
        path: of the file that they are from; None where they are from elsewhere.
    """

    weights: Mapping[tuple[int, ...], float]
    left_out: str = ""
    path: Path | None = None

    @classmethod
    def load(cls, path: Path, vocabulary: Vocabulary, pinyin_of: PinyinOf | None = None) -> HotWords:
        """Read a file; see `of`."""
        found = cls.of(read_lines(path, "list of hot words"), vocabulary, pinyin_of, str(path))
        return dataclasses.replace(found, path=path)

    @classmethod
    def of(
        cls,
        lines: Sequence[str],
        vocabulary: Vocabulary,
        pinyin_of: PinyinOf | None = None,
        source: str = "hot words",
    ) -> HotWords:
        """Words as people write them, or as the vocabulary does: its tokens with spaces between.

        Args:
            lines: a word each, and its weight after a tab (else 1); empty ones are passed over.
            vocabulary: tokens that the words are turned into.
            pinyin_of: hanzi -> syllables; where the vocabulary is of syllables, so that homophones count.
            source: where the lines are from, for errors.

        Raises:
            UserError: there is no word that can be written in the vocabulary.
        """
        weights: dict[tuple[int, ...], float] = {}
        complaints = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            word, tab, weight_text = line.partition("\t")
            try:
                weight = _weight(weight_text) if tab else 1.0
                ids = tuple(vocabulary.encode(_tokens(word, vocabulary, pinyin_of)))
                weights[ids] = max(weight, weights.get(ids, 0.0))
            except UserError as error:
                complaints.append(f"line {number}, {word.strip()!r}: {error}")
        left_out = ""
        if complaints:
            shown = listed(complaints, MAX_LISTED, separator="\n  ")
            left_out = f"{len(complaints)} hot words cannot be used:\n  {shown}"
        if not weights:
            raise UserError(f"{source}: {left_out or 'no hot words in it; expected one a line'}")
        return cls(weights, left_out)

    def tables(self, boost: float) -> HotWordTables:
        """The automaton that finds them.

        A state is how much of a word has been heard, as in Aho and Corasick (1975). Where the word breaks
        off, the longest word that it began with is complete, and what followed that one is heard anew.

        Args:
            boost: for each token of a word of weight 1.
        """
        paths = sorted({word[:end] for word in self.weights for end in range(len(word) + 1)} | {()}, key=len)
        states = {path: state for state, path in enumerate(paths)}
        children: list[dict[int, int]] = [{} for _ in paths]
        for path, state in list(states.items())[1:]:
            children[states[path[:-1]]][path[-1]] = state
        lent = self._lent(boost, states)
        fails, kept = np.zeros(len(paths), np.int32), np.zeros(len(paths))
        most, final = np.zeros(len(paths)), np.zeros(len(paths))
        for path, state in states.items():  # the shorter first: their fails are known
            if state:
                word = self._longest_word(path)
                fails[state], kept[state] = _follow(path[max(len(word), 1) :], children, fails, kept)
                kept[state] += boost * len(word) * self.weights.get(word, 0.0)
                final[state] = kept[state] + final[fails[state]]
                most[state] = kept[state] - lent[state] + lent[fails[state]] + most[fails[state]]
            gains = [lent[child] - lent[state] for child in children[state].values()]
            most[state] = max([most[state], *gains])
        edges = [sorted(nexts.items()) for nexts in children]
        pairs = np.array(list(itertools.chain(*edges)), np.int32).reshape(-1, 2)
        begins = np.cumsum([0, *map(len, edges)], dtype=np.int32)
        tokens, after = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        return HotWordTables(begins, tokens, after, fails, kept, lent, most, final)

    def _lent(self, boost: float, states: Mapping[tuple[int, ...], int]) -> np.ndarray:
        """What counts in advance: as though the weightiest word that begins so were complete so far."""
        lent = np.zeros(len(states))
        for word, weight in self.weights.items():
            for end in range(1, len(word) + 1):
                state = states[word[:end]]
                lent[state] = max(lent[state], boost * end * weight)
        return lent

    def _longest_word(self, path: tuple[int, ...]) -> tuple[int, ...]:
        """The longest word that a path begins with; () for none."""
        ends = range(len(path), 0, -1)
        return next((path[:end] for end in ends if path[:end] in self.weights), ())


def _follow(
    path: Sequence[int], children: Sequence[Mapping[int, int]], fails: np.ndarray, kept: np.ndarray
) -> tuple[int, float]:
    """The state after tokens, and the boost of the words that are complete by then."""
    state, boost = 0, 0.0
    for token in path:
        while state and token not in children[state]:
            boost += kept[state]
            state = int(fails[state])
        state = children[state].get(token, 0)
    return state, boost


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise UserError(f"expected a weight above 0 after the tab, received {text.strip()!r}")
    return weight


def _tokens(word: str, vocabulary: Vocabulary, pinyin_of: PinyinOf | None) -> Sequence[str]:
    """A word in units of the vocabulary, be they in it or not."""
    parts = word.split()
    if not parts:
        raise UserError("expected a word before the tab, received nothing")
    if all(part in vocabulary for part in parts):
        return parts
    units = vocabulary.tokens[1:]
    if sum(map(is_syllable, units)) * 2 > len(units):
        written_out = all(map(is_syllable, parts))
        return parts if written_out or pinyin_of is None else pinyin_of(word.strip())
    if all(len(unit) == 1 for unit in units):
        between = WORD_BOUNDARY if WORD_BOUNDARY in vocabulary else ""
        return list(between.join(parts).lower())
    return parts
