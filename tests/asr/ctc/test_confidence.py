"""Checks confidences of tokens and their calibration."""

import subprocess
import sys

import numpy as np
import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.base.vocabulary import Vocabulary
from asr.ctc.beam_search import BeamSearch, Candidate
from asr.ctc.confidence import (
    calibration,
    correct_tokens,
    path_confidences,
    token_confidences,
)
from asr.ctc.forced_alignment import align_tokens
from asr.ctc.greedy import collapse
from asr.ctc.hot_words import HotWords

ROWS = [
    [0.1, 0.8, 0.1],
    [0.2, 0.5, 0.3],
    [0.9, 0.05, 0.05],
    [0.1, 0.6, 0.3],
    [0.1, 0.2, 0.7],
    [0.1, 0.2, 0.7],
]
LOG_PROBS = np.log(np.array(ROWS, np.float32))
EXPECTED = (0.4**0.5, 0.6, 0.7)


def confidences(search, log_probs):
    candidates = search.decode(log_probs[None], np.array([len(log_probs)]))[0]
    return candidates, token_confidences(candidates, align_tokens(log_probs, candidates[0].ids))


def test_without_a_language_model_confidences_are_posteriors():
    frame_ids = LOG_PROBS.argmax(-1)
    ids, starts = collapse(frame_ids)
    assert path_confidences(frame_ids, LOG_PROBS.max(-1), starts) == pytest.approx(EXPECTED, abs=1e-6)
    candidates, found = confidences(BeamSearch(Vocabulary("ab"), DecoderSettings(beam=8)), LOG_PROBS)
    assert candidates[0].ids == tuple(ids)
    assert found == pytest.approx(EXPECTED, abs=1e-6)


def test_confidences_of_greedy_decoding_equal_those_of_forced_alignment():
    for seed in range(20):
        logits = np.random.default_rng(seed).normal(0, 4, (30, 5))
        log_probs = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)
        frame_ids = log_probs.argmax(-1)
        ids, starts = collapse(frame_ids)
        expected = tuple(np.exp(align_tokens(log_probs, ids).log_probs))
        assert path_confidences(frame_ids, log_probs.max(-1), starts) == pytest.approx(expected, abs=1e-5)


def test_an_empty_hypothesis_has_no_confidences():
    none = np.zeros(0, np.int64)
    assert path_confidences(none, np.zeros(0), none) == ()
    assert path_confidences(np.zeros(3, np.int64), np.zeros(3), none) == ()
    candidates, found = confidences(BeamSearch(Vocabulary("ab"), DecoderSettings(beam=8)), LOG_PROBS[:0])
    assert (candidates[0].ids, found) == ((), ())


def test_with_a_language_model_confidences_are_shares_of_agreeing_candidates():
    alignment = align_tokens(LOG_PROBS, (1, 1, 2))
    candidates = [
        Candidate((1, 1, 2), -1.0, -4.0, -3.0),
        Candidate((1, 2, 2), -1.0, -4.0, -3.0),
        Candidate((2, 1, 2), -1.0 - 1.5 * np.log(2), -5.0, -3.0),
    ]
    assert token_confidences(candidates, alignment) == pytest.approx((2 / 2.5, 1.5 / 2.5, 1.0))


def test_a_hot_word_has_a_higher_confidence_than_its_frames():
    hot_words = HotWords({(1, 2, 2): 1.0})
    search = BeamSearch(Vocabulary("ab"), DecoderSettings(beam=8), hot_words=hot_words)
    rows = np.array(
        [[0.02, 0.97, 0.01], [0.97, 0.02, 0.01], [0.1, 0.5, 0.4], [0.97, 0.02, 0.01], [0.02, 0.01, 0.97]]
    )
    log_probs = np.log(rows).astype(np.float32)
    candidates, found = confidences(search, log_probs)
    assert candidates[0].ids == (1, 2, 2)
    assert 0.9 < found[1] <= 1.0


def test_correct_tokens_are_those_that_the_alignment_keeps():
    assert correct_tokens("axbc", "abcd") == [True, False, True, True]
    assert correct_tokens("abc", "dbc") == [False, True, True]
    assert correct_tokens([], ["a"]) == []
    assert correct_tokens(["a", "b"], []) == [False, False]


def test_calibration_equals_figures_computed_by_hand():
    found = calibration([0.95, 0.9, 1.0, 0.1, 0.15], [True, True, False, False, True])
    assert [(b.low, b.high, b.num_tokens) for b in found.bins] == [(0.1, 0.2, 2), (0.9, 1.0, 3)]
    assert [b.accuracy for b in found.bins] == pytest.approx([0.5, 2 / 3])
    assert [b.confidence for b in found.bins] == pytest.approx([0.125, 0.95])
    assert found.error == pytest.approx((2 * 0.375 + 3 * (0.95 - 2 / 3)) / 5)


def test_true_probabilities_have_a_small_calibration_error():
    draw = np.random.default_rng(0)
    confidences = draw.uniform(0, 1, 200_000)
    assert calibration(confidences, draw.uniform(0, 1, 200_000) < confidences).error < 0.01
    assert calibration(confidences, draw.uniform(0, 1, 200_000) < confidences / 2).error > 0.2


def test_calibration_of_no_tokens_has_no_bins():
    assert (calibration([], []).bins, calibration([], []).error) == ((), 0.0)


def test_the_confidence_module_imports_neither_numba_nor_tensorflow():
    program = "import sys, asr.ctc.confidence; assert not {'tensorflow', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
