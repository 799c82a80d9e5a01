"""The words of a language model as a tree of letters, by which a search over letters or pieces finds them.

Pieces of any length lead from state to state by their letters, so that a word is found however it is split.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable
from asr.base.text.units import SPECIAL
from asr.language.ngram.model import LN10, UNIGRAM_WORDS, UNKNOWN_ID, NGramModel

NO_WORD, UNKNOWN_WORD = 0, 1  # states: no word has begun; the letters so far begin no known word
NOT_A_WORD = -1
MAX_LETTERS = 64  # of a word; texts have longer ones that are none
LETTER_BITS = 21  # of a code point
NEVER = -np.inf  # log probability of a word in which no word of the model begins with these letters


@dataclass(frozen=True)
class WordTrie:
    """Words by their letters: S states, and N edges from a state to another.

    Attributes:
        edges: (N,) int64 in ascending order: a state, shifted by `LETTER_BITS`, and a letter.
        targets: (N,) int32 state that each edge leads to.
        words: (S,) int64 the language model's id of the word that ends in a state, `UNKNOWN_ID` for a word
            that is known from elsewhere, or `NOT_A_WORD`.
        best: (S,) the highest natural log probability, without context, of a word that goes through a state.
    """

    edges: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int32]
    words: npt.NDArray[np.int64]
    best: npt.NDArray[np.float64]

    def with_words(self, spellings: Iterable[str], log_prob: float) -> WordTrie:
        """Return a tree that has further words, which the language model scores as unknown ones.

        Args:
            spellings: of the words; what the tree has stays.
            log_prob: of an unknown word.
        """
        added: dict[int, int] = {}  # edges
        words: list[int] = []  # of the states that are added
        ending = self.words.copy()
        for spelling in spellings:
            state = NO_WORD
            for letter in map(ord, spelling):
                key = (state << LETTER_BITS) | letter
                known = (
                    follow(self.edges, self.targets, state, letter) if state < len(ending) else UNKNOWN_WORD
                )
                if known == UNKNOWN_WORD:
                    known = added.setdefault(key, len(ending) + len(words))
                    words += [NOT_A_WORD] * (known == len(ending) + len(words))
                state = known
            if state >= len(ending):
                words[state - len(ending)] = UNKNOWN_ID
            elif state > UNKNOWN_WORD and ending[state] == NOT_A_WORD:
                ending[state] = UNKNOWN_ID
        keys = np.array(sorted(added), np.int64)
        targets = np.array([added[key] for key in keys.tolist()], np.int32)
        indices = np.searchsorted(self.edges, keys)
        return WordTrie(
            np.insert(self.edges, indices, keys),
            np.insert(self.targets, indices, targets),
            np.concatenate([ending, np.array(words, np.int64)]),
            np.concatenate([self.best, np.full(len(words), log_prob)]),
        )


@functools.lru_cache(maxsize=1)  # a server makes a search for each request's hot words
def trie_of(model: NGramModel) -> WordTrie:
    """Return the tree of a model's words, which are found in small letters, too, as most labels are.

    Words of more than `MAX_LETTERS` are left out, and so unknown. Of two words with one spelling, the one
    that is written so counts, else the more probable one.
    """
    words = [(index, word) for index, word in enumerate(model.words) if word not in SPECIAL]
    words = [(index, word) for index, word in words if len(word) <= MAX_LETTERS]
    lowered = [(index, word.lower()) for index, word in words if word != word.lower()]
    rows = [row for part in (lowered, words) for row in _by_probability(model, part)]
    ids = np.array([index for index, _, _ in rows], np.int64)
    return _grown([word for _, word, _ in rows], ids, np.array([log_prob for _, _, log_prob in rows]))


def _by_probability(model: NGramModel, words: Sequence[tuple[int, str]]) -> list[tuple[int, str, float]]:
    """Return ids, spellings and log probabilities of words, the most probable last."""
    log_probs = unigram_log_probs(model, np.array([index for index, _ in words], np.int64)).tolist()
    rows = [(*word, log_prob) for word, log_prob in zip(words, log_probs, strict=True)]
    return sorted(rows, key=lambda row: row[2])


def _grown(
    spelled: Sequence[str], ids: npt.NDArray[np.int64], log_probs: npt.NDArray[np.float64]
) -> WordTrie:
    """Return the tree of words; of equal ones, the last counts."""
    lengths = np.array([len(word) for word in spelled], np.int64)
    letters = np.array([*spelled, ""]).view(np.uint32).reshape(len(spelled) + 1, -1)  # also of no words
    states = np.full(len(spelled), NO_WORD, np.int64)
    edges, words, best = [np.zeros(0, np.int64)], [np.full(2, NOT_A_WORD)], [np.array([0.0, NEVER])]
    num_states = 2
    for index in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > index)
        keys = (states[rows] << LETTER_BITS) | letters[rows, index]
        found, inverse = np.unique(keys, return_inverse=True)
        states[rows] = num_states + inverse
        edges.append(found)  # ascending throughout: the states of each length follow those before
        best.append(np.full(len(found), NEVER))
        np.maximum.at(best[-1], inverse, log_probs[rows])
        words.append(np.full(len(found), NOT_A_WORD))
        ends = lengths[rows] == index + 1
        words[-1][inverse[ends]] = ids[rows[ends]]  # of equal words the last
        num_states += len(found)
    targets = np.arange(2, num_states, dtype=np.int32)
    return WordTrie(np.concatenate(edges), targets, np.concatenate(words), np.concatenate(best))


def unigram_log_probs(model: NGramModel, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the natural log probabilities of words without context."""
    return -np.abs(model.tables.floats[ids * UNIGRAM_WORDS].astype(np.float64)) * LN10


@compilable
def follow(edges: npt.NDArray[np.int64], targets: npt.NDArray[np.int32], state: int, letter: int) -> int:
    """Return the state after a letter; `UNKNOWN_WORD` if no word has it there."""
    key = (np.int64(state) << LETTER_BITS) | np.int64(letter)
    index = np.searchsorted(edges, key)
    if index < len(edges) and edges[index] == key:
        return int(targets[index])
    return UNKNOWN_WORD
