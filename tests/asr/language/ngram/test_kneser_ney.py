"""Kneser-Ney smoothing and pruning equal textbook implementations in plain Python."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.language.ngram import pruning
from asr.language.ngram.counting import END_ID, count_ngrams
from asr.language.ngram.kneser_ney import FALLBACK_DISCOUNTS, smooth
from asr.language.ngram.model import NGramModel
from asr.language.ngram.pruning import prune_to_size, table_bytes
from asr.language.ngram.training import SPECIAL_WORDS, TrainingOptions, train_ngrams

UNK, BEGIN, END = 0, 1, 2


def zipf_text(num_sentences, num_words=12, seed=1):
    """Return sentences whose words depend on the previous one, so that counts of counts are realistic."""
    draw = np.random.default_rng(seed)
    texts = []
    for _ in range(num_sentences):
        text, word = [], 0
        for _ in range(draw.integers(1, 8)):
            word = (word * 3 + int(draw.zipf(1.4))) % num_words
            text.append(3 + word)
        texts.append(text)
    return texts


class Textbook:
    """Compute interpolated modified Kneser-Ney by Chen and Goodman (1998), equation by equation."""

    def __init__(self, texts, order, num_words, discounts):
        self.num_words, self.discounts = num_words, discounts
        raw = [defaultdict(int) for _ in range(order)]
        for text in texts:
            padded = [BEGIN, *text, END]
            for size in range(1, order + 1):
                for begin in range(len(padded) - size + 1):
                    raw[size - 1][tuple(padded[begin : begin + size])] += 1
        self.raw = raw
        self.adjusted = []
        for size in range(1, order + 1):
            before = defaultdict(set)
            if size < order:
                for gram in raw[size]:
                    before[gram[1:]].add(gram[0])
            self.adjusted.append(
                {
                    gram: count if size == order or gram[0] == BEGIN else len(before[gram])
                    for gram, count in raw[size - 1].items()
                    if gram != (BEGIN,)
                }
            )
        self.followers = [defaultdict(dict) for _ in range(order)]
        for size, table in enumerate(self.adjusted):
            for gram, count in table.items():
                self.followers[size][gram[:-1]][gram[-1]] = count

    def prob(self, context, word):
        size = len(context)
        counts = self.followers[size].get(tuple(context), {})
        lower = 1 / (self.num_words - 1) if not size else self.prob(context[1:], word)
        if not counts:
            return lower
        discount = [0, *self.discounts[size]]
        total = sum(counts.values())
        own = counts.get(word, 0)
        freed = sum(discount[min(3, count)] for count in counts.values())
        return (own - discount[min(3, own)]) / total + freed / total * lower


def blocks_of(texts):
    return [np.array([i for text in texts for i in (*text, END_ID)], np.int32)]


def names(num_words):
    return [*SPECIAL_WORDS, *(f"w{i}" for i in range(3, num_words))]


def contexts_of(texts, order):
    padded = [[BEGIN, *text] for text in texts]
    found = {tuple(text[max(0, end - order + 1) : end]) for text in padded for end in range(1, len(text) + 1)}
    return sorted(found)


def prob(model, context, word):
    if context and context[0] == BEGIN:
        state, context = model.begin_context(), context[1:]
    else:
        state = model.empty_context()
    for one in context:
        _, state = model.advance(state, one)
    return math.exp(model.advance(state, word)[0])


def train(texts, num_words, tmp_path, **options):
    return train_ngrams(names(num_words), blocks_of(texts), tmp_path, TrainingOptions(**options))


@pytest.mark.parametrize("order", [2, 3, 5])
def test_probabilities_equal_the_textbook_implementation(order, tmp_path):
    texts = zipf_text(400)
    trained = train(texts, 15, tmp_path, order=order)
    book = Textbook(texts, order, 15, trained.discounts)
    for context in contexts_of(texts, order):
        for word in (UNK, *range(END, 15)):
            assert prob(trained.model, context, word) == pytest.approx(book.prob(context, word), rel=1e-5)


def test_discounts_equal_those_of_chen_and_goodman(tmp_path):
    texts = zipf_text(400)
    trained = train(texts, 15, tmp_path, order=3)
    assert trained.fallback_orders == (1,)  # twelve words have too few counts of counts
    table = Textbook(texts, 3, 15, trained.discounts).adjusted
    for order in (2, 3):
        n = [sum(count == k for count in table[order - 1].values()) for k in range(5)]
        y = n[1] / (n[1] + 2 * n[2])
        expected = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
        assert trained.discounts[order - 1] == pytest.approx(expected)
    assert trained.discounts[0] == FALLBACK_DISCOUNTS


MODELS = {
    "whole": {},
    "without rare ones": {"prune": (0, 1, 2)},
    "small": {"max_bytes": 4000},
    "without rare ones and small": {"prune": (0, 1), "max_bytes": 4000},
    "unigrams alone": {"prune": (0, 10**9)},
}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_probabilities_of_every_context_sum_to_one(options, tmp_path):
    texts = zipf_text(400)
    model = train(texts, 15, tmp_path, order=3, **options).model
    for context in [*itertools.product(range(END, 15), repeat=2), *contexts_of(texts, 3)]:
        total = sum(prob(model, context, word) for word in (UNK, *range(END, 15)))
        assert total == pytest.approx(1, abs=1e-5)


def test_pruning_drops_exactly_the_rare_ngrams(tmp_path):
    texts = zipf_text(400)
    book = Textbook(texts, 3, 15, [(0, 0, 0)] * 3)
    trained = train(texts, 15, tmp_path, order=3, prune=(0, 1, 2))
    raw = [
        sum(count > limit for count in table.values())
        for table, limit in zip(book.raw, (0, 1, 2), strict=True)
    ]
    assert trained.model.counts == (15, raw[1], raw[2])


def brute_force_loss(model_of, estimates, order, row, texts, num_words):
    """Return the relative entropy of a context's predictions with and without one of its n-grams."""
    table, shorter = estimates[order], estimates[order - 1]
    context = table.contexts[row]
    mine = np.flatnonzero(table.contexts == context)
    words = table.rows[mine, 0]
    lower = {}

    def lower_prob(word):
        if word not in lower:
            history = tuple(int(i) for i in shorter.rows[context][::-1])
            lower[word] = prob(model_of, history[1:], word) if len(history) > 1 else prob(model_of, (), word)
        return lower[word]

    def predictions(kept):
        left = 1 - sum(table.probs[mine[i]] for i in kept)
        left_lower = 1 - sum(lower_prob(int(words[i])) for i in kept)
        explicit = {int(words[i]): table.probs[mine[i]] for i in kept}
        return {
            word: explicit.get(word) or left / left_lower * lower_prob(word)
            for word in (UNK, *range(END, num_words))
        }

    place = int(np.flatnonzero(mine == row)[0])
    before = predictions(range(len(mine)))
    after = predictions([i for i in range(len(mine)) if i != place])
    occurs = shorter.counts[context] / shorter.counts.sum()
    return occurs * sum(p * math.log(p / after[word]) for word, p in before.items())


