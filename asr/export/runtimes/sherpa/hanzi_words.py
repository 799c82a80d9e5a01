"""Choose the words and word pairs that are worth their bytes, from the general model of hanzi.

A transducer spells every word out in bytes, so that all of the model's 300,000 words would take 34 MB. What
is left out here was chosen by measuring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.language.hanzi.converter import GENERAL_MODEL, Converter
from asr.language.hanzi.dictionary import Dictionary
from asr.language.hanzi.packed import read_packed
from asr.language.ngram.model import LN10, SENTENCE_BEGIN, SENTENCE_END, UNKNOWN_ID, NGramModel

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

NUM_PAIRS = 20_000
MIN_PROBABILITY = 1e-7  # of a word of two syllables
PER_SYLLABLE = 4  # longer words, which share fewer bytes, must be more probable: 5 times for each further one
WITHIN = 8.0  # a word that begins pairs is kept if it is this near to the best of its reading
MIN_AMBIGUITY = 0.02  # added, because pairs also decide where words end
MIN_LEFT = 1e-6  # probability, avoids the logarithm of 0


class Spoken(NamedTuple):
    """A word with one of its readings.

    Attributes:
        syllables: the reading.
        text: the characters, one for each syllable; or one text for a syllable of no word.
        word: id of the word.
        cost: of the reading given the word.
    """

    syllables: tuple[str, ...]
    text: str
    word: int
    cost: float


class Pair(NamedTuple):
    """Two words in sequence, and the cost of the second after the first."""

    first: int
    second: int
    cost: float


class Words(NamedTuple):
    """A small model of word pairs; costs are negative natural logarithms of probabilities.

    Attributes:
        spoken: the words with their readings.
        costs: (V,) cost of each word by itself.
        pairs: pairs whose cost is known; that of others is that of the second word plus `backoffs[first]`.
        backoffs: by the first words of pairs; of other words, it is 0.
        begin: word that begins a sentence.
        end: word that ends one.
    """

    spoken: list[Spoken]
    costs: Float64
    pairs: list[Pair]
    backoffs: dict[int, float]
    begin: int
    end: int


def choose_words(tokens: Collection[str]) -> Words:
    """Return the words that a recognizer with these tokens can recognize, without those that matter least.

    Args:
        tokens: toned syllables; each is at least one word.

    Raises:
        UserError: the model cannot be read.
    """
    words, ngrams, dictionary = read_packed(GENERAL_MODEL)
    begin, end = words.index(SENTENCE_BEGIN), words.index(SENTENCE_END)
    costs = -LN10 * ngrams[0].log10_probs.astype(np.float64)
    spoken = sorted(_spoken(dictionary, tokens), key=lambda word: costs[word.word] + word.cost)
    possible = np.zeros(len(words), np.bool_)
    possible[[begin, end, *(word.word for word in spoken)]] = True

    firsts, seconds = ngrams[1].ids.T
    pair_costs = -LN10 * ngrams[1].log10_probs.astype(np.float64)
    occurs = np.exp(-costs)
    occurs[begin] = occurs[end]  # a sentence has one of each
    backoff_costs = -LN10 * ngrams[0].log10_backoffs.astype(np.float64)
    gains = backoff_costs[firsts] + costs[seconds] - pair_costs
    ambiguity = _ambiguity(spoken, costs)
    values = occurs[firsts] * np.exp(-pair_costs) * gains
    values *= ambiguity[firsts] + ambiguity[seconds] + MIN_AMBIGUITY
    values[(gains <= 0) | ~possible[firsts] | ~possible[seconds]] = 0
    most = np.argsort(-values, kind="stable")[: min(NUM_PAIRS, int((values > 0).sum()))]

    kept = _without_rare(spoken, costs, set(firsts[most].tolist()), set(seconds[most].tolist()))
    known = np.zeros(len(words), np.bool_)
    known[[begin, *(word.word for word in kept)]] = True
    most = most[known[firsts[most]]]
    kept += _of_no_word(tokens, kept, Converter(NGramModel.of_ngrams(words, ngrams), dictionary))
    pairs = map(Pair, firsts[most].tolist(), seconds[most].tolist(), pair_costs[most].tolist())
    backoffs = _backoffs(firsts[most], seconds[most], pair_costs[most], costs)
    return Words(kept, costs, list(pairs), backoffs, begin, end)


def _spoken(dictionary: Dictionary, tokens: Collection[str]) -> Iterator[Spoken]:
    """Yield the words all of whose syllables are tokens, with their readings."""
    trie = dictionary.trie
    nodes: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    while nodes:
        node, syllables = nodes.pop()
        for child in range(trie.first_child[node], trie.first_child[node + 1]):
            syllable = dictionary.syllables[trie.syllables[child]]
            if syllable in tokens:
                nodes.append((child, (*syllables, syllable)))
        for entry in range(trie.first_entry[node], trie.first_entry[node + 1]):
            cost = -float(trie.entry_log_probs[entry])
            yield Spoken(syllables, dictionary.words[entry], int(trie.entry_words[entry]), cost)


def _ambiguity(spoken: list[Spoken], costs: Float64) -> Float64:
    """Return, for each word, the probability that its reading is meant as another word."""
    totals: dict[tuple[str, ...], float] = {}
    probabilities = [float(np.exp(-costs[word.word] - word.cost)) for word in spoken]
    for word, probability in zip(spoken, probabilities, strict=True):
        totals[word.syllables] = totals.get(word.syllables, 0.0) + probability
    ambiguity = np.zeros(len(costs))
    for word, probability in zip(spoken, probabilities, strict=True):
        ambiguity[word.word] += np.exp(-word.cost) * (1 - probability / totals[word.syllables])
    return ambiguity


def _without_rare(
    spoken: list[Spoken], costs: Float64, firsts: Collection[int], seconds: Collection[int]
) -> list[Spoken]:
    """Return the words of pairs, and of each reading the best, unless it is too rare for its length.

    Without a pair, the others of a reading never win. A syllable's best word is always kept.
    """
    kept: list[Spoken] = []
    best: dict[tuple[str, ...], float] = {}
    for word in spoken:  # the best first
        cost = float(costs[word.word]) + word.cost
        length = len(word.syllables)
        needed = MIN_PROBABILITY * (1 + PER_SYLLABLE * (length - 2))
        is_best = word.syllables not in best and (length == 1 or np.exp(-cost) >= needed)
        if is_best:
            best[word.syllables] = cost
        near = cost <= best.get(word.syllables, cost) + WITHIN
        if is_best or word.word in seconds or (word.word in firsts and near):
            kept.append(word)
    return kept


def _of_no_word(tokens: Collection[str], spoken: list[Spoken], converter: Converter) -> list[Spoken]:
    """Return what the converter writes for each token that is not the reading of a word."""
    found = {word.syllables for word in spoken}
    missing = [token for token in tokens if (token,) not in found]
    return [Spoken((token,), converter.convert([token]).text, UNKNOWN_ID, 0.0) for token in missing]


def _backoffs(firsts: Int32, seconds: Int32, pair_costs: Float64, costs: Float64) -> dict[int, float]:
    """Return the backoffs that make the probabilities of all words after each first word sum to 1."""
    left = 1 - np.bincount(firsts, np.exp(-pair_costs), len(costs))
    left_alone = 1 - np.bincount(firsts, np.exp(-costs[seconds]), len(costs))
    weights = np.maximum(left, MIN_LEFT) / np.maximum(left_alone, MIN_LEFT)
    return {first: -float(np.log(weights[first])) for first in set(firsts.tolist())}
