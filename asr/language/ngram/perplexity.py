"""How well a language model foretells a text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from asr.base.compiled import compiled
from asr.language.ngram.model import SENTENCE_END, UNKNOWN_ID, Float32, Int32, NGramModel, Tables, advance


@dataclass(frozen=True, slots=True)
class Fit:
    """What a model gives a text; add them up.

    Attributes:
        log_prob: natural, of all words and of the sentences' ends.
        unknown_log_prob: of these, the share of words that the model does not know.
        num_words: without the sentences' ends.
        num_unknown: of these, how many the model does not know.
        num_sentences: in the text.
    """

    log_prob: float = 0.0
    unknown_log_prob: float = 0.0
    num_words: int = 0
    num_unknown: int = 0
    num_sentences: int = 0

    def __add__(self, other: Fit) -> Fit:
        return Fit(
            self.log_prob + other.log_prob,
            self.unknown_log_prob + other.unknown_log_prob,
            self.num_words + other.num_words,
            self.num_unknown + other.num_unknown,
            self.num_sentences + other.num_sentences,
        )

    @property
    def perplexity(self) -> float:
        """Of all words; a sentence's end counts as one."""
        return _perplexity(self.log_prob, self.num_words + self.num_sentences)

    @property
    def known_perplexity(self) -> float:
        """Of the words that the model knows."""
        num_known = self.num_words + self.num_sentences - self.num_unknown
        return _perplexity(self.log_prob - self.unknown_log_prob, num_known)

    @property
    def unknown_rate(self) -> float:
        """Share of words that the model does not know."""
        return self.num_unknown / self.num_words if self.num_words else 0.0


def fit(model: NGramModel, blocks: Iterable[Int32]) -> Fit:
    """Ask a model for a text.

    Args:
        model: to ask.
        blocks: whole sentences of word ids, each closed by the id of </s>.
    """
    begin, end = model.begin_context(), model.ids[SENTENCE_END]
    total = Fit()
    for ids in blocks:
        total += Fit(*add_up(model.tables, ids, end, begin.words, begin.backoffs, begin.length))
    return total


def _perplexity(log_prob: float, num_words: int) -> float:
    mean = -log_prob / num_words if num_words else 0.0
    return math.exp(mean) if mean < 700 else math.inf


@compiled
def add_up(
    tables: Tables, ids: Int32, end: int, begin_words: Int32, begin_backoffs: Float32, begin_length: int
) -> tuple[float, float, int, int, int]:
    """The fields of a `Fit`.

    Args:
        tables: of the model.
        ids: see `fit`.
        end: id of </s>.
        begin_words: the context of a sentence's first word; see `Context`, as are the next two.
        begin_backoffs: (order - 1,)
        begin_length: how many of them are used.
    """
    words, backoffs, length = begin_words.copy(), begin_backoffs.copy(), begin_length
    next_words, next_backoffs = np.empty_like(words), np.empty_like(backoffs)
    total, unknown_total, num_unknown, num_sentences = 0.0, 0.0, 0, 0
    for word in ids:
        log_prob, length = advance(tables, words, backoffs, length, word, next_words, next_backoffs)
        words, next_words = next_words, words
        backoffs, next_backoffs = next_backoffs, backoffs
        total += log_prob
        if word == UNKNOWN_ID:
            unknown_total += log_prob
            num_unknown += 1
        if word == end:
            num_sentences += 1
            words[:], backoffs[:], length = begin_words, begin_backoffs, begin_length
    return total, unknown_total, len(ids) - num_sentences, num_unknown, num_sentences
