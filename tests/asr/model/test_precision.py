"""Networks compute in 16 bits with mixed precision; weights, statistics and logits are in 32."""

import dataclasses
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny import TINY

from asr.base.config import AugmentConfig, Config, FeatureConfig, ModelConfig, TrainConfig
from asr.base.types import Batch
from asr.base.vocabulary import Vocabulary
from asr.ctc.loss import ctc_loss
from asr.model.acoustic_model import make_acoustic_model
from asr.model.keras_internals import layers_of
from asr.model.networks import make_network
from asr.model.networks.layers import FactoredLogits, MaskedBatchNorm
from asr.model.networks.separable import Gate
from asr.model.tensorflow_runner import BATCH_SIGNATURE
from data_pipeline.batches.dataset import Dataset
from multigpu.engines import make_engine

NUM_STEPS = 12
VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])
HALVES = ["bfloat16", "float16"]
NETWORKS = [
    ModelConfig(factored_output=True),
    ModelConfig(family="conformer"),
    ModelConfig(family="dcnn251bn"),
    ModelConfig(family="dcnn24"),  # without normalisation
]


def in_precision(precision, family="separable"):
    return Config(
        augment=AugmentConfig(frequency_masks=1, time_masks=1),
        model=ModelConfig(family=family, factored_output=True),
        train=TrainConfig(precision=precision),
    )


def loss_of(model, audio, num_samples, labels, num_labels):
    logits = model(audio, num_samples, training=True)
    assert logits.values.dtype == tf.float32
    return tf.reduce_mean(ctc_loss(logits, labels, num_labels)), logits.num_frames


def with_finite_flag(gradients):
    every = [tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(gradient))) for gradient in gradients]
    return gradients, tf.reduce_all(every)


class Trained(NamedTuple):
    """A model after a few steps, the batch of all of them, and what each step returned."""

    config: Config
    model: Any
    vocabulary: Vocabulary
    batch: Batch
    losses: list[float]
    finite: list[bool]  # whether the gradients were


