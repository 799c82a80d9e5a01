"""Boosts words that the decoder should expect: names, places, terms.

A file holds one word a line, optionally followed by a tab and a weight. Every token of a hot word adds the
boost times the word's weight. In a hypothesis the words are matched from left to right, the longest first,
and no token counts twice. The tokens of an incomplete word count in advance, and are taken back if the word
is not completed: a finished hypothesis has the boosts of whole words only.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from asr.base.errors import UserError
from asr.base.text.encodings import file_lines
from asr.base.text.latin import WORD, said_in_latin, with_spoken_digits, without_accents
from asr.base.text.mixed import is_latin
from asr.base.text.pieces import text_of_pieces
from asr.base.text.pinyin import is_syllable
from asr.base.text.units import Unit, characters_in
from asr.base.text.wording import counted, listed
from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from asr.base.work import OnProgress, ignore_progress, reported
from asr.ctc.prefixes import HotWordTables

LabelOf: TypeAlias = Callable[[str, Unit], Sequence[str]]  # raises UserError for text that has no label
MAX_LISTED = 10
LATIN_OR_OTHER = re.compile("[A-Za-z][A-Za-z' -]*|[^A-Za-z]+")


@dataclass(frozen=True)
class HotWords:
    """The words to boost and their weights.

    Attributes:
        weights: of each word, given as the ids of its tokens.
        left_out: a message with the lines that cannot be used and the reasons; empty if there are none.
        path: of the file that they were read from; None for words from elsewhere.
    """

    weights: Mapping[tuple[int, ...], float]
    left_out: str = ""
    path: Path | None = None

    @classmethod
    def load(
        cls,
        path: Path,
        vocabulary: Vocabulary,
        label_of: LabelOf | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> HotWords:
        """Read hot words from a file; see `of`. `on_progress` receives how many lines have been read."""
        lines = file_lines(path, "list of hot words")
        found = cls.of(
            reported(lines, "reading hot words", "lines", on_progress), vocabulary, label_of, str(path)
        )
        return dataclasses.replace(found, path=path)

    @classmethod
    def of(
        cls,
        lines: Iterable[str],
        vocabulary: Vocabulary,
        label_of: LabelOf | None = None,
        source: str = "hot words",
    ) -> HotWords:
        """Parse words, written as usual or as tokens of the vocabulary separated by spaces.

        Args:
            lines: a word each, optionally with a tab and its weight (default 1); empty lines are skipped.
            vocabulary: tokens that the words are turned into.
            label_of: returns the tokens of text as corpora are labelled; among syllables, homophones count as
                the same word. None for words that are written as tokens, or as they are labelled.
            source: of the lines, for error messages.

        Raises:
            UserError: no word can be written in tokens of the vocabulary.
        """
        weights: dict[tuple[int, ...], float] = {}
        complaints = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            word, tab, weight_text = line.partition("\t")
            try:
                weight = _weight(weight_text) if tab else 1.0
                ids = tuple(vocabulary.encode(_tokens(word, vocabulary, label_of)))
                weights[ids] = max(weight, weights.get(ids, 0.0))
            except UserError as error:
                complaints.append(f"line {number}, {word.strip()!r}: {error}")
        left_out = ""
        if complaints:
            shown = listed(complaints, MAX_LISTED, separator="\n  ")
            left_out = f"{counted(len(complaints), 'hot word')} cannot be used:\n  {shown}"
        if not weights:
            raise UserError(f"{source}: {left_out or 'no hot words; expected one word per line'}")
        return cls(weights, left_out)

    def are_in(self, ids: Sequence[int]) -> list[bool]:
        """Return whether each token belongs to a hot word, matched from left to right, the longest first."""
        belong = [False] * len(ids)
        place = 0
        while place < len(ids):
            words = (tuple(ids[place : place + length]) for length in self._lengths)
            length = len(next((word for word in words if word in self.weights), ()))
            belong[place : place + length] = [True] * length
            place += length or 1
        return belong

    @functools.cached_property
    def _lengths(self) -> list[int]:
        """Return the lengths of the words, the longest first."""
        return sorted(set(map(len, self.weights)), reverse=True)

    def tables(self, boost: float) -> HotWordTables:
        """Return the automaton that matches the words, as in Aho and Corasick (1975).

        A state is a prefix of a word. If the next token does not continue the word, the longest word that the
        prefix begins with is complete, and the tokens after that word are matched again.

        Args:
            boost: for each token of a word of weight 1.
        """
        children = _trie(list(self.weights))
        lent, whole = self._lent(boost, children)
        fails, kept = np.zeros(len(children), np.int32), np.zeros(len(children))
        most, final = np.zeros(len(children)), np.zeros(len(children))
        for state, nexts in enumerate(children):  # the shorter first: their fails are known
            for token, child in nexts.items():
                if child in whole:
                    kept[child] = whole[child]
                elif state:
                    fails[child], complete = _follow(int(fails[state]), token, children, fails, kept)
                    kept[child] = kept[state] + complete
            if state:
                final[state] = kept[state] + final[fails[state]]
                most[state] = kept[state] - lent[state] + lent[fails[state]] + most[fails[state]]
            gains = [lent[child] - lent[state] for child in nexts.values()]
            most[state] = max([most[state], *gains])
        edges = [sorted(nexts.items()) for nexts in children]
        pairs = np.array(list(itertools.chain(*edges)), np.int32).reshape(-1, 2)
        begins = np.cumsum([0, *map(len, edges)], dtype=np.int32)
        tokens, after = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        return HotWordTables(begins, tokens, after, fails, kept, lent, most, final)

    def _lent(
        self, boost: float, children: Sequence[Mapping[int, int]]
    ) -> tuple[np.ndarray, dict[int, float]]:
        """Return the boost that each state gets in advance, and that of each state that completes a word.

        The former is that of the heaviest word with this prefix.
        """
        lent = np.zeros(len(children))
        whole = {}
        for word, weight in self.weights.items():
            state = 0
            for end, token in enumerate(word, start=1):
                state = children[state][token]
                lent[state] = max(lent[state], boost * end * weight)
            whole[state] = boost * len(word) * weight
        return lent, whole


def _trie(words: Sequence[tuple[int, ...]]) -> list[dict[int, int]]:
    """Return the states that follow the state of each prefix by the next token; short prefixes are first."""
    children: list[dict[int, int]] = [{}]
    growing = [(0, word) for word in words]
    index = 0
    while growing:
        grown = []
        for state, word in growing:
            if index < len(word):
                following = children[state].setdefault(word[index], len(children))
                if following == len(children):
                    children.append({})
                grown.append((following, word))
        growing, index = grown, index + 1
    return children


def _follow(
    state: int, token: int, children: Sequence[Mapping[int, int]], fails: np.ndarray, kept: np.ndarray
) -> tuple[int, float]:
    """Return the state after a token, and the boost of the words that it completes."""
    boost = 0.0
    while state and token not in children[state]:
        boost += kept[state]
        state = int(fails[state])
    return children[state].get(token, 0), boost


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise UserError(f"expected a weight above 0 after the tab, received {text.strip()!r}")
    return weight


def _tokens(word: str, vocabulary: Vocabulary, label_of: LabelOf | None) -> Sequence[str]:
    """Split a word into units of the vocabulary's kind, whether or not it contains them."""
    parts = word.split()
    if not parts:
        raise UserError("expected a word before the tab, received nothing")
    if vocabulary.are_tokens(parts):
        return parts
    if vocabulary.unit == "mixed":
        return _mixed_tokens(word, vocabulary, label_of)
    if vocabulary.is_mandarin:
        written_out = all(map(is_syllable, parts))
        return parts if written_out or label_of is None else label_of(word, "syllables")
    if vocabulary.unit == "characters":
        spelt = _known_boundaries(characters_in(WORD_BOUNDARY.join(parts).lower()), vocabulary)
        if label_of is None or vocabulary.are_tokens(spelt):
            return spelt
        return _known_boundaries(label_of(word, "characters"), vocabulary)
    if vocabulary.unit == "pieces":
        text = text_of_pieces(label_of(word, "characters")) if label_of else " ".join(parts).lower()
        return vocabulary.expect_pieces().encode(text)
    return label_of(word, "words") if label_of else parts


def _known_boundaries(characters: Iterable[str], vocabulary: Vocabulary) -> list[str]:
    return [one for one in characters if one != WORD_BOUNDARY or WORD_BOUNDARY in vocabulary]


def _mixed_tokens(word: str, vocabulary: Vocabulary, label_of: LabelOf | None) -> list[str]:
    """Return a word in hanzi and Latin letters as mixed labels, as `asr prepare` makes them."""
    tokens: list[str] = []
    for part in LATIN_OR_OTHER.findall(with_spoken_digits(without_accents(word))):
        if not is_latin(part[0]):
            tokens += label_of(part, "syllables") if label_of and part.strip() else part.split()
            continue
        for said in said_in_latin(WORD.findall(part)):
            is_word = said.startswith(WORD_BOUNDARY)
            tokens += vocabulary.expect_pieces().encode(said[1:]) if is_word else (said,)
    return tokens
