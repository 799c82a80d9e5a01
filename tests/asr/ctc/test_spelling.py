"""A language model over words scores the words that pieces spell, when they end."""

import functools

import numpy as np
import pytest
from helpers.alignments import decoded, random_log_probs, random_model, streams, sums_over_alignments

from asr.base.decoder_settings import DecoderSettings
from asr.base.text.mixed import mixed_words
from asr.base.vocabulary import Vocabulary
from asr.ctc import beam_search as beam_module
from asr.ctc.beam_search import BeamSearch
from asr.ctc.hot_words import HotWords
from asr.language.ngram.model import NGramModel, NGrams

PIECES = ("▁", "▁a", "b", "▁ab")
MIXED = ("ma1", "A", "▁ab", "b", "▁")
WEIGHTS = {"lm_weight": 0.7, "token_bonus": 1.25, "unknown_word": -3.0}
UNPRUNED = DecoderSettings(beam=8192, min_token_log_prob=-1e9, beam_width=1e9, **WEIGHTS)
NUM_FRAMES = 5


OVER_WORDS = {
    "pieces": (Vocabulary(PIECES), random_model("a", "ab", "abb", "bb")),
    "mixed": (Vocabulary(MIXED), random_model("ma1", "A", "ab", "bab")),
    "mixed, a letter unknown": (Vocabulary(MIXED), random_model("ma1", "ab", "bab")),
}


def words_of(tokens, unit):
    """Return the words of tokens; letters that are said by their names are a word each."""
    if unit == "pieces":
        return "".join(tokens).replace("▁", " ").split()
    words = [word.text for word in mixed_words(tokens)]
    return [part for word in words for part in (word if word.isupper() else [word])]


def language_of(model, words, known=()):
    """Return the log probability of a sentence by its words, with the penalties of those that are unknown."""
    unknown = [word for word in words if word not in model.ids and word not in known]
    return sum(model.log_probs(words)) + WEIGHTS["unknown_word"] * len(unknown)


@pytest.mark.parametrize("name", OVER_WORDS)
def test_every_sequence_is_scored_by_its_words_and_the_sentence_end(name):
    vocabulary, model = OVER_WORDS[name]
    num_unknown = 0
    for seed in range(3):
        log_probs = random_log_probs(seed, NUM_FRAMES, len(vocabulary))
        exact = sums_over_alignments(log_probs)
        candidates = decoded(BeamSearch(vocabulary, UNPRUNED, model), log_probs)
        assert {candidate.ids for candidate in candidates} == exact.keys()
        for candidate in candidates:
            words = words_of(vocabulary.decode(candidate.ids), vocabulary.unit)
            num_unknown += any(word not in model.ids for word in words)
            language = language_of(model, words)
            assert candidate.language == pytest.approx(language, abs=1e-5)
            expected = exact[candidate.ids] + 0.7 * language + 1.25 * len(words)
            assert candidate.score == pytest.approx(expected, abs=1e-5)
        assert candidates == sorted(candidates, key=lambda candidate: -candidate.score)
    assert num_unknown > 100


@pytest.mark.parametrize("name", OVER_WORDS)
def test_a_beam_finds_what_brute_force_finds(name):
    vocabulary, model = OVER_WORDS[name]
    settings = DecoderSettings(beam=64, **WEIGHTS)
    num_changed = 0

    @functools.cache
    def language_score(ids):
        words = words_of(vocabulary.decode(ids), vocabulary.unit)
        return 0.7 * language_of(model, words) + 1.25 * len(words)

    for seed in range(20):
        log_probs = random_log_probs(seed, NUM_FRAMES, len(vocabulary))
        exact = sums_over_alignments(log_probs)
        best = max(exact, key=lambda ids: exact[ids] + language_score(ids))
        assert decoded(BeamSearch(vocabulary, settings, model), log_probs)[0].ids == best
        num_changed += best != max(exact, key=exact.get)
    assert num_changed > 5


