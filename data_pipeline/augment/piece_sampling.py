"""Split the words of a label into other pieces in every epoch of training: subword regularisation.

sampler = PieceSampler(vocabulary, share=0.1)
sampler.draw(("▁turn", "▁it"), np.random.default_rng(1))  # ("▁t", "urn", "▁it")

Where pieces are byte pairs, each merge that comes up is left out with the probability `share` (BPE-dropout;
Provilkov et al., 2020, arXiv:1910.13267). Where they are unigram, this share of the words is split by a
draw from all splits, of the probability P^0.2 each (Kudo, 2018, arXiv:1804.10959). sentencepiece can do both,
but draws from a generator that a process has only once, so that a resumed run would draw other splits.
"""

from __future__ import annotations

import bisect
import functools
import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from asr.base.text.mixed import begins_word
from asr.base.text.units import WORD_BOUNDARY
from asr.base.vocabulary import Vocabulary

LastPieces: TypeAlias = Sequence[tuple[Sequence[int], Sequence[float]]]
"""By the number of characters: where their last piece may begin, and bounds of a number between 0 and 1."""

WORDS_KEPT = 1 << 13
SMOOTHING = 0.2  # the power of probabilities; 1 draws the best split nearly always, 0 all equally often


class PieceSampler:
    """Random splits of words into the pieces of a vocabulary; syllables and spelt letters stay.

    Args:
        vocabulary: of pieces, or of mixed units.
        share: of merges that are left out, or of words whose split is drawn.

    Raises:
        UserError: the vocabulary has no pieces, or the model of them is missing.
    """

    def __init__(self, vocabulary: Vocabulary, share: float) -> None:
        if not vocabulary.is_in_pieces:
            raise UserError(
                f"augment.piece_sampling: {share:g} draws splits of words into pieces, but the labels are "
                f"{vocabulary.unit}; set augment.piece_sampling=0, or label by pieces, data.units=bpe:500"
            )
        pieces = vocabulary.expect_pieces()
        self._scores, self._is_mixed = pieces.scores, vocabulary.unit == "mixed"
        self._is_of_merges, self._share = pieces.is_of_merges, share
        self._last_pieces = functools.lru_cache(WORDS_KEPT)(lambda word: last_pieces(word, pieces.scores))

    @classmethod
    def of(cls, config: AugmentConfig, vocabulary: Vocabulary) -> PieceSampler | None:
        """Return what a configuration asks for; None where words keep their pieces."""
        return cls(vocabulary, config.piece_sampling) if config.piece_sampling else None

    def draw(self, tokens: Sequence[str], rng: np.random.Generator) -> tuple[str, ...]:
        """Return a label of the same text."""
        return tuple(itertools.chain(*(self._split(word, rng) for word in self._words(tokens))))

    def _words(self, tokens: Sequence[str]) -> Iterator[list[str]]:
        """Yield the pieces of each word, and each syllable and spelt letter by itself."""
        word: list[str] = []
        for token in tokens:
            is_whole = self._is_mixed and begins_word(token)
            if word and (is_whole or token.startswith(WORD_BOUNDARY)):
                yield word
                word = []
            word.append(token)
            if is_whole:
                yield word
                word = []
        if word:
            yield word

    def _split(self, word: list[str], rng: np.random.Generator) -> list[str]:
        """Return the pieces of a word; those that it has where one is not of the model."""
        if not all(piece in self._scores for piece in word):
            return word
        text = "".join(word)
        if self._is_of_merges:
            drawn = merged(text, self._scores, self._share, rng)
            return drawn if all(piece in self._scores for piece in drawn) else word
        return drawn_split(text, self._last_pieces(text), rng) if rng.random() < self._share else word


def merged(text: str, scores: Mapping[str, float], dropout: float, rng: np.random.Generator) -> list[str]:
    """Merge the characters of a text into pieces, the merge that was learned first before the others.

    Args:
        text: a word.
        scores: of the pieces; the higher, the earlier was it learned.
        dropout: probability that a merge is left out, when its turn comes.
        rng: of what is drawn.
    """
    ends = {start: start + 1 for start in range(len(text))}  # of the pieces by their first characters
    starts = {end: start for start, end in ends.items()}
    merges: list[tuple[float, int, int, int]] = []

    def offer(start: int, middle: int) -> None:
        score = scores.get(text[start : ends[middle]])
        if score is not None:
            heapq.heappush(merges, (-score, start, middle, ends[middle]))

    for middle in range(1, len(text)):
        offer(middle - 1, middle)
    while merges:
        _, start, middle, end = heapq.heappop(merges)
        is_left = ends.get(start) == middle and ends.get(middle) == end
        if not is_left or (dropout and rng.random() < dropout):
            continue
        del ends[middle], starts[middle]
        ends[start], starts[end] = end, start
        if start:
            offer(starts[start], start)
        if end < len(text):
            offer(start, end)
    return [text[start:end] for start, end in sorted(ends.items())]


def last_pieces(text: str, scores: Mapping[str, float]) -> LastPieces:
    """Return the last pieces that the first characters of a text may have, by a forward recursion.

    Args:
        text: a word that can be split.
        scores: logarithms of the probabilities of the pieces.
    """
    longest = max(map(len, scores))
    found: list[tuple[list[int], list[float]]] = [([], [])]
    sums = [0.0]  # logarithms of the sums over all splits of the first characters
    for end in range(1, len(text) + 1):
        ways = {
            begin: sums[begin] + SMOOTHING * scores[text[begin:end]]
            for begin in range(max(0, end - longest), end)
            if sums[begin] > -math.inf and text[begin:end] in scores
        }
        most = max(ways.values(), default=-math.inf)
        sums.append(most + math.log(sum(math.exp(way - most) for way in ways.values())) if ways else most)
        shares = itertools.accumulate(math.exp(way - sums[end]) for way in ways.values())
        found.append((list(ways), list(shares)[:-1]))
    return found


def drawn_split(text: str, lasts: LastPieces, rng: np.random.Generator) -> list[str]:
    """Draw a split of a text from its last piece to its first one.

    Args:
        text: a word.
        lasts: its `last_pieces`.
        rng: of what is drawn.
    """
    drawn: list[str] = []
    end = len(text)
    while end:
        begins, bounds = lasts[end]
        begin = begins[bisect.bisect(bounds, rng.random())]
        drawn.append(text[begin:end])
        end = begin
    return drawn[::-1]
