"""An n-gram model's probabilities equal those by the definition of backoff."""

import itertools
import math

import numpy as np
import pytest

from asr.language.ngram.model import NO_EXTENSION, NGramModel, NGrams

WORDS = ("<unk>", "<s>", "</s>", "a", "b", "c")


def table(entries):
    """Convert {ids: (log10 probability, log10 backoff)} to NGrams."""
    ids = np.array([list(key) for key in entries], np.int32)
    values = np.array(list(entries.values()), np.float32)
    return NGrams(ids, values[:, 0], values[:, 1])


@pytest.fixture(scope="module")
def entries():
    """Return all n-grams of a closed model of order 3, with different probabilities and backoffs."""
    draw = np.random.default_rng(5)
    grams = [{(i,): (-draw.uniform(0.1, 3), -draw.uniform(0, 1)) for i in range(len(WORDS))}]
    pairs = [key for key in itertools.product(range(6), repeat=2) if draw.random() < 0.5]
    grams.append({key: (-draw.uniform(0.1, 3), -draw.uniform(0.01, 1)) for key in pairs})
    triples = [(a, b, c) for a, b in pairs for c in range(6) if (b, c) in grams[1] and draw.random() < 0.5]
    grams.append({key: (-draw.uniform(0.1, 3), 0.0) for key in triples})
    begun = {key[:2] for key in triples}
    for key, (prob, backoff) in grams[1].items():
        grams[1][key] = (prob, backoff if key in begun else NO_EXTENSION)
    return grams


@pytest.fixture(scope="module")
def model(entries):
    return NGramModel.of_ngrams(WORDS, [table(order) for order in entries])


def by_definition(entries, context, word):
    """Return log10 P(word | context) by Katz's recursion."""
    if not context:
        return entries[0][(word,)][0]
    if (*context, word) in entries[len(context)]:
        return entries[len(context)][(*context, word)][0]
    backoff = entries[len(context) - 1].get(tuple(context), (0, 0))[1]
    return backoff + by_definition(entries, context[1:], word)


def test_sentence_probabilities_equal_the_definition_of_backoff(model, entries):
    for sentence in itertools.product(range(3, 6), repeat=4):
        history = [1]
        expected = []
        for word in (*sentence, 2):
            expected.append(math.log(10) * by_definition(entries, history[-2:], word))
            history.append(word)
        assert model.log_probs([WORDS[i] for i in sentence]) == pytest.approx(expected, abs=1e-5)


def test_an_unknown_word_has_the_probability_of_unk(model):
    assert model.log_probs(["a", "zebra"]) == model.log_probs(["a", "<unk>"])


def test_a_context_is_shortened_to_the_beginning_of_an_ngram(model, entries):
    """Hypotheses whose contexts differ only in irrelevant words can then be merged."""
    begun = {key[:2] for key in entries[2]}
    for first, second in entries[1]:
        _, context = model.advance(model.empty_context(), first)
        _, context = model.advance(context, second)
        assert context.length == (2 if (first, second) in begun else 1)
