from typing import get_args, get_type_hints

import keras
import numpy as np
import pytest
import tensorflow as tf

from asr.base.config import Config, FeatureConfig, ModelConfig, TrainConfig
from asr.base.errors import UserError
from asr.base.registry import NETWORKS, SIZED_NETWORKS, load_part
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.networks import make_network
from asr.model.networks.conformers.conformer import Conformer
from asr.model.networks.dcnn import DCNN_FAMILY
from asr.model.networks.layers import FactoredLogits, MaskedBatchNorm
from asr.model.networks.separable import Separable
from asr.model.networks.sized import SizedNetwork

CONFIGS = {name: ModelConfig(family=name) for name in NETWORKS} | {
    "separable m": ModelConfig(size="m"),  # with gates
    "two-dimensional stem": ModelConfig(stem="2d"),
    "deep stem": ModelConfig(stem="2d_deep"),
    "fast stem": ModelConfig(stem="2d_fast"),
    "fast stem with pitch": ModelConfig(stem="2d_fast"),
    "self-conditioned": ModelConfig(intermediate_ctc="0.4, 1", self_conditioned=True),
    "self-conditioned conformer": ModelConfig(
        family="conformer", intermediate_ctc="0.4, 1", self_conditioned=True
    ),
}
VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])


def features(num_clips, num_frames, num_bands=24, seed=0):
    return np.random.default_rng(seed).normal(size=(num_clips, num_frames, num_bands)).astype(np.float32)


def randomize(network, seed=1):
    """Randomize every weight: a batch norm's shift has an effect only if it is not 0."""
    rng = np.random.default_rng(seed)
    for variable in network.variables:
        if "float" in variable.dtype:
            noise = 0.1 * rng.normal(size=variable.shape)
            variable.assign(variable + (abs(noise) if "variance" in variable.path else noise))


@pytest.fixture(scope="module", params=CONFIGS)
def network(request):
    num_pitch = 9 if request.param.endswith("pitch") else 0  # of 24 features
    built = make_network(CONFIGS[request.param], VOCABULARY, num_pitch=num_pitch)
    built(features(1, 20), np.array([20], np.int32))
    randomize(built)
    return built


def test_dcnn251bn_has_the_published_number_of_parameters():
    outputs = Vocabulary([f"t{i}" for i in range(1427)])
    network = make_network(ModelConfig(family="dcnn251bn"), outputs)
    network(features(1, 16, 200), np.array([16], np.int32))
    assert network.count_params() == 1_474_548


def test_separable_sizes_span_0_3_to_40_million_parameters():
    outputs = Vocabulary([f"t{i}" for i in range(321)])
    counts = []
    for size in ("xs", "xl"):
        network = make_network(ModelConfig(size=size), outputs)
        network(features(1, 16, 64), np.array([16], np.int32))
        counts.append(network.count_params())
    assert 0.3e6 < counts[0] < 0.45e6
    assert 38e6 < counts[1] < 44e6


@pytest.mark.parametrize(
    ("size", "millions"), [("xs", 1.46), ("s", 8.01), pytest.param("l", 45.3, marks=pytest.mark.slow)]
)
def test_conformer_sizes_have_the_documented_numbers_of_parameters(size, millions):
    outputs = Vocabulary([f"t{i}" for i in range(1427)])
    network = make_network(ModelConfig(family="conformer", size=size), outputs)
    network(features(1, 16, 64), np.array([16], np.int32))
    assert network.count_params() / 1e6 == pytest.approx(millions, rel=0.005)


def test_a_size_that_a_family_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(UserError, match=r"conformer come in the sizes xs, s, m, l, received xl"):
        make_network(ModelConfig(family="conformer", size="xl"), VOCABULARY)


