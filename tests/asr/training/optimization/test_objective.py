"""Test the terms that a configuration adds to the CTC loss: values, gradients, and each engine's step."""

import dataclasses
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny import TINY

from asr.base.config import AugmentConfig, Config, FeatureConfig, ModelConfig, TrainConfig
from asr.base.types import Logits, WeightedBatch
from asr.base.vocabulary import Vocabulary
from asr.ctc.loss import ctc_loss
from asr.model.acoustic_model import AcousticModel, make_acoustic_model
from asr.training.data import training_data
from asr.training.optimization.objective import (
    consistency_loss,
    flat_steps_of,
    make_objective,
    phone_labels,
    views_of,
)
from asr.training.optimization.optimizer import make_optimizer
from asr.training.optimization.step import make_step
from data_pipeline.batches.dataset import pad_batch
from data_pipeline.manifests.manifest import write_manifest
from multigpu.engines import make_engine

VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])
RNG = np.random.default_rng(3)
BATCH = pad_batch(
    [RNG.integers(-3000, 3000, size, np.int16) for size in (16000, 12000, 14000, 15000)],
    [[1, 2], [3, 4, 1], [2], [4, 4]],
)
CONFIG = Config(
    features=FeatureConfig(normalize_over="clip"),
    augment=AugmentConfig(frequency_masks=2, time_masks=2),
    model=ModelConfig(family=TINY, dropout=0.0, intermediate_ctc="0.5", self_conditioned=True),
    # frozen normalisation: its statistics would be each device's own
    train=TrainConfig(consistency=0.5, optimizer="sgd", learning_rate=1e-2, freeze="norm"),
)
WARMUP_STEPS = 2


