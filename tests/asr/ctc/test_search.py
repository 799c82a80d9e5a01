"""Test that a search of successive frames finds what the search of the whole clip finds."""

import copy

import numpy as np
import pytest
from scipy.special import log_softmax

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.ctc.search import GreedySearch, make_search

VOCABULARY = Vocabulary("abcdefg")


def log_probs_of(ids):
    """Return log probabilities in which these labels are the best of their frames."""
    return np.log(np.full((len(ids), 8), 0.01) + 0.92 * np.eye(8)[ids]).astype(np.float32)


def test_greedy_search_merges_repeats_across_parts():
    log_probs = log_probs_of([0, 1, 1, 0, 1, 2, 2, 2, 3, 0, 0, 3])
    search = GreedySearch(VOCABULARY, 0.08)
    for cut in range(len(log_probs)):
        state = search.start()
        for part in (log_probs[:cut], log_probs[cut:]):
            search.feed(state, part)
        (hypothesis,) = search.finish(state)
        assert hypothesis.tokens == ("a", "a", "b", "c", "c")
        assert hypothesis.times_s == (0.08, 0.32, 0.4, 0.64, 0.88)


@pytest.mark.parametrize("settings", [DecoderSettings(), DecoderSettings(beam=8, n_best=3)])
def test_search_in_parts_equals_the_search_of_the_whole_clip(settings):
    values = np.random.default_rng(3).normal(0, 2, (1, 200, 8)).astype(np.float32)
    search = make_search(VOCABULARY, 0.08, settings)
    (whole,) = search.hypotheses(search.reduce(Logits(values, np.array([200]))))
    state, final = search.start(), ()
    for begin in range(0, 200, 7):
        search.feed(state, log_softmax(values[0, begin : begin + 7], axis=-1))
        tokens, num_final = search.partial(copy.deepcopy(state))
        assert tokens[: len(final)] == final
        final = tokens[:num_final]
    found = search.finish(state)
    assert final == whole[0].tokens[: len(final)]
    assert len(final) > 10
    assert [(one.tokens, one.times_s) for one in found] == [(one.tokens, one.times_s) for one in whole]
    assert [one.score for one in found] == pytest.approx([one.score for one in whole], rel=1e-5)
    assert found[0].confidences == pytest.approx(whole[0].confidences, abs=1e-4)


@pytest.mark.parametrize("settings", [DecoderSettings(), DecoderSettings(beam=4)])
def test_nothing_is_found_in_no_frames(settings):
    search = make_search(VOCABULARY, 0.08, settings)
    best = search.finish(search.start())[0]
    assert (best.tokens, best.times_s, best.score) == ((), (), 0.0)
