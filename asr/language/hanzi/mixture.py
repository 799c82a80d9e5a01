"""Interpolate the general model of words with one of a user's own text.

The probability of a word is `(1 - share) * general + share * own` (Jelinek and Mercer, 1980), so that every
word of the general model stays known. The share grows with the own text, and is larger where the own model
also knows the word before: that a small text has a word is no reason to prefer it everywhere. The constants
were measured (benchmarks/accuracy/own_text.py): larger shares gain little on text like one's own, and lose
on other text.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable_inline
from asr.language.ngram.model import UNKNOWN_ID, NGramModel, Tables, advance

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

# words of own text at which its model counts half, without and with a word before
HALF_SHARE_WORDS, HALF_SHARE_PAIRS = 2e6, 5e5


class Mixture(NamedTuple):
    """Two models over words, in the form that compiled functions use.

    A context of both is the general one's, followed by the own one's.

    Attributes:
        general: tables of the general model.
        num_general: V, number of its words; a word with a larger id is unknown to it.
        own: tables of the own model.
        own_ids: (W,) id in the own model of each word, W at least V; `UNKNOWN_ID` for a word that it lacks.
        shares: (order,) of the own model, by the number of words before a word that it knows with it; (0,) if
            there is no own model.
    """

    general: Tables
    num_general: int
    own: Tables
    own_ids: Int32
    shares: Float64


class OwnWords(NamedTuple):
    """A model over words of a user's own text, to be interpolated with the general one.

    Attributes:
        model: the model.
        ids: (W,) see `Mixture.own_ids`.
        shares: see `Mixture.shares`.
        folder: of `asr lm train`, which they are from.
    """

    model: NGramModel
    ids: Int32
    shares: Float64
    folder: Path


def own_shares(num_tokens: int, order: int) -> Float64:
    """Return the shares of a model of a text with this number of words, see `Mixture.shares`."""
    halves = np.array([HALF_SHARE_WORDS, *[HALF_SHARE_PAIRS] * (order - 1)])
    shares: Float64 = num_tokens / (num_tokens + halves)
    return shares


class SentenceBegin(NamedTuple):
    """The context of both models at the beginning of a sentence."""

    words: Int32  # (C,)
    backoffs: Float32  # (C,)
    length: int
    own_length: int


def mixture_of(general: NGramModel, own: OwnWords | None) -> tuple[Mixture, SentenceBegin]:
    """Return the models in the form of the search, and the context at the beginning of a sentence."""
    num_words, first = len(general.words), general.begin_context()
    if own is None:
        nothing = np.zeros(0, np.int32), np.zeros(0)
        return Mixture(general.tables, num_words, general.tables, *nothing), SentenceBegin(*first, 0)
    other = own.model.begin_context()
    return Mixture(general.tables, num_words, own.model.tables, own.ids, own.shares), SentenceBegin(
        np.concatenate([first.words, other.words]),
        np.concatenate([first.backoffs, other.backoffs]),
        first.length,
        other.length,
    )


@compilable_inline
def with_own(
    mixture: Mixture,
    log_prob: float,
    context_words: Int32,
    context_backoffs: Float32,
    own_context_length: int,
    word: int,
    after_words: Int32,
    after_backoffs: Float32,
) -> tuple[float, int]:
    """Interpolate the general model's log probability of a word, and write the own context after it.

    Args:
        mixture: the models, of which there is an own one.
        log_prob: natural log probability of the word in the general model.
        context_words: (C,) words of the context in each model.
        context_backoffs: (C,) backoffs of the context.
        own_context_length: length of the context in the own model.
        word: id of the word.
        after_words: (C,) written: words of the next context; must not share memory with the context.
        after_backoffs: (C,) written: backoffs of the next context.

    Returns:
        natural log probability in both models, and the length of the own context after the word.
    """
    split, own_word, own_length = len(mixture.general.begins), mixture.own_ids[word], 0
    if own_word == UNKNOWN_ID:
        log_prob += math.log1p(-mixture.shares[0])
    else:
        own_log_prob, own_length, matched = advance(
            mixture.own,
            context_words[split:],
            context_backoffs[split:],
            own_context_length,
            own_word,
            after_words[split:],
            after_backoffs[split:],
        )
        log_prob += math.log1p(mixture.shares[matched] * (math.exp(own_log_prob - log_prob) - 1))
    return log_prob, own_length