def test_a_word_counts_once_however_it_is_split():
    vocabulary, model = OVER_WORDS["pieces"]
    found = {
        vocabulary.join(vocabulary.decode(candidate.ids)): candidate.language
        for candidate in decoded(
            BeamSearch(vocabulary, UNPRUNED, model), random_log_probs(1, 4, len(vocabulary))
        )
        if vocabulary.decode(candidate.ids) in (("▁a", "b"), ("▁ab",))
    }
    assert found == {"ab": pytest.approx(language_of(model, ["ab"]), abs=1e-5)}


def test_only_whole_words_count_before_the_utterance_ends():
    vocabulary, model = OVER_WORDS["pieces"]
    search = BeamSearch(vocabulary, UNPRUNED, model)
    state = search.start()
    search.feed(state, random_log_probs(2, 4, len(vocabulary)))
    for candidate in search.candidates(state, finished=False):
        tokens = vocabulary.decode(candidate.ids)
        words = words_of(tokens, "pieces")
        is_open = bool(tokens) and tokens[-1] != "▁"
        whole = words[: len(words) - is_open]
        unknown = sum(word not in model.ids for word in whole)
        expected = sum(model.log_probs(whole)[:-1]) + WEIGHTS["unknown_word"] * unknown
        assert candidate.language == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", OVER_WORDS)
def test_a_stream_split_anywhere_gives_the_candidates_of_the_whole_clip(name, monkeypatch):
    monkeypatch.setattr(beam_module, "INITIAL_NODES", 0)  # so that memory grows often
    vocabulary, model = OVER_WORDS[name]
    log_probs = random_log_probs(4, 300, len(vocabulary))
    search = BeamSearch(vocabulary, DecoderSettings(beam=6, **WEIGHTS), model, HotWords({(3, 4): 1.0}))
    whole = decoded(search, log_probs)
    monkeypatch.undo()
    assert decoded(search, log_probs) == whole
    for state in streams(search, log_probs):
        assert search.candidates(state, finished=True) == whole


def test_a_hot_word_is_no_unknown_word():
    vocabulary, model = OVER_WORDS["pieces"]
    hot_words = HotWords({tuple(vocabulary.encode(["▁a", "b", "b", "b"])): 1e-9})  # ab and abb are words
    log_probs = random_log_probs(5, 7, len(vocabulary))
    for candidate in decoded(BeamSearch(vocabulary, UNPRUNED, model, hot_words), log_probs):
        words = words_of(vocabulary.decode(candidate.ids), "pieces")
        assert candidate.language == pytest.approx(language_of(model, words, {"abbb"}), abs=1e-5)


def test_a_model_over_tokens_is_no_model_over_words():
    vocabulary, _ = OVER_WORDS["pieces"]
    model = random_model(*PIECES)
    for candidate in decoded(
        BeamSearch(vocabulary, UNPRUNED, model), random_log_probs(1, 4, len(vocabulary))
    ):
        language = sum(model.log_probs(vocabulary.decode(candidate.ids)))
        assert candidate.language == pytest.approx(language, abs=1e-5)


def test_a_word_that_is_rare_by_itself_may_be_probable_in_its_context():
    """What was subtracted in advance for a rare word is no reason to drop the token that ends it."""
    vocabulary = OVER_WORDS["pieces"][0]
    words = ("<unk>", "<s>", "</s>", "a", "ab")
    unigrams = NGrams(
        np.arange(5, dtype=np.int32)[:, None],
        np.array([-5, -9, -1, -0.3, -4], np.float32),
        np.full(5, -0.1, np.float32),
    )
    pair = NGrams(np.array([[3, 4]], np.int32), np.array([-0.01], np.float32), np.zeros(1, np.float32))
    model = NGramModel.of_ngrams(words, [unigrams, pair])
    frames = np.array([[-9, -20, -1e-3, -20, -20], [-0.1, -20, -20, -20, -2.3], [-1e-3, -8.5, -20, -20, -20]])
    search = BeamSearch(vocabulary, DecoderSettings(beam=16, lm_weight=1.0), model)
    found = {vocabulary.decode(candidate.ids) for candidate in decoded(search, frames.astype(np.float32))}
    assert ("▁a", "▁ab", "▁") in found
