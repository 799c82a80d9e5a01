"""Test that layers whose names change from model to model are refused before training, by their names."""

import sys
import types

import keras
import pytest

from asr.base import registry
from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.errors import UserError
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.networks.network import Network

VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])


class Named(Network):
    """A network of a block, and of outputs that are added up, with the names that a test gives them."""

    SUBSAMPLING = 1
    names: list[dict[str, str]]

    @staticmethod
    def make_inner():
        return keras.layers.Dense(3, name="inner")

    def __init__(self):
        super().__init__()
        block, *outputs = self.names
        self.block = keras.Sequential([self.make_inner()], **block)
        self.results = [keras.layers.Dense(5, **output) for output in outputs]

    @classmethod
    def of(cls, config, vocabulary, seed, num_pitch):
        return cls()

    def num_output_frames(self, num_frames):
        return num_frames

    def call(self, features, num_frames, training=False):
        hidden = self.block(features)
        return Logits(sum(result(hidden) for result in self.results), num_frames)


@pytest.fixture
def make_named(monkeypatch):
    """Return a function that makes a model for training, of a network whose layers have the given names."""
    module = types.ModuleType("tests_named_network")
    module.Named = Named
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry.NETWORKS, "named", f"{module.__name__}:Named")

    def make(*names):
        Named.names = names
        return make_acoustic_model(
            Config(model=ModelConfig(family="named"), features=FeatureConfig()), VOCABULARY, for_training=True
        )

    return make


@pytest.mark.parametrize("family", registry.NETWORKS)
def test_weights_of_every_registered_network_have_the_same_names_in_the_next_model(family):
    config = Config(model=ModelConfig(family=family))
    first, second = (make_acoustic_model(config, VOCABULARY, for_training=True) for _ in range(2))
    paths = [weight.path for weight in first.weights]
    assert paths == [weight.path for weight in second.weights]
    assert len(set(paths)) == len(paths)


def test_layer_without_a_name_is_refused_by_the_name_that_keras_gave_it(make_named):
    with pytest.raises(UserError, match=r"layer 'dense(_\d+)?' has no fixed name.*Dense\(..., name="):
        make_named({"name": "block"}, {})


def test_block_without_a_name_is_refused_though_its_layers_have_names(make_named):
    with pytest.raises(UserError, match=r"layer 'sequential(_\d+)?' has no fixed name"):
        make_named({}, {"name": "output"})


def test_two_layers_of_one_name_are_refused(make_named):
    with pytest.raises(UserError, match="two layers have the name 'output'"):
        make_named({"name": "block"}, {"name": "output"}, {"name": "output"})


def test_fixed_name_that_looks_like_an_automatic_one_is_accepted(make_named):
    model = make_named({"name": "sequential"}, {"name": "dense_1"})
    assert any(weight.path.endswith("dense_1/kernel") for weight in model.weights)


class _Scale(keras.layers.Layer):
    """A layer of a private class, which Keras names without the first underscore."""

    weight_name: str | None = "scale"

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(input_shape[-1],), name=self.weight_name)

    def call(self, inputs):
        return inputs * self.scale


class _UnnamedWeight(_Scale):
    weight_name = None


@pytest.mark.parametrize(
    ("make_inner", "complaint"),
    [
        (
            lambda: keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True), name="both"),
            r"layer 'forward_gru(_\d+)?' has no fixed name",
        ),
        (
            lambda: keras.layers.Bidirectional(
                keras.layers.RNN(keras.layers.GRUCell(2, name="cell"), return_sequences=True), name="both"
            ),
            r"layer 'forward_rnn(_\d+)?' has no fixed name",
        ),
        (lambda: _Scale(), r"layer '_*scale(_\d+)?' has no fixed name"),
        (lambda: _UnnamedWeight(name="scale"), r"weight 'variable(_\d+)?' has no fixed name"),
    ],
    ids=["wrapped", "wrapped with a named cell", "private class", "weight"],
)
def test_what_keras_names_within_a_named_block_is_refused(make_named, monkeypatch, make_inner, complaint):
    monkeypatch.setattr(Named, "make_inner", staticmethod(make_inner))
    with pytest.raises(UserError, match=complaint):
        make_named({"name": "block"}, {"name": "output"})
