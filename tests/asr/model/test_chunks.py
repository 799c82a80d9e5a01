"""Conformers in chunks: what frames depend on, what training draws, and which lengths are possible."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.small_conformer import NUM_BLOCKS, use_small_conformer

from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.networks import make_network
from asr.model.networks.conformers import attention
from asr.model.networks.conformers.attention import attend, attend_by_chunks
from asr.model.networks.conformers.chunks import Chunks, in_chunks, joined, make_chunks
from asr.model.networks.conformers.conformer import Conformer

VOCABULARY = Vocabulary("abcd")
NUM_FRAMES = 8 * 19
CHUNK_S = 0.32  # four frames of logits


@pytest.fixture(autouse=True)
def _small_network(monkeypatch):
    use_small_conformer(monkeypatch)


def network_of(chunk_s=CHUNK_S, seed=1, dropout=0.0, copied=None):
    """Return a network whose weights are random, and large enough that everything counts."""
    config = ModelConfig(family="conformer", chunk_s=chunk_s, dropout=dropout)
    network = make_network(config, VOCABULARY, seed)
    network(features(8), np.array([8], np.int32))
    rng = np.random.default_rng(3)
    for index, weight in enumerate(network.weights):
        noise = 0.3 * rng.normal(size=weight.shape)
        weight.assign(weight + noise if copied is None else copied.weights[index])
    return network


def features(num_frames, num_clips=1, seed=0):
    return np.random.default_rng(seed).normal(size=(num_clips, num_frames, 16)).astype(np.float32)


def logits_of(network, inputs, training=False):
    lengths = np.full(len(inputs), inputs.shape[1], np.int32)
    return np.asarray(network(inputs, lengths, training=training).values)


def test_chunks_follow_each_other_and_repeat_the_frames_before_them():
    frames = tf.reshape(tf.range(1, 8, dtype=tf.float32), (1, 7, 1))
    cut = in_chunks(frames, 3, before=4)[0, ..., 0].numpy().astype(int).tolist()
    assert cut == [[0, 0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 0, 0]]
    np.testing.assert_array_equal(joined(in_chunks(frames, 3), frames), frames)


def test_attention_by_chunks_is_that_of_the_whole_clip_with_a_mask():
    queries, keys, values = (
        np.random.default_rng(seed).normal(size=(2, 11, 2, 4)).astype(np.float32) for seed in range(3)
    )
    lengths = [11, 6]
    real = tf.sequence_mask(lengths, 11, tf.float32)
    by_chunk = attend_by_chunks(queries, keys, values, real, Chunks(size=3, before=2))
    for frame in range(11):
        chunk = frame // 3
        seen = real * tf.constant([float(chunk - 2 <= other // 3 <= chunk) for other in range(11)])
        expected = attend(queries[:, frame : frame + 1], keys, values, seen)[:, 0]
        for clip, length in enumerate(lengths):
            if frame < length:
                np.testing.assert_allclose(by_chunk[clip, frame], expected[clip], rtol=1e-4, atol=1e-5)


def test_a_chunk_depends_on_its_receptive_field_and_nothing_else():
    network, place = network_of(), 12  # the first frame of the fourth chunk
    field = network.receptive_field()
    assert field == (NUM_BLOCKS * 2 * 32 + 7, 7, 4)
    inputs = tf.Variable(np.concatenate([features(8 * 24)] * 3, axis=1))
    place += 24
    for frame in (place, place + 3):
        with tf.GradientTape() as tape:
            values = network(inputs, np.array([inputs.shape[1]], np.int32)).values
            total = tf.reduce_sum(values[:, frame] * np.array([1.0, -2.0, 3.0, 0.5, 1.5]))
        used = np.flatnonzero(np.abs(tape.gradient(total, inputs).numpy()).max(axis=(0, 2)))
        assert used[-1] == 8 * (place + 3) + field.after
        assert used[0] == 8 * place - field.before
        assert used[0] > 0


@pytest.mark.parametrize("num_frames", [1, 7, 31, 33, NUM_FRAMES])
def test_logits_of_complete_chunks_are_those_of_a_longer_clip(num_frames):
    network, inputs = network_of(), features(NUM_FRAMES + 100)
    whole, part = logits_of(network, inputs), logits_of(network, inputs[:, :num_frames])
    assert part.shape[1] == network.num_output_frames(num_frames)
    complete = num_frames // 32 * 4
    np.testing.assert_allclose(part[:, :complete], whole[:, :complete], rtol=1e-4, atol=1e-4)
    if num_frames % 32:
        assert not np.allclose(part[:, complete:], whole[:, complete : part.shape[1]], atol=1e-3)


def test_padding_does_not_count_in_chunks():
    network = network_of()
    long, short = features(61), features(37, seed=1)
    batch = np.concatenate([long, np.pad(short, [(0, 0), (0, 24), (0, 0)])])
    together = network(batch, np.array([61, 37], np.int32)).values[1, :5]
    np.testing.assert_allclose(together, logits_of(network, short)[0], rtol=1e-4, atol=1e-4)


def seeds_of(network):
    return [variable for variable in network.variables if "seed" in variable.path]


def reset(network, values):
    for variable, value in zip(seeds_of(network), values, strict=True):
        variable.assign(value)


@pytest.fixture(scope="module")
def inputs():
    return features(NUM_FRAMES, num_clips=2)


def draws_of(network, inputs):
    """Return a function of a number of steps that says of each whether it saw whole clips, and checks it."""
    whole = logits_of(network_of(chunk_s=0.0, copied=network), inputs)
    by_chunk = logits_of(network, inputs)
    assert np.abs(whole - by_chunk).max() > 0.1
    step = tf.function(lambda: network(inputs, np.full(2, NUM_FRAMES, np.int32), training=True).values)

    def draw(num_steps):
        draws = []
        for _ in range(num_steps):
            values = step().numpy()
            draws.append(bool(np.abs(values - whole).max() < 1e-3))
            if not draws[-1]:  # all blocks draw the same: nothing in between
                np.testing.assert_allclose(values, by_chunk, rtol=1e-3, atol=1e-3)
        return draws

    return draw


@pytest.mark.slow
def test_training_draws_whole_clips_or_chunks_by_its_seed_and_can_be_resumed(inputs):
    network = network_of()
    draw = draws_of(network, inputs)
    first = draw(6)
    kept = [np.asarray(variable) for variable in seeds_of(network)]
    second = draw(8)
    assert len(set(second)) == 2
    reset(network, kept)
    assert draw(8) == second
    new, other = ([np.asarray(each).tolist() for each in seeds_of(network_of(seed=seed))] for seed in (1, 2))
    reset(network, new)
    assert draw(6) == first
    assert all(one != different for one, different in zip(new, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_compiled_step_in_chunks_has_the_loss_and_gradients_of_an_eager_one(
    jit_compile, inputs, monkeypatch
):
    """A graph of any length has all ways to attend; here it attends to whole clips in blocks."""
    network, lengths = network_of(), np.array([NUM_FRAMES, 99], np.int32)

    def step(inputs, lengths):
        with tf.GradientTape() as tape:
            values = network(inputs, lengths, training=True).values
            loss = tf.reduce_sum(tf.square(values[0])) + tf.reduce_sum(tf.square(values[1, :13]))
        return loss, tape.gradient(loss, [weight.value for weight in network.trainable_weights])

    eager = {}  # by the loss: whole clips and chunks
    while len(eager) < 2:
        loss, gradients = step(inputs, lengths)
        eager[round(float(loss))] = (loss, gradients)
    monkeypatch.setattr(attention, "LONGEST_AT_ONCE", 10)
    signature = [tf.TensorSpec((None, None, 16)), tf.TensorSpec((None,), tf.int32)]
    compiled = tf.function(step, None if jit_compile else signature, jit_compile=jit_compile)
    found = set()
    for _ in range(8):  # XLA draws other numbers
        loss, ours = compiled(inputs, lengths)
        expected, gradients = min(eager.values(), key=lambda one: abs(one[0] - loss))
        found.add(float(expected))
        np.testing.assert_allclose(loss, expected, rtol=1e-4)
        for one, other in zip(ours, gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3 * np.abs(other).max() + 1e-4)
    assert len(found) == 2


def test_a_saved_network_keeps_its_chunks(tmp_path):
    config = Config(
        model=ModelConfig(family="conformer", chunk_s=CHUNK_S), features=FeatureConfig(normalize=False)
    )
    model = make_acoustic_model(config, VOCABULARY)
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert copy.network.chunk_s == CHUNK_S
    assert copy.receptive_field() == model.receptive_field()


def test_frames_attend_to_at_least_a_fixed_time_before_their_chunk(monkeypatch):
    monkeypatch.undo()
    assert make_chunks(0.0, 8) == Chunks()
    assert [make_chunks(chunk_s, 8) for chunk_s in (0.08, 0.32, 0.64, 0.96, 2.56)] == [
        (1, 16),
        (4, 4),
        (8, 2),
        (12, 2),
        (32, 1),
    ]
    assert Conformer("xs", 5, chunk_s=0.64).receptive_field().before == 6 * 3 * 64 + 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunk_s": 0.5}, r"expected 0 or a multiple of 0.08 s, .* received 0.5; the nearest is 0.48"),
        ({"chunk_s": 0.01}, r"received 0.01; the nearest is 0.08"),
        ({"chunk_s": -0.64}, r"received -0.64"),
    ],
    ids=str,
)
def test_impossible_chunks_are_refused(settings, message):
    with pytest.raises(UserError, match=rf"model\.chunk_s: .*{message}"):
        make_network(ModelConfig(**{"family": "conformer", **settings}), VOCABULARY)


def test_chunks_of_a_family_without_them_are_refused():
    with pytest.raises(UserError, match=r"no chunk_s; set model.chunk_s = 0.0, or choose conformer$"):
        make_network(ModelConfig(family="separable", chunk_s=0.64), VOCABULARY)
