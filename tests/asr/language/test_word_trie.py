"""Words are found by their letters in a tree."""

import numpy as np
import pytest

from asr.language.ngram.model import UNKNOWN_ID, NGramModel, NGrams
from asr.language.word_trie import (
    MAX_LETTERS,
    NO_WORD,
    NOT_A_WORD,
    UNKNOWN_WORD,
    follow,
    trie_of,
    unigram_log_probs,
)


def model_of(*words):
    """Return a model in which later words are less probable."""
    words = ("<unk>", "<s>", "</s>", *words)
    ids = np.arange(len(words), dtype=np.int32)[:, None]
    log10_probs = -0.1 * np.arange(1, len(words) + 1, dtype=np.float32)
    zeros = np.zeros(len(words), np.float32)
    pair = NGrams(np.array([[1, 2]], np.int32), np.full(1, -0.5, np.float32), zeros[:1])
    return NGramModel.of_ngrams(words, [NGrams(ids, log10_probs, zeros), pair])


def state_of(trie, word):
    state = NO_WORD
    for letter in word:
        if state != UNKNOWN_WORD:
            state = follow(trie.edges, trie.targets, state, ord(letter))
    return state


def test_words_are_found_by_their_letters_and_others_are_not():
    words = ("not", "no", "note", "né", "x" * MAX_LETTERS)
    model = model_of(*words)
    trie = trie_of(model)
    for word in words:
        assert model.words[trie.words[state_of(trie, word)]] == word
    for prefix in ("n", "x", "x" * (MAX_LETTERS - 1)):
        assert trie.words[state_of(trie, prefix)] == NOT_A_WORD
    for other in ("t", "nott", "note ", "e", "<unk>", "</s>", "x" * (MAX_LETTERS + 1)):
        assert state_of(trie, other) == UNKNOWN_WORD


def test_the_best_word_ahead_is_the_most_probable_one_through_a_state():
    model = model_of("no", "not", "knot")
    trie = trie_of(model)
    no, nothing, knot = unigram_log_probs(model, model.ids_of(("no", "not", "knot")).astype(np.int64))
    found = {word: trie.best[state_of(trie, word)] for word in ("n", "no", "not", "k")}
    assert found == {"n": no, "no": no, "not": nothing, "k": knot}


def test_further_words_are_known_and_those_before_stay():
    model = model_of("no", "not")
    before = trie_of(model)
    trie = before.with_words(["nota", "na", "no", "n", "xy", "xy", ""], -4.0)
    assert model.words[trie.words[state_of(trie, "no")]] == "no"
    for word in ("nota", "na", "n", "xy"):
        assert trie.words[state_of(trie, word)] == UNKNOWN_ID
    assert trie.words[state_of(trie, "x")] == NOT_A_WORD
    assert trie.best[state_of(trie, "xy")] == -4.0
    assert state_of(trie, "nob") == UNKNOWN_WORD
    assert before.words[state_of(before, "n")] == NOT_A_WORD
    assert (np.diff(trie.edges) > 0).all()


@pytest.mark.parametrize("spelled", ["No", "no"])
def test_words_with_capitals_are_found_in_small_letters_too(spelled):
    model = model_of("sil", "No", "NOT")
    assert model.words[trie_of(model).words[state_of(trie_of(model), spelled)]] == "No"


def test_a_word_that_is_written_so_comes_before_one_with_capitals():
    model = model_of("No", "NO", "no")
    for word in ("no", "No", "NO"):
        assert model.words[trie_of(model).words[state_of(trie_of(model), word)]] == word


def test_a_model_without_words_has_an_empty_tree():
    assert state_of(trie_of(model_of()), "n") == UNKNOWN_WORD
