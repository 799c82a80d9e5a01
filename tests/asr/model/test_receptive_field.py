"""A frame of logits depends on exactly the samples in its receptive field."""

import numpy as np
import pytest
import tensorflow as tf

from asr.base.config import Config, FeatureConfig, ModelConfig
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.networks.separable import Separable

FRAME = 22  # in the middle: its field ends inside the clip on both sides
NUM_SAMPLES = 60_000


def bounded_models():
    kinds = [("separable", "xs", "log_mel"), ("separable", "s", "spectrogram"), ("separable", "xs", "mfcc")]
    return [
        *kinds,
        ("separable", "xs", "fbank"),
        ("self-conditioned", "xs", "log_mel"),
        ("stem 2d", "xs", "log_mel"),
        ("stem 2d_deep", "xs", "log_mel"),
        ("stem 2d_fast", "s", "log_mel"),
        ("pitch 2d_fast", "xs", "log_mel"),
        ("pitch 1d", "xs", "fbank"),
        ("dcnn24", "xs", "log_mel"),
        ("dcnn251", "xs", "spectrogram"),
        ("dcnn251bn", "xs", "mfcc"),
    ]


def model_of(family="separable", size="xs", kind="log_mel", normalize=False):
    network = ModelConfig(family=family, size=size)
    if family == "self-conditioned":
        network = ModelConfig(size=size, intermediate_ctc="0.3, 0.7", self_conditioned=True)
    if family.startswith(("stem ", "pitch ")):
        network = ModelConfig(size=size, stem=family.split()[1])
    features = FeatureConfig(kind=kind, normalize=normalize, pitch=family.startswith("pitch "))
    model = make_acoustic_model(Config(features=features, model=network), Vocabulary("abcd"))
    for weight in model.network.trainable_weights:
        if "/pitch/pointwise/" in weight.path:
            weight.assign(tf.random.stateless_normal(weight.shape, (0, 1)))  # 0 before training
        if weight.name in ("beta", "bias"):
            weight.assign(weight + 3.0)  # so that most units are active
    return model


def samples_that_change(model, clips):
    """Return the first and the last sample on which the frame's logits depend in any of the clips."""
    samples = tf.Variable(clips.astype(np.float32))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(samples, np.full(len(clips), clips.shape[1], np.int32)).values[:, FRAME])
    used = np.flatnonzero(np.any(tape.gradient(total, samples).numpy(), axis=0))
    return used[0], used[-1]


def logits_of(model, audio):
    return model(audio[None], np.array([len(audio)], np.int32)).values.numpy()[0]


@pytest.mark.parametrize(("family", "size", "kind"), bounded_models())
def test_logits_depend_on_the_samples_just_inside_the_field_and_none_outside(family, size, kind):
    model = model_of(family, size, kind)
    field = model.receptive_field()
    place = FRAME * model.frame_samples
    first, last = place - field.before, place + field.after
    assert first > 0
    assert last < NUM_SAMPLES - 1
    generator = np.random.default_rng(0)
    clips = generator.normal(0, 3000, (3, NUM_SAMPLES)).astype(np.int16)
    audio = clips[0]
    outside = generator.normal(0, 9000, NUM_SAMPLES).astype(np.int16)
    outside[first : last + 1] = audio[first : last + 1]
    np.testing.assert_array_equal(logits_of(model, outside)[FRAME], logits_of(model, audio)[FRAME])
    # the outermost sample of a window has a weight of 0
    first_used, last_used = samples_that_change(model, clips)
    assert first <= first_used <= first + 2
    assert last - 2 <= last_used <= last


def test_a_model_that_uses_the_whole_clip_has_no_bounded_field():
    assert model_of(normalize=True).receptive_field() is None
    assert Separable("m", num_outputs=5).receptive_field() is None
    assert Separable("m", num_outputs=5, stem="2d").receptive_field() is None


@pytest.mark.parametrize(("size", "reach"), [("xs", 62), ("s", 122)])
def test_the_field_of_small_networks_is_about_a_second_to_each_side(size, reach):
    assert Separable(size, num_outputs=5).receptive_field() == (reach, reach, 1)