class Halving(keras.layers.Layer):
    """Masks one view as SpecAugment might, but the same on any number of devices: halves the second one."""

    def call(self, features, num_frames, training=False):
        factors = tf.repeat([1.0, 0.5], tf.shape(features)[0] // 2)
        return features * factors[:, None, None] if training else features


def divergence(p, q):
    return np.sum(p * (np.log(p) - np.log(q)), axis=-1)


def random_views():
    values = tf.constant(RNG.normal(0, 3, (2, 3, 7, 5)))
    num_frames = tf.constant([7, 4, 0])
    return Logits(values[0], num_frames), Logits(values[1], num_frames)


def test_consistency_loss_is_the_mean_of_both_divergences_summed_over_frames():
    first, second = random_views()
    p, q = tf.nn.softmax(first.values).numpy(), tf.nn.softmax(second.values).numpy()
    of_frames = (divergence(p, q) + divergence(q, p)) / 2
    expected = [of_frames[0].sum(), of_frames[1, :4].sum(), 0.0]
    np.testing.assert_allclose(consistency_loss(first, second), expected, rtol=1e-12)


def test_consistency_loss_has_the_gradient_of_divergences_from_constants():
    first, second = random_views()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([first.values, second.values])
        ours = tf.reduce_sum(consistency_loss(first, second))
        logs = tf.nn.log_softmax(first.values), tf.nn.log_softmax(second.values)
        mask = tf.sequence_mask(first.num_frames, 7, tf.float64)[..., None]
        theirs = 0.0
        for own, target in (logs, logs[::-1]):
            target = tf.stop_gradient(target)
            theirs += tf.reduce_sum(mask * tf.exp(target) * (target - own)) / 2
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for values in (first.values, second.values):
        np.testing.assert_allclose(
            tape.gradient(ours, values), tape.gradient(theirs, values), rtol=1e-9, atol=1e-15
        )


def test_training_makes_two_views_of_each_clip_and_decoding_one():
    model = make_acoustic_model(CONFIG, VOCABULARY, for_training=True)
    logits = model(BATCH.audio, BATCH.num_samples, training=True)
    first, second = views_of(Logits(*logits[:2]))
    assert first.values.shape[0] == second.values.shape[0] == 4
    for one, other in zip(first.values, second.values, strict=True):
        assert np.abs(one - other).max() > 1e-3  # each clip has masks of its own in both views
    np.testing.assert_array_equal(first.num_frames, second.num_frames)
    assert model(BATCH.audio, BATCH.num_samples).values.shape[0] == 4
    decoder = make_acoustic_model(CONFIG, VOCABULARY)
    assert decoder(BATCH.audio, BATCH.num_samples, training=True).values.shape[0] == 4


def test_views_have_more_time_masks_than_single_clips():
    assert make_acoustic_model(CONFIG, VOCABULARY, for_training=True).spec_augment.settings.time_masks == 5
    single = dataclasses.replace(CONFIG, train=TrainConfig())
    assert make_acoustic_model(single, VOCABULARY, for_training=True).spec_augment.settings.time_masks == 2


def test_without_consistency_the_objective_is_the_mean_ctc_loss():
    config = Config(model=ModelConfig(family=TINY, dropout=0.0), train=TrainConfig())
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    loss, path = make_objective(config.train, None)(model, *BATCH)
    logits = model(BATCH.audio, BATCH.num_samples, training=True)
    np.testing.assert_array_equal(loss, np.mean(ctc_loss(logits, BATCH.labels, BATCH.num_labels)))
    assert path.frame_ids.shape[0] == 4


def test_flat_start_prefers_an_even_spread_less_and_less_in_all_losses():
    config = Config(
        model=ModelConfig(family=TINY, dropout=0.0, intermediate_ctc="0.5"),
        train=TrainConfig(flat_start=0.2, intermediate_weight=0.3),
    )
    flat_steps = flat_steps_of(config.train, 50)
    assert flat_steps == 10
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    logits = model(BATCH.audio, BATCH.num_samples, training=True)
    for step, prior_weight in ((0, 1.0), (4, 0.6), (10, 0.0), (11, 0.0)):
        optimizer = SimpleNamespace(iterations=tf.constant(step))
        loss, _ = make_objective(config.train, optimizer, flat_steps=flat_steps)(model, *BATCH)
        last, middle = (
            np.mean(ctc_loss(Logits(*each[:2]), BATCH.labels, BATCH.num_labels, tf.constant(prior_weight)))
            for each in (logits, *logits.intermediate)
        )
        np.testing.assert_allclose(loss, 0.7 * last + 0.3 * middle, rtol=1e-6)


def test_labels_become_their_phones_without_gaps():
    ids = Vocabulary(["an4", "ma1", "ma3", "ni3"]).phone_ids()  # an4; m- a1; m- a3; n- i3
    labels, num_labels = phone_labels(
        tf.constant([[2, 1, 4], [1, 3, 3], [3, 1, 1]]), tf.constant([3, 2, 0]), ids
    )
    an, m, a1, a3, n, i = ids[1] + ids[2] + ids[3][1:] + ids[4]
    assert labels.numpy().tolist() == [[m, a1, an, n, i, 0], [an, m, a3, 0, 0, 0], [0] * 6]
    assert num_labels.numpy().tolist() == [5, 3, 0]


def test_outputs_in_the_middle_learn_phones():
    config = Config(
        model=ModelConfig(dropout=0.0, intermediate_ctc="0.4", intermediate_units="phones"),
        train=TrainConfig(intermediate_weight=0.3),
    )
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    ids = VOCABULARY.phone_ids()
    loss, _ = make_objective(config.train, None, phone_ids=ids)(model, *BATCH)
    logits = model(BATCH.audio, BATCH.num_samples, training=True)
    (middle,) = logits.intermediate
    assert middle.values.shape[-1] == len(VOCABULARY.phones())
    tokens = [row[:num] for row, num in zip(BATCH.labels, BATCH.num_labels, strict=True)]
    phones = [[phone for token in row for phone in ids[token]] for row in tokens]
    expected = [
        ctc_loss(
            Logits(middle.values[row : row + 1], middle.num_frames[row : row + 1]),
            np.array([phones[row]], np.int32),
            np.array([len(phones[row])], np.int32),
        )[0]
        for row in range(len(phones))
    ]
    assert min(expected) > 0  # all of them fit
    last = np.mean(ctc_loss(Logits(*logits[:2]), BATCH.labels, BATCH.num_labels))
    np.testing.assert_allclose(loss, 0.7 * last + 0.3 * np.mean(expected), rtol=1e-5)


def test_losses_in_the_middle_of_the_network_have_their_share():
    config = dataclasses.replace(
        CONFIG,
        model=ModelConfig(dropout=0.0, intermediate_ctc="0.3, 0.7, 1"),
        augment=AugmentConfig(),
        train=TrainConfig(intermediate_weight=0.3),
    )
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    loss, _ = make_objective(config.train, None)(model, *BATCH)
    logits = model(BATCH.audio, BATCH.num_samples, training=True)
    first, second, third = (
        np.mean(ctc_loss(each, BATCH.labels, BATCH.num_labels)) for each in logits.intermediate
    )
    last = np.mean(ctc_loss(Logits(*logits[:2]), BATCH.labels, BATCH.num_labels))
    assert len({float(value) for value in (first, second, third, last)}) == 4
    assert float(loss) == pytest.approx(0.7 * last + 0.1 * (first + second + third), rel=1e-5)


def test_a_batch_has_half_of_the_clips_in_two_views(clips, tmp_path):
    manifest = tmp_path / "train.jsonl"
    write_manifest(manifest, clips)
    config = dataclasses.replace(CONFIG, data=dataclasses.replace(CONFIG.data, train=str(manifest)))
    vocabulary = Vocabulary.of_utterances(clips)
    data, _ = training_data(config, vocabulary, make_acoustic_model(config, vocabulary))
    assert data.batch_s == config.train.batch_s / 2
    assert TrainConfig().batch_clips_s == TrainConfig().batch_s


class Steps:
    """Trains a few steps on an engine with views that are the same on each.

    Attributes:
        losses: of each step.
        norms: of each step's gradients.
        model: after these steps.
    """

    def __init__(
        self, name="single", num_devices=1, warmup_steps=WARMUP_STEPS, flat_steps=3, batch=BATCH, **train
    ):
        train = dataclasses.replace(CONFIG.train, **train)
        config = dataclasses.replace(CONFIG, train=train)
        engine = make_engine(name, [f"/CPU:{index}" for index in range(num_devices)])
        with engine.scope():
            made = make_acoustic_model(config, VOCABULARY, for_training=True)
            self.model = AcousticModel(made.features, Halving(name="spec_augment"), made.network, num_views=2)
            self.model.make_weights()
            placed = engine.place(self.model, self.model.sample(2, 1.0))
            optimizer = make_optimizer(train, 10)
            optimizer.build(self.model.trainable_variables)
        objective = make_objective(train, optimizer, warmup_steps, flat_steps)
        step = make_step(engine, placed, optimizer, train, objective)
        results = [step(type(batch)(*map(tf.constant, batch)), 4) for _ in range(4)]
        assert all(result.path.frame_ids.shape[0] == 4 for result in results)
        self.losses = [float(result.loss) for result in results]
        self.norms = [float(result.gradient_norm) for result in results]


@pytest.fixture(scope="module")
def single():
    return Steps()


@pytest.mark.slow
def test_weight_of_the_consistency_rises_during_the_warm_up(single):
    ctc_alone = Steps(learning_rate=1e-9, consistency=1e-9)
    assert single.losses[0] == pytest.approx(ctc_alone.losses[0], rel=1e-6)
    still = Steps(learning_rate=1e-9, flat_steps=0)  # so that only the weight changes
    first, *others = np.diff(still.losses)
    assert first > 1e-4
    np.testing.assert_allclose(others, [first, 0.0], rtol=1e-3, atol=1e-6)


WEIGHTED = WeightedBatch(*BATCH, np.array([1.0, 0.25, 1.0, 0.5], np.float32))


def test_weights_multiply_the_losses_of_their_rows():
    config = Config(
        model=ModelConfig(family=TINY, dropout=0.0, intermediate_ctc="0.5"),
        train=TrainConfig(intermediate_weight=0.3),
    )
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    loss, _ = make_objective(config.train, None)(model, *WEIGHTED)
    logits = model(BATCH.audio, BATCH.num_samples, training=True)
    last, middle = (
        np.sum(WEIGHTED.weights * ctc_loss(Logits(*each[:2]), BATCH.labels, BATCH.num_labels)) / 4
        for each in (logits, *logits.intermediate)
    )
    np.testing.assert_allclose(loss, 0.7 * last + 0.3 * middle, rtol=1e-6)


def test_weights_of_one_change_no_bit(single):
    ones = WeightedBatch(*BATCH, np.ones(4, np.float32))
    weighted = Steps(batch=ones, label_weight=0.5)
    assert weighted.losses == single.losses
    for ours, theirs in zip(weighted.model.weights, single.model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=ours.path)


@pytest.fixture(scope="module")
def weighted():
    return Steps(batch=WEIGHTED, label_weight=0.5)


def test_weights_change_the_steps(weighted, single):
    assert weighted.losses[0] < 0.9 * single.losses[0]


# rows with weights have all the terms of rows without
@pytest.mark.parametrize(
    ("name", "num_devices", "accumulate"),
    [("single", 1, 2), ("parallel-model", 3, 1), ("mirrored", 2, 1), ("stages", 2, 1)],
)
def test_all_terms_of_weighted_rows_are_the_same_on_every_engine(name, num_devices, accumulate, weighted):
    steps = Steps(name, num_devices, batch=WEIGHTED, label_weight=0.5, accumulate=accumulate)
    np.testing.assert_allclose(steps.losses, weighted.losses, rtol=1e-5)
    np.testing.assert_allclose(steps.norms, weighted.norms, rtol=1e-4)
    for ours, theirs in zip(steps.model.weights, weighted.model.weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6, err_msg=ours.path)


@pytest.fixture(scope="module")
def whole_at_once():
    return Steps(warmup_steps=0)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_consistency_in_16_bits_is_near_that_in_32(precision, whole_at_once):
    steps = Steps(precision=precision, warmup_steps=0)
    assert steps.losses[0] == pytest.approx(whole_at_once.losses[0], rel=1e-2)
    assert max(steps.losses[-1], whole_at_once.losses[-1]) < 0.95 * steps.losses[0]
