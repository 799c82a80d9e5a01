"""Test that differences of logits are measured, and allowed as far as a model magnifies rounding itself."""

import numpy as np
import pytest
from helpers.exports import NUM_SAMPLES, model_of, speech

from asr.model.logit_difference import LARGEST_LOGIT_DIFFERENCE, allowed_difference, largest_difference

CLIP = speech()[0, : NUM_SAMPLES[0]]


def test_largest_difference_of_logits():
    logits = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert largest_difference(logits, logits) == 0
    assert largest_difference(logits, logits + np.array([0, 0, 0.5])) == 0.5
    assert largest_difference(logits, logits[:1]) == np.inf
    assert np.isnan(largest_difference(logits, logits * np.nan))
    assert largest_difference(logits[:0], logits[:0]) == 0


@pytest.mark.parametrize(("logit", "share"), [(100.0, 1.0), (-100.0, 1.0), (-1500.0, 1 / 15), (800.0, 1 / 8)])
def test_differences_of_large_logits_count_as_shares(logit, share):
    logits = np.array([[0.0, logit]])
    assert largest_difference(logits, logits + np.array([0, 0.5])) == pytest.approx(0.5 * share)
    assert largest_difference(logits, logits + np.array([0.5, 0])) == 0.5


def logits_of(model, change=None):
    features, num_frames = model.features(CLIP[None], np.array([len(CLIP)], np.int32))
    changed = np.array(features)
    if change is not None:
        changed[..., 10] += change
    return np.asarray(model.network(changed, num_frames)[0])[0]


@pytest.fixture(scope="module")
def magnifying_model():
    """Return a model whose normalisations magnify their inputs, and with them what is rounded."""
    model = model_of()
    for weight in model.weights:
        if weight.path.endswith("moving_variance"):
            weight.assign(weight / 40)
    return model


def test_rounding_that_the_model_magnifies_itself_is_allowed_and_no_more(magnifying_model):
    expected = logits_of(magnifying_model)
    rounded = largest_difference(expected, logits_of(magnifying_model, 1e-7))
    wrong = largest_difference(expected, logits_of(magnifying_model, 1e-3))
    assert LARGEST_LOGIT_DIFFERENCE < rounded <= allowed_difference(rounded, magnifying_model, CLIP)
    assert wrong > allowed_difference(wrong, magnifying_model, CLIP)


def test_model_that_magnifies_nothing_is_allowed_no_rounding_of_its_own():
    assert allowed_difference(0.5, model_of(), CLIP) == LARGEST_LOGIT_DIFFERENCE


@pytest.mark.parametrize("difference", [1e-3, float("inf"), float("nan")])
def test_model_is_not_asked_where_its_rounding_explains_nothing(difference):
    assert allowed_difference(difference, None, CLIP) == LARGEST_LOGIT_DIFFERENCE