@pytest.fixture(
    scope="module",
    params=[
        ("float16", 2, TINY),
        ("bfloat16", 1, TINY),
        pytest.param(("float16", 2, "separable"), marks=pytest.mark.slow),
        pytest.param(("bfloat16", 1, "separable"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def trained(request, clips):
    """Train a few steps."""
    precision, num_devices, family = request.param
    config = in_precision(precision, family)
    vocabulary = Vocabulary.of_utterances(clips[:4])
    batch = next(Dataset(clips[:4], vocabulary, 20.0).in_order()[1])
    engine = make_engine("", [f"/CPU:{index}" for index in range(num_devices)])
    with engine.scope():
        model = make_acoustic_model(config, vocabulary, for_training=True)
        optimizer = keras.optimizers.AdamW(1e-2 if family == TINY else 2e-3)
        if precision == "float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
    step = engine.train_step(model, optimizer, loss_of, with_finite_flag, BATCH_SIGNATURE)
    results = [step(tf.constant(4), *batch) for _ in range(NUM_STEPS)]
    losses, finite = [float(loss) for loss, *_ in results], [bool(finite) for *_, finite in results]
    return Trained(config, model, vocabulary, batch, losses, finite)


def test_a_network_in_16_bits_learns(trained):
    assert all(trained.finite[NUM_STEPS // 2 :])  # before that, the loss scale is adjusted
    assert np.isfinite(trained.losses).all()
    assert trained.losses[-1] < 0.7 * trained.losses[0]


def test_weights_and_statistics_are_in_32_bits_in_mixed_precision(trained):
    model = trained.model
    assert {v.dtype for v in model.variables if "seed" not in v.path} == {"float32"}
    assert all(np.isfinite(np.asarray(variable)).all() for variable in model.variables)


def test_a_model_trained_in_16_bits_decodes_in_32(trained):
    model, batch = trained.model, trained.batch
    plain = make_acoustic_model(trained.config, trained.vocabulary)
    for ours, theirs in zip(plain.variables, model.variables, strict=True):
        assert "seed" in ours.path or ours.path == theirs.path
        ours.assign(theirs)
    exact, rounded = plain(batch.audio, batch.num_samples), model(batch.audio, batch.num_samples)
    assert {layer.compute_dtype for layer in layers_of(plain)} == {"float32"}
    np.testing.assert_array_equal(exact.num_frames, rounded.num_frames)
    scale = np.abs(exact.values).max()
    np.testing.assert_allclose(rounded.values, exact.values, atol=0.03 * scale)
    assert not np.array_equal(rounded.values, exact.values)


def test_a_model_saved_in_training_loads_in_32_bits(tmp_path):
    model = make_acoustic_model(in_precision("float16"), VOCABULARY, for_training=True)
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert {layer.compute_dtype for layer in layers_of(copy)} == {"float32"}
    for ours, theirs in zip(copy.trainable_variables, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("config", NETWORKS, ids=lambda config: config.family)
def test_every_network_computes_in_16_bits_and_returns_32(config):
    features = np.random.default_rng(0).normal(size=(2, 33, 24)).astype(np.float32)
    num_frames = np.array([33, 21], np.int32)
    exact = make_network(config, VOCABULARY)
    reference = np.asarray(exact(features, num_frames).values)
    assert {layer.compute_dtype for layer in layers_of(exact)} == {"float32"}
    for precision in HALVES:
        network = make_network(config, VOCABULARY, precision=precision)
        logits = network(features, num_frames).values
        assert logits.dtype == tf.float32
        np.testing.assert_allclose(logits, reference, atol=0.05 * np.abs(reference).max())
        assert not np.array_equal(logits, reference)
        assert {layer.compute_dtype for layer in layers_of(network)} == {precision}
        assert {weight.dtype for weight in network.weights} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"


def test_features_are_in_32_bits_in_mixed_precision():
    config = dataclasses.replace(in_precision("float16"), features=FeatureConfig(kind="spectrogram"))
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    audio = np.random.default_rng(0).integers(-30000, 30000, (1, 8000)).astype(np.int16)
    features, num_frames = model.features(audio, np.array([8000], np.int32))
    assert features.dtype == tf.float32
    assert model.spec_augment(features, num_frames, training=True).dtype == tf.float32


@pytest.mark.parametrize("precision", HALVES)
def test_batch_statistics_are_computed_in_32_bits(precision):
    rng = np.random.default_rng(0)
    inputs = rng.normal(50.0, 4.0, (3, 3001, 5))  # neither 9,003 frames nor their sum fit into 16 bits
    layer = MaskedBatchNorm(momentum=0.0, dtype=f"mixed_{precision}")
    mask = np.ones((3, 3001, 1), np.float32)
    rounded = tf.cast(inputs, precision)
    outputs = layer(rounded, tf.constant(mask), training=True)
    assert outputs.dtype == precision
    seen = np.asarray(tf.cast(rounded, tf.float64)).reshape(-1, 5)
    np.testing.assert_allclose(layer.moving_mean, seen.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(layer.moving_variance, seen.var(axis=0), rtol=1e-2)
    np.testing.assert_allclose(np.asarray(tf.cast(outputs, tf.float32)).std(axis=(0, 1)), 1, rtol=1e-2)


def test_a_gate_covers_a_whole_long_clip_in_float16():
    inputs = np.full((1, 9000, 16), 20.0, np.float16)  # their sum exceeds float16
    inputs[:, :, ::2] = 0
    mask = np.ones((1, 9000, 1), np.float16)
    rounded = Gate(seed=1, dtype="mixed_float16")(inputs, mask)
    exact = Gate(seed=1)(inputs.astype(np.float32), mask.astype(np.float32))
    assert rounded.dtype == tf.float16
    np.testing.assert_allclose(rounded, exact, rtol=1e-2)


def test_parts_of_outputs_are_added_in_32_bits():
    layer = FactoredLogits([[0, 1], [0, 2]], seed=1, dtype="mixed_bfloat16")
    inputs = tf.ones((1, 1, 1), tf.bfloat16)
    layer(inputs)
    layer.rows.assign([[256.0], [-255.0], [-255.5]])  # bfloat16 has no numbers between 254 and 256
    np.testing.assert_array_equal(np.asarray(tf.cast(layer(inputs), tf.float32))[0, 0], [1.0, 0.5])


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_moving_statistics_survive_a_batch_that_is_not_finite(poison):
    rng = np.random.default_rng(0)
    good, mask = rng.normal(size=(2, 2, 10, 3)).astype(np.float32), np.ones((2, 10, 1), np.float32)
    layer, untouched = MaskedBatchNorm(), MaskedBatchNorm()
    bad = good[0].copy()
    bad[0, 4, 1] = poison  # 1e30 has a finite mean, but no finite variance
    for batch in (good[0], bad, good[1]):
        layer(batch, mask, training=True)
    for batch in good:
        untouched(batch, mask, training=True)
    np.testing.assert_array_equal(layer.moving_mean, untouched.moving_mean)
    np.testing.assert_array_equal(layer.moving_variance, untouched.moving_variance)
