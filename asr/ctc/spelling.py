"""Finds the words of a language model that the tokens of a search spell; compiled.

A word is scored when it ends: where a token begins the next one, and at the end of an utterance. Until then
the search counts the most probable word that begins with its letters, as in Ortmanns et al. (1996),
"Language-model look-ahead for large vocabulary speech recognition". A word that the model does not know is
scored as `<unk>`, with a penalty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable
from asr.base.decoder_settings import DecoderSettings
from asr.base.text.mixed import begins_word, words_of_mixed
from asr.base.text.pieces import text_of_pieces
from asr.base.text.units import WORD_BOUNDARY
from asr.base.vocabulary import BLANK, Vocabulary
from asr.language.ngram.model import UNKNOWN_ID, NGramModel
from asr.language.word_trie import (
    NO_WORD,
    NOT_A_WORD,
    UNKNOWN_WORD,
    follow,
    trie_of,
    unigram_log_probs,
)

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class Spelling(NamedTuple):
    """How the V tokens of a vocabulary spell the words of a language model, whose tree has S states.

    Attributes:
        is_used: whether the model is over words; if not, all else is ignored.
        begins: (V,) whether a token begins a word, and so ends the one before it.
        whole: (V,) the language model's id of a token that is a word by itself; `NOT_A_WORD` for others.
        letter_begins: (V + 1,) where each token's letters begin in `letters`.
        letters: code points of all tokens that are not words by themselves.
        edges, targets: of the tree, see `WordTrie`.
        words: (S,) the language model's id of the word that the letters so far are.
        penalties: (S,) added to its log probability: that of an unknown word, or 0.
        ahead: (S,) added to the score of a prefix in advance, for the word that has begun.
    """

    is_used: bool
    begins: Bool
    whole: Int64
    letter_begins: Int64
    letters: Int64
    edges: Int64
    targets: Int32
    words: Int64
    penalties: Float64
    ahead: Float64


def make_spelling(
    vocabulary: Vocabulary,
    model: NGramModel,
    settings: DecoderSettings,
    hot_words: Iterable[tuple[int, ...]] = (),
) -> Spelling:
    """Return how a vocabulary of pieces, or mixed, spells the words of a model.

    Args:
        vocabulary: of the search.
        model: over words, see `asr.language.ngram.folder.is_over_words`.
        settings: the weights of the search.
        hot_words: ids of their tokens; they are no unknown words.
    """
    is_mixed = vocabulary.unit == "mixed"
    is_whole = np.array([is_mixed and begins_word(token) for token in vocabulary.tokens])
    is_marked = np.array([token.startswith(WORD_BOUNDARY) for token in vocabulary.tokens])
    spelled = [
        "" if alone or token == BLANK else token.removeprefix(WORD_BOUNDARY)
        for token, alone in zip(vocabulary.tokens, is_whole, strict=True)
    ]
    unknown = float(unigram_log_probs(model, np.zeros(1, np.int64))[0])
    trie = trie_of(model)
    if names := _words_of(hot_words, vocabulary):
        trie = trie.with_words(names, unknown)
    best = trie.best.copy()
    best[UNKNOWN_WORD] = unknown + settings.unknown_word
    ahead = settings.lm_weight * best + settings.token_bonus
    ahead[NO_WORD] = 0.0
    return Spelling(
        True,
        is_whole | is_marked,
        np.where(is_whole, model.ids_of(vocabulary.tokens).astype(np.int64), NOT_A_WORD),
        np.cumsum([0, *map(len, spelled)], dtype=np.int64),
        np.array([ord(letter) for letter in "".join(spelled)], np.int64),
        trie.edges,
        trie.targets,
        np.where(trie.words == NOT_A_WORD, UNKNOWN_ID, trie.words),
        np.where(trie.words == NOT_A_WORD, settings.unknown_word, 0.0),
        ahead,
    )


def _words_of(hot_words: Iterable[tuple[int, ...]], vocabulary: Vocabulary) -> list[str]:
    """Return the words of hot words."""
    words: list[str] = []
    for tokens in map(vocabulary.decode, hot_words):
        words += words_of_mixed(tokens) if vocabulary.unit == "mixed" else text_of_pieces(tokens).split()
    return words


@compilable
def spell(spelling: Spelling, state: int, token: int) -> int:
    """Return the state of the tree after the letters of a token."""
    for index in range(spelling.letter_begins[token], spelling.letter_begins[token + 1]):
        if state == UNKNOWN_WORD:
            break
        state = follow(spelling.edges, spelling.targets, state, spelling.letters[index])
    return state


def _no_spelling() -> Spelling:
    nothing, none = np.zeros(1, np.int64), np.zeros(1)
    return Spelling(False, np.zeros(1, np.bool_), *(nothing,) * 4, np.zeros(1, np.int32), nothing, none, none)


NO_SPELLING = _no_spelling()
