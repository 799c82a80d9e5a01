"""Networks can be cut into stages: parts that follow each other compute what the whole model does."""

import numpy as np
import pytest
import tensorflow as tf

from asr.base.config import AugmentConfig, Config, ModelConfig, TrainConfig
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.networks.network import Network
from asr.model.networks.separable import Separable

VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])
AUDIO = np.random.default_rng(0).integers(-3000, 3000, (4, 8000)).astype(np.int16)
NUM_SAMPLES = np.array([8000, 6000, 4000, 500], np.int32)  # the last has fewer frames than one of logits
MODELS = [
    ModelConfig(factored_output=True),
    ModelConfig(stem="2d_fast", factored_output=True, intermediate_ctc="0.3, 0.7", self_conditioned=True),
    ModelConfig(family="conformer", chunk_s=0.16, intermediate_ctc="0.3, 0.7", self_conditioned=True),
    ModelConfig(family="dcnn251bn"),
    ModelConfig(family="dcnn24"),  # without normalisation, with dropout
]


def model_of(network, precision="float32"):
    config = Config(
        augment=AugmentConfig(frequency_masks=1, time_masks=1),
        model=network,
        train=TrainConfig(precision=precision),
    )
    return make_acoustic_model(config, VOCABULARY, for_training=True)


def outputs_of(logits):
    return [logits, *getattr(logits, "intermediate", ())]


def in_stages(model, training=False):
    passed = (AUDIO, NUM_SAMPLES)
    for layer in model.stages():
        passed = layer(passed, training=training)
    return passed


@pytest.mark.parametrize(
    "network", MODELS, ids=lambda network: f"{network.family} {network.intermediate_ctc}"
)
def test_stages_one_after_the_other_compute_what_the_model_does(network):
    model, other = model_of(network, "bfloat16"), model_of(network, "bfloat16")
    for training in (True, False):  # dropout and masks are drawn from the same seeds
        staged, whole = in_stages(model, training), other(AUDIO, NUM_SAMPLES, training=training)
        assert len(getattr(whole, "intermediate", ())) == (2 if network.intermediate_ctc and training else 0)
        for ours, theirs in zip(outputs_of(staged), outputs_of(whole), strict=True):
            assert ours.values.dtype == tf.float32
            np.testing.assert_array_equal(ours.values, theirs.values)
            np.testing.assert_array_equal(ours.num_frames, theirs.num_frames)
    for ours, theirs in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "network", MODELS, ids=lambda network: f"{network.family} {network.intermediate_ctc}"
)
def test_every_weight_and_seed_belongs_to_one_of_many_stages(network):
    model = model_of(network)
    layers = model.stages()
    assert len(layers) > 8
    assert len({layer.name for layer in layers}) == len(layers)
    owned = [id(variable) for layer in layers for variable in layer.variables]
    assert len(owned) == len(set(owned))
    assert set(owned) == {id(variable) for variable in model.variables}


def test_a_network_that_names_no_parts_is_one(monkeypatch):
    monkeypatch.setattr(Separable, "parts", Network.parts)
    model = model_of(MODELS[0])
    assert [layer.name for layer in model.stages()] == ["features", "spec_augment", "network"]
    np.testing.assert_array_equal(in_stages(model).values, model(AUDIO, NUM_SAMPLES).values)