def test_logits_of_a_clip_are_the_same_alone_and_in_a_padded_batch(network):
    long, short = features(1, 61), features(1, 37, seed=1)
    batch = np.zeros((2, 61, 24), np.float32)
    batch[0], batch[1, :37] = long[0], short[0]
    together = network(batch, np.array([61, 37], np.int32))
    alone = network(short, np.array([37], np.int32))
    num_frames = int(alone.num_frames[0])
    assert together.num_frames[1] == num_frames
    np.testing.assert_allclose(
        together.values[1, :num_frames], alone.values[0, :num_frames], rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("num_frames", [1, 7, 8, 9, 17])
def test_num_output_frames_agrees_with_the_logits(network, num_frames):
    logits = network(features(1, num_frames), np.array([num_frames], np.int32))
    assert logits.num_frames[0] == network.num_output_frames(num_frames)
    assert logits.values.shape[1] >= logits.num_frames[0]
    assert logits.values.shape[2] == len(VOCABULARY)


def test_padding_does_not_change_batch_statistics():
    inputs = features(3, 20, 8)
    mask = np.ones((3, 20, 1), np.float32)
    mask[1, 12:] = 0
    plain, padded = MaskedBatchNorm(), MaskedBatchNorm()
    outputs = plain(inputs * mask, mask, training=True)
    wider = padded(
        np.pad(inputs * mask, [(0, 0), (0, 9), (0, 0)]), np.pad(mask, [(0, 0), (0, 9), (0, 0)]), training=True
    )
    np.testing.assert_allclose(wider[:, :20], outputs, atol=1e-5)
    np.testing.assert_allclose(padded.moving_variance, plain.moving_variance, atol=1e-6)
    real = inputs[mask[..., 0] == 1]
    np.testing.assert_allclose(plain.moving_mean, real.mean(axis=0) * 0.05, atol=1e-5)
    np.testing.assert_allclose(np.asarray(outputs)[mask[..., 0] == 1].std(axis=0), 1, atol=1e-2)


def test_batch_norm_over_images_counts_every_position():
    inputs = np.random.default_rng(0).normal(3, 2, (2, 10, 6, 4)).astype(np.float32)
    outputs = MaskedBatchNorm()(inputs, np.ones((2, 10, 1, 1), np.float32), training=True)
    np.testing.assert_allclose(np.mean(outputs, axis=(0, 1, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(np.std(outputs, axis=(0, 1, 2)), 1, atol=1e-2)


def test_outputs_that_share_parts_share_gradients():
    parts = VOCABULARY.syllable_parts()  # blank, an4, ma1, ma3, ni3
    layer = FactoredLogits(parts, seed=1)
    inputs = features(1, 1, 8)
    layer(inputs)
    before = np.asarray(layer(inputs))[0, 0]
    shared = parts[2][0]  # the initial m of ma1 and ma3
    bias = np.asarray(layer.bias).copy()
    bias[shared] += 1
    layer.bias.assign(bias)
    np.testing.assert_allclose(np.asarray(layer(inputs))[0, 0] - before, [0, 0, 1, 1, 0], atol=1e-6)


SAVED = [ModelConfig(family=name, factored_output=True) for name in ("separable", "conformer", "dcnn24")]


@pytest.mark.parametrize(
    "network",
    [
        *SAVED,
        ModelConfig(intermediate_ctc="1", self_conditioned=True, intermediate_units="phones"),
        ModelConfig(stem="2d_deep"),
        ModelConfig(stem="2d_fast"),
    ],
    ids=str,
)
def test_a_saved_model_loads_as_a_plain_keras_model(network, tmp_path):
    config = Config(model=network, features=FeatureConfig(kind="spectrogram"))
    model = make_acoustic_model(config, VOCABULARY)
    randomize(model)
    audio = np.random.default_rng(0).integers(-3000, 3000, (2, 8000)).astype(np.int16)
    num_samples = np.array([8000, 6000], np.int32)
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(copy(audio, num_samples).values, model(audio, num_samples).values, rtol=1e-4)


def test_the_configuration_names_every_network():
    assert {name for name, where in NETWORKS.items() if where.endswith(":Dcnn")} == set(DCNN_FAMILY)
    sizes = list(get_args(get_type_hints(ModelConfig)["size"]))
    assert sizes == list(Separable.SIZES)
    assert [size for size in sizes if size in Conformer.SIZES] == list(Conformer.SIZES)
    sized = {name for name in NETWORKS if issubclass(load_part(NETWORKS, name), SizedNetwork)}
    assert sized == set(SIZED_NETWORKS)


def frozen_model(freeze, **model):
    config = Config(model=ModelConfig(**model), train=TrainConfig(freeze=freeze))
    return make_acoustic_model(config, VOCABULARY, for_training=True)


def values(model):
    return {v.path: np.asarray(v).copy() for v in model.variables if "seed" not in v.path}


def test_frozen_layers_keep_their_weights_and_statistics_and_the_others_learn():
    model = frozen_model("stage0, stage1/block0/*, head/norm")
    before = values(model)
    optimizer = keras.optimizers.AdamW(1e-2, weight_decay=0.1)
    optimizer.build(model.trainable_variables)
    audio = np.random.default_rng(0).integers(-3000, 3000, (2, 8000)).astype(np.int16)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = model(audio, np.array([8000, 6000], np.int32), training=True).values
            loss = tf.reduce_mean(tf.square(logits - 1.0))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for _ in range(2):
        step()
    after = values(model)
    kept = {path for path in before if np.array_equal(before[path], after[path])}
    parts = ("network/stage0/", "network/stage1/block0/", "network/head/norm/")
    assert kept == {path for path in before if any(part in path for part in parts)}


def test_a_frozen_norm_uses_its_moving_statistics_in_training():
    inputs, mask = features(2, 10, 4) + 3, np.ones((2, 10, 1), np.float32)
    layer = MaskedBatchNorm()
    layer(inputs, mask, training=True)
    layer.trainable = False
    np.testing.assert_array_equal(layer(inputs, mask, training=True), layer(inputs, mask))
    assert np.abs(np.mean(layer(inputs, mask, training=True))) > 1


@pytest.mark.parametrize("model", [{"size": "xs"}, {"family": "dcnn24"}])
def test_freezing_layers_keeps_the_order_of_variables(model):
    paths = [
        ["seed" if "seed" in variable.path else variable.path for variable in made.variables]
        for made in (frozen_model("", **model), frozen_model("*1*", **model))
    ]
    assert paths[0] == paths[1]


def test_layers_are_frozen_only_for_training():
    config = Config(train=TrainConfig(freeze="stage0"))
    model = make_acoustic_model(config, VOCABULARY)
    assert any("stage0" in variable.path for variable in model.trainable_variables)


def test_freezing_an_unknown_layer_is_refused_with_the_known_ones():
    message = r"train\.freeze: stge1: no such layer \(did you mean stage1\?\); .*stage0, .*head, output"
    with pytest.raises(UserError, match=message):
        frozen_model("stage0, stge1")
    with pytest.raises(UserError, match=r"train\.freeze: dropout: no such layer"):  # it has no weights
        frozen_model("dropout")


def test_freezing_every_layer_is_refused():
    with pytest.raises(UserError, match=r"train\.freeze: stage\*,head,output: nothing is left to train"):
        frozen_model("stage*,head,output")


def test_building_a_model_calls_its_network_once(monkeypatch):
    calls, call = [], Separable.call
    monkeypatch.setattr(Separable, "call", lambda *args, **kwargs: calls.append(1) or call(*args, **kwargs))
    make_acoustic_model(Config(), VOCABULARY)
    assert len(calls) == 1  # not again for every level of nested layers
