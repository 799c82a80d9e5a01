"""Test that SavedModels of networks that use their own probabilities compute what the models do."""

import numpy as np
import pytest
from helpers.exports import (
    CONFORMER,
    NUM_SAMPLES,
    SELF_CONDITIONED,
    VOCABULARY,
    expected_logits,
    model_of,
    speech,
)
from helpers.small_conformer import use_small_conformer

from asr.export.runtimes.saved_model.runtime import VERSION, SavedModelRuntime
from asr.export.runtimes.saved_model.signatures import ServedModel
from asr.export.serving_graph import save_with_signatures


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(('model.size="xs"',), id="separable"),
        pytest.param((*CONFORMER, "model.chunk_s=0.32"), id="conformer"),
    ],
)
def test_saved_logits_of_self_conditioned_networks_are_those_of_the_model(tmp_path, monkeypatch, overrides):
    use_small_conformer(monkeypatch)
    model = model_of(*SELF_CONDITIONED, *overrides)
    served = ServedModel(model, VOCABULARY)
    save_with_signatures(served, tmp_path / VERSION, {"logits": served.logits})
    runtime, expected = SavedModelRuntime(tmp_path), expected_logits(model)
    clips = [row[:num] for row, num in zip(speech(), NUM_SAMPLES, strict=True)]
    together = runtime.run(clips)
    for clip, batched, logits in zip(clips, together, expected, strict=True):
        (alone,) = runtime.run([clip])
        np.testing.assert_allclose(alone.logits, logits, rtol=0, atol=1e-3)
        np.testing.assert_allclose(batched.logits, logits, rtol=0, atol=1e-3)
    for weight in model.weights:
        if "feedback" in weight.path:
            weight.assign(np.zeros(weight.shape))
    assert np.abs(expected_logits(model)[0] - expected[0]).max() > 0.01  # they depend on it
