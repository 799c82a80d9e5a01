"""Compares prefix beam search with sums over every alignment, and streams with whole clips."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.alignments import decoded, random_log_probs, random_model, streams, sums_over_alignments

from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.ctc import beam_search as beam_module
from asr.ctc.beam_search import BeamSearch
from asr.ctc.hot_words import HotWords
from asr.language.ngram.model import NO_EXTENSION, NGramModel, NGrams

UNPRUNED = DecoderSettings(beam=4096, min_token_log_prob=-1e9, beam_width=1e9)
LETTERS = "abcdefgh"


def vocabulary_of(num_tokens):
    return Vocabulary(LETTERS[: num_tokens - 1])


@pytest.fixture(scope="module")
def model():
    return random_model("a", "b", "c")


@pytest.mark.parametrize(("num_frames", "num_tokens"), [(0, 3), (1, 4), (5, 2), (5, 4), (7, 3)])
def test_acoustic_scores_are_sums_over_all_alignments(num_frames, num_tokens):
    for seed in range(3):
        log_probs = random_log_probs(seed, num_frames, num_tokens)
        expected = sums_over_alignments(log_probs)
        candidates = decoded(BeamSearch(vocabulary_of(num_tokens), UNPRUNED), log_probs)
        assert {c.ids: c.acoustic for c in candidates} == pytest.approx(expected, abs=1e-9)
        assert [c.score for c in candidates] == sorted((c.acoustic for c in candidates), reverse=True)


def test_acoustic_scores_equal_the_ctc_loss():
    log_probs = random_log_probs(8, 6, 4)
    candidates = decoded(BeamSearch(vocabulary_of(4), UNPRUNED), log_probs)
    assert len(candidates) > 300
    lengths = np.array([len(c.ids) for c in candidates], np.int32)
    labels = np.zeros((len(candidates), lengths.max()), np.int32)
    for row, candidate in zip(labels, candidates, strict=True):
        row[: len(candidate.ids)] = candidate.ids
    losses = tf.nn.ctc_loss(
        labels,
        np.repeat(log_probs[None], len(candidates), 0),
        lengths,
        np.full(len(candidates), len(log_probs), np.int32),
        logits_time_major=False,
        blank_index=0,
    )
    np.testing.assert_allclose([c.acoustic for c in candidates], -losses.numpy(), atol=1e-4)


def test_a_prefix_that_returns_to_the_beam_is_not_duplicated():
    num_came_back = 0
    search = BeamSearch(vocabulary_of(3), DecoderSettings(beam=8, beam_width=1e9))
    for seed in range(80):
        state = search.start()
        before, dropped = set(), set()
        for row in random_log_probs(seed, 30, 3, sharpness=5.0):
            search.feed(state, row[None])
            held = [c.ids for c in search.candidates(state, finished=False)]
            assert len(set(held)) == len(held)
            num_came_back += len(dropped & set(held))
            dropped = (dropped | before) - set(held)
            dropped = {ids for ids in dropped if any(one[: len(ids)] == ids for one in held)}
            before = set(held)
    assert num_came_back > 100


def test_pruning_only_lowers_acoustic_scores():
    for seed in range(20):
        log_probs = random_log_probs(seed, 7, 3)
        exact = sums_over_alignments(log_probs)
        for settings in (DecoderSettings(beam=3), DecoderSettings(beam=8, min_token_log_prob=-2.0)):
            for candidate in decoded(BeamSearch(vocabulary_of(3), settings), log_probs):
                assert candidate.acoustic <= exact[candidate.ids] + 1e-9


def test_a_wide_beam_finds_the_most_probable_sequence():
    for seed in range(20):
        log_probs = random_log_probs(seed, 7, 3)
        exact = sums_over_alignments(log_probs)
        best = decoded(BeamSearch(vocabulary_of(3), DecoderSettings(beam=32)), log_probs)[0]
        assert best.ids == max(exact, key=exact.get)


def test_tokens_below_the_minimal_probability_are_not_tried():
    rows = np.log(np.array([[0.5, 0.4, 0.1], [0.5, 0.05, 0.45]], np.float32))
    settings = DecoderSettings(beam=50, min_token_log_prob=np.log(0.2))
    found = {c.ids for c in decoded(BeamSearch(vocabulary_of(3), settings), rows)}
    assert found == {(), (1,), (2,), (1, 2)}


@pytest.fixture(scope="module")
def flat_frame():
    """Return a vocabulary, nearly equal log probabilities, and a model that prefers the 90th token."""
    vocabulary = Vocabulary([chr(0x4E00 + index) for index in range(100)])
    logits = -0.01 * np.arange(101)
    words = ("<unk>", "<s>", "</s>", *vocabulary.tokens[1:])
    log10_probs = np.full(len(words), -5.0, np.float32)
    log10_probs[words.index(vocabulary.tokens[90])] = -0.1
    ids = np.arange(len(words), dtype=np.int32)[:, None]
    unigrams = NGrams(ids, log10_probs, np.full(len(words), NO_EXTENSION, np.float32))
    bigram = NGrams(np.array([[1, 2]], np.int32), np.array([-5.0], np.float32), np.zeros(1, np.float32))
    unigrams.log10_backoffs[1] = 0.0
    model = NGramModel.of_ngrams(words, [unigrams, bigram])
    return vocabulary, (logits - np.log(np.exp(logits).sum()))[None].astype(np.float32), model


def test_a_flat_frame_tries_its_most_probable_tokens_and_more_with_a_wider_beam(flat_frame):
    vocabulary, log_probs, model = flat_frame
    for beam, found in ((16, False), (20, False), (25, True)):  # 64, 80 and 100 tokens
        settings = DecoderSettings(beam=beam, lm_weight=1.0, token_bonus=2.0)
        best = decoded(BeamSearch(vocabulary, settings, model), log_probs)[0]
        assert (best.ids == (90,)) == found


def test_a_hot_word_is_tried_in_a_flat_frame_however_improbable(flat_frame):
    vocabulary, log_probs, model = flat_frame
    settings = DecoderSettings(beam=4, lm_weight=0.0, hot_word_boost=5.0)
    for hot in (90, 100):
        search = BeamSearch(vocabulary, settings, model, HotWords({(hot,): 1.0}))
        assert decoded(search, log_probs)[0].ids == (hot,)


def test_prefixes_outside_the_beam_width_are_dropped():
    log_probs = random_log_probs(0, 6, 4)
    everything = decoded(BeamSearch(vocabulary_of(4), UNPRUNED), log_probs)
    settings = DecoderSettings(beam=4096, min_token_log_prob=-1e9, beam_width=3.0)
    kept = decoded(BeamSearch(vocabulary_of(4), settings), log_probs)
    assert 1 < len(kept) < len(everything)
    assert all(c.score >= kept[0].score - 3.0 for c in kept)


def test_a_beam_of_one_has_one_candidate():
    candidates = decoded(BeamSearch(vocabulary_of(3), DecoderSettings(beam=1)), random_log_probs(0, 9, 3))
    assert len(candidates) == 1


def test_a_clip_without_frames_has_the_empty_candidate(model):
    empty = np.zeros((1, 0, 4), np.float32)
    (candidate,) = BeamSearch(vocabulary_of(4), DecoderSettings(beam=4)).decode(empty, np.array([0]))[0]
    assert (candidate.ids, candidate.score) == ((), 0.0)
    search = BeamSearch(vocabulary_of(4), DecoderSettings(beam=4, lm_weight=0.5), model)
    (candidate,) = search.decode(empty, np.array([0]))[0]
    assert candidate.score == pytest.approx(0.5 * model.log_probs([])[0])


def test_the_language_model_scores_every_token_and_the_sentence_end(model):
    settings = DecoderSettings(
        beam=4096, min_token_log_prob=-1e9, beam_width=1e9, lm_weight=0.7, token_bonus=1.25
    )
    for seed in range(3):
        log_probs = random_log_probs(seed, 6, 4)
        exact = sums_over_alignments(log_probs)
        candidates = decoded(BeamSearch(vocabulary_of(4), settings, model), log_probs)
        assert {c.ids for c in candidates} == set(exact)
        for candidate in candidates:
            language = sum(model.log_probs([LETTERS[i - 1] for i in candidate.ids]))
            assert candidate.language == pytest.approx(language, abs=1e-5)
            expected = exact[candidate.ids] + 0.7 * language + 1.25 * len(candidate.ids)
            assert candidate.score == pytest.approx(expected, abs=1e-5)
        assert candidates == sorted(candidates, key=lambda c: -c.score)


def test_the_sentence_end_counts_only_if_the_utterance_is_finished(model):
    search = BeamSearch(vocabulary_of(4), DecoderSettings(beam=8, lm_weight=0.7), model)
    state = search.start()
    search.feed(state, random_log_probs(2, 6, 4))
    unfinished = {c.ids: c.language for c in search.candidates(state, finished=False)}
    for candidate in search.candidates(state, finished=True):
        end = model.log_probs([LETTERS[i - 1] for i in candidate.ids])[-1]
        assert candidate.language == pytest.approx(unfinished[candidate.ids] + end, abs=1e-6)


def test_a_token_unknown_to_the_language_model_is_scored_as_unk(model):
    search = BeamSearch(Vocabulary(["a", "zebra"]), DecoderSettings(beam=64, lm_weight=1.0), model)
    for candidate in decoded(search, random_log_probs(1, 4, 3)):
        words = [["a", "zebra"][i - 1] for i in candidate.ids]
        assert candidate.language == pytest.approx(sum(model.log_probs(words)), abs=1e-5)


def test_a_stream_split_anywhere_gives_the_candidates_of_the_whole_clip(model, monkeypatch):
    monkeypatch.setattr(beam_module, "INITIAL_NODES", 0)  # so that memory grows often
    log_probs = random_log_probs(4, 300, 4)
    hot_words = HotWords({(1, 2, 3): 1.0, (2, 2): 0.5})
    search = BeamSearch(vocabulary_of(4), DecoderSettings(beam=6), model, hot_words)
    whole = decoded(search, log_probs)
    monkeypatch.undo()
    assert decoded(search, log_probs) == whole
    for state in streams(search, log_probs):
        assert search.candidates(state, finished=True) == whole
        assert state.num_frames == 300


def test_a_batch_gives_the_candidates_of_each_clip_and_ignores_padding(model):
    search = BeamSearch(vocabulary_of(4), DecoderSettings(beam=8), model)
    num_frames = np.array([40, 0, 17, 33, 1, 40, 28, 5])
    log_probs = np.full((8, 40, 4), np.nan, np.float32)
    for row, length in enumerate(num_frames):
        log_probs[row, :length] = random_log_probs(row, length, 4)
    together = search.decode(log_probs, num_frames)
    assert together == search.decode(log_probs, num_frames)
    for row, length in enumerate(num_frames):
        assert decoded(search, log_probs[row, :length]) == together[row]


def test_memory_grows_with_the_tokens_and_not_with_the_frames():
    search = BeamSearch(vocabulary_of(8), DecoderSettings(beam=16))
    state = search.start()
    for seed in range(20):
        search.feed(state, random_log_probs(seed, 1000, 8))
    longest = max(len(c.ids) for c in search.candidates(state, finished=True))
    assert longest < len(state.nodes.parent) < 5 * longest
    silence = np.full((50_000, 8), -20.0, np.float32)
    silence[:, 0] = 0.0
    rows = len(state.nodes.parent)
    search.feed(state, silence)
    assert len(state.nodes.parent) == rows


def test_tokens_of_probability_0_are_never_in_a_candidate():
    log_probs = random_log_probs(0, 8, 4)
    log_probs[:, 2] = -np.inf
    candidates = decoded(BeamSearch(vocabulary_of(4), UNPRUNED), log_probs)
    assert all(2 not in c.ids and np.isfinite(c.score) for c in candidates)


@pytest.mark.parametrize(
    ("value", "received"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "probability 0")]
)
def test_values_that_are_not_log_probabilities_are_refused(value, received):
    log_probs = np.stack([random_log_probs(seed, 6, 3) for seed in range(2)])
    log_probs[1, 4] = value
    search = BeamSearch(vocabulary_of(3), DecoderSettings(beam=4))
    with pytest.raises(UserError, match=f"^clip 2 of 2: frame 4: .* received {received}"):
        search.decode(log_probs, np.array([6, 6]))
    state = search.start()
    search.feed(state, log_probs[1, :3])
    with pytest.raises(UserError, match="frame 4: expected"):
        search.feed(state, log_probs[1, 3:])