def test_pruning_losses_equal_relative_entropies(tmp_path):
    texts = zipf_text(60)
    counts = count_ngrams(blocks_of(texts), 3, 15, 10**9, tmp_path)
    estimates = smooth(counts, 3, 15, (0, 0, 0)).estimates
    model = train(texts, 15, tmp_path, order=3).model
    for order in (1, 2):
        losses = pruning._own_losses(estimates[order], estimates[order - 1])
        for row in range(0, len(losses), 3):
            if (estimates[order - 1].rows[estimates[order].contexts[row]] == BEGIN).any():
                continue  # <s> has no unigram probability that a sentence's words could be compared with
            expected = brute_force_loss(model, estimates, order, row, texts, 15)
            assert losses[row] == pytest.approx(expected, rel=1e-3, abs=1e-9)


def test_a_maximum_size_is_used_up_and_all_parts_of_kept_ngrams_are_kept(tmp_path):
    counts = count_ngrams(blocks_of(zipf_text(2000, 300)), 4, 303, 10**9, tmp_path)
    whole = smooth(counts, 4, 303, (0, 0, 0, 0)).estimates
    sizes = [len(table.rows) for table in whole]
    for share in (0.9, 0.5, 0.2):
        limit = int(table_bytes(sizes) * share)
        pruned = prune_to_size(whole, limit)
        size = table_bytes([len(table.rows) for table in pruned])
        assert 0.9 * limit < size <= limit
        grams = [{tuple(row) for row in table.rows.tolist()} for table in pruned]
        for shorter, longer in itertools.pairwise(grams):
            assert all(row[1:] in shorter and row[:-1] in shorter for row in longer)


