"""Measure how well a language model predicts a text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from asr.base.compiled import compilable, compiled, copy_into
from asr.language.ngram.model import SENTENCE_END, UNKNOWN_ID, Context, Int32, NGramModel, Tables, advance


@dataclass(frozen=True, slots=True)
class TextScore:
    """What a model scores on a text; results can be added up.

    Attributes:
        log_prob: natural log probability of all words and sentence ends.
        unknown_log_prob: the part of it that is due to words that the model does not know.
        num_words: number of words, without sentence ends.
        num_unknown: number of words that the model does not know.
        num_sentences: number of sentences.
    """

    log_prob: float = 0.0
    unknown_log_prob: float = 0.0
    num_words: int = 0
    num_unknown: int = 0
    num_sentences: int = 0

    def __add__(self, other: TextScore) -> TextScore:
        return TextScore(
            self.log_prob + other.log_prob,
            self.unknown_log_prob + other.unknown_log_prob,
            self.num_words + other.num_words,
            self.num_unknown + other.num_unknown,
            self.num_sentences + other.num_sentences,
        )

    @property
    def perplexity(self) -> float:
        """Return the perplexity of all words, counting a sentence end as a word."""
        return _perplexity(self.log_prob, self.num_words + self.num_sentences)

    @property
    def known_perplexity(self) -> float:
        """Return the perplexity of the words that the model knows."""
        num_known = self.num_words + self.num_sentences - self.num_unknown
        return _perplexity(self.log_prob - self.unknown_log_prob, num_known)

    @property
    def unknown_rate(self) -> float:
        """Return the share of words that the model does not know."""
        return self.num_unknown / self.num_words if self.num_words else 0.0


def score_text(model: NGramModel, blocks: Iterable[Int32]) -> TextScore:
    """Score a text with a model.

    Args:
        model: the language model.
        blocks: whole sentences of word ids, each closed by the id of </s>.
    """
    begin, end = model.begin_context(), model.ids[SENTENCE_END]
    total = TextScore()
    for ids in blocks:
        total += TextScore(*compiled(score_blocks)(model.tables, ids, end, begin))
    return total


def _perplexity(log_prob: float, num_words: int) -> float:
    mean = -log_prob / num_words if num_words else 0.0
    return math.exp(mean) if mean < 700 else math.inf


@compilable
def score_blocks(tables: Tables, ids: Int32, end: int, begin: Context) -> tuple[float, float, int, int, int]:
    """Return the fields of a `TextScore`.

    Args:
        tables: tables of the model.
        ids: a block of `score_text`.
        end: id of </s>.
        begin: the context of a sentence's first word.
    """
    words, backoffs, length = begin.words.copy(), begin.backoffs.copy(), begin.length
    next_words, next_backoffs = np.empty_like(words), np.empty_like(backoffs)
    total, unknown_total, num_unknown, num_sentences = 0.0, 0.0, 0, 0
    for word in ids:
        log_prob, length, _ = advance(tables, words, backoffs, length, word, next_words, next_backoffs)
        words, next_words = next_words, words
        backoffs, next_backoffs = next_backoffs, backoffs
        total += log_prob
        if word == UNKNOWN_ID:
            unknown_total += log_prob
            num_unknown += 1
        if word == end:
            num_sentences += 1
            copy_into(words, begin.words)
            copy_into(backoffs, begin.backoffs)
            length = begin.length
    return total, unknown_total, len(ids) - num_sentences, num_unknown, num_sentences
