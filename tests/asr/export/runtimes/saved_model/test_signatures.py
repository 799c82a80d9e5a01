"""Test that SavedModels of networks that use their own probabilities compute what the models do."""

import numpy as np
import pytest
import tensorflow as tf
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

from asr.base.text.pieces import learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.vocabulary import Vocabulary
from asr.export.runtimes.saved_model.runtime import VERSION, SavedModelRuntime
from asr.export.runtimes.saved_model.signatures import ServedModel, text_of
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


def test_the_text_of_mixed_tokens_is_that_of_the_vocabulary():
    pieces = learn_pieces(["iphone", "ok wifi"], LearnedUnits("mixed", 40))
    vocabulary = Vocabulary.of_pieces(pieces, ["kan4", "wu3", "lv4"])
    rows = ["kan4 C T wu3", "▁i p h o n e ▁ok A P lv4 ▁ w", "", "A", "x kan4", "wu3 wu3 ▁"]
    tokens = [row.split() for row in rows]
    texts = text_of(tf.ragged.constant(tokens, dtype=tf.string), vocabulary).numpy()
    assert [text.decode() for text in texts] == [vocabulary.join(row) for row in tokens]