@pytest.mark.parametrize("order", [2, 3])
def test_frequent_beginnings_of_sentences_are_kept(order, tmp_path):
    texts = [[3 + index % 2, *text] for index, text in enumerate(zipf_text(1000, 200))]
    counts = count_ngrams(blocks_of(texts), order, 203, 10**9, tmp_path)
    whole = smooth(counts, order, 203, (0,) * order).estimates
    pruned = prune_to_size(whole, int(table_bytes([len(table.rows) for table in whole]) * 0.6))
    bigrams = {tuple(row) for row in pruned[1].rows.tolist()}
    assert {(3, BEGIN), (4, BEGIN)} <= bigrams


def test_pruning_to_a_size_raises_perplexity_less_than_random_pruning(tmp_path, monkeypatch):
    texts, words = zipf_text(3000, 200), names(203)

    def nats(model):
        logs = [p for text in texts[:500] for p in model.log_probs([words[i] for i in text])]
        return -sum(logs) / len(logs)

    whole = nats(train(texts, 203, tmp_path, order=3).model)
    chosen = nats(train(texts, 203, tmp_path, order=3, max_bytes=100_000).model)
    draw = np.random.default_rng(0)
    monkeypatch.setattr(pruning, "_own_losses", lambda table, _: draw.random(len(table.rows)))
    at_random = nats(train(texts, 203, tmp_path, order=3, max_bytes=100_000).model)
    assert whole < chosen < whole + 0.7 * (at_random - whole)


def same(one: NGramModel, other: NGramModel):
    return one.counts == other.counts and np.array_equal(one.tables.memory, other.tables.memory)


@pytest.mark.parametrize("options", [{}, {"prune": (0, 0, 1)}, {"max_bytes": 60_000}])
def test_the_trained_model_does_not_depend_on_memory(options, tmp_path):
    texts = zipf_text(3000, 200)
    models = [
        train(texts, 203, tmp_path, order=3, memory_bytes=memory, **options).model for memory in (1, 10**9)
    ]
    assert same(*models)


def test_a_text_of_short_sentences_gives_a_model_of_lower_order(tmp_path):
    trained = train([[3, 4]], 5, tmp_path, order=6)
    assert trained.model.order == 4  # <s> a b </s>
    assert trained.fallback_orders == (1, 2, 3, 4)
    assert sum(prob(trained.model, (BEGIN, 3), word) for word in (0, 2, 3, 4)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 1}, "expected 2 to 6, received 1"),
        ({"order": 7}, "expected 2 to 6, received 7"),
        ({"prune": (1, 1)}, "the first 0"),
        ({"prune": (0, 2, 1)}, "none lower"),
        ({"prune": (0, 0, 0, 1)}, "at most 3"),
    ],
)
def test_invalid_training_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        TrainingOptions(**options)


def test_a_maximum_size_below_that_of_the_words_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"at least 0\.\d MB, which 203 words take alone"):
        train(zipf_text(10, 200), 203, tmp_path, max_bytes=1000)
