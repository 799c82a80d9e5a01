"""Outputs in the middle of a network: where they are, and what decoding has of them."""

import numpy as np
import pytest

from asr.base.config import Config, ModelConfig
from asr.base.errors import UserError
from asr.base.types import Logits
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.networks import make_network
from asr.model.networks.intermediate import blocks_with_output

VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])
AUDIO = np.random.default_rng(0).integers(-3000, 3000, (2, 8000)).astype(np.int16)
NUM_SAMPLES = np.array([8000, 8000], np.int32)


def model_of(**settings):
    return make_acoustic_model(Config(model=ModelConfig(**settings)), VOCABULARY)


@pytest.mark.parametrize(
    ("depths", "num_blocks", "blocks"),
    [("", 3, []), ("0.7", 3, [1]), ("1, 0.01", 3, [0, 2]), ("0.25, 0.5,0.75", 12, [2, 5, 8])],
)
def test_depths_are_shares_of_the_blocks(depths, num_blocks, blocks):
    assert blocks_with_output(ModelConfig(intermediate_ctc=depths), num_blocks) == blocks


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intermediate_ctc": "1.5"}, "expected shares .* received '1.5'"),
        ({"intermediate_ctc": "0"}, "received '0'"),
        ({"intermediate_ctc": "stage1"}, "received 'stage1'"),
        ({"intermediate_ctc": "0.6, 0.7"}, "0.6 and 0.7 are both behind block 2 of 3"),
        (
            {"intermediate_ctc": "0.5", "family": "dcnn24"},
            'no intermediate_ctc; set model.intermediate_ctc = "", or choose separable or conformer',
        ),
        ({"self_conditioned": True}, "model.self_conditioned: needs an output"),
        ({"intermediate_units": "phones"}, "model.intermediate_units: phones need an output"),
        (
            {"stem": "2d_deep", "family": "conformer"},
            'model.family=conformer: .* no stem; set model.stem = "1d", or choose separable$',
        ),
        (
            {
                "stem": "2d_fast",
                "intermediate_ctc": "0.5",
                "intermediate_units": "phones",
                "family": "dcnn24",
            },
            'set model.stem = "1d" and model.intermediate_ctc = "" and model.intermediate_units = "tokens"',
        ),
    ],
    ids=str,
)
def test_impossible_settings_are_refused_by_name(settings, message):
    with pytest.raises(UserError, match=message):
        make_network(ModelConfig(**settings), VOCABULARY)


def test_decoding_does_without_outputs_that_only_have_a_loss():
    plain, deep = model_of(), model_of(intermediate_ctc="0.3, 0.7")
    weights = {weight.path: np.asarray(weight) for weight in plain.weights}
    assert len(deep.weights) == len(weights) + 4
    for weight in deep.weights:
        if weight.path in weights:
            np.testing.assert_array_equal(weight, weights[weight.path])  # the initial ones are the same
    for model in (plain, deep):
        assert isinstance(model(AUDIO, NUM_SAMPLES), Logits)
    np.testing.assert_array_equal(deep(AUDIO, NUM_SAMPLES).values, plain(AUDIO, NUM_SAMPLES).values)


def test_logits_in_the_middle_have_the_frames_of_their_depth():
    logits = model_of(intermediate_ctc="0.3, 0.7, 1", self_conditioned=True)(
        AUDIO, NUM_SAMPLES, training=True
    )
    assert [each.num_frames[0] for each in logits.intermediate] == [24, 12, 6]
    assert [each.values.shape for each in logits.intermediate] == [(2, 24, 5), (2, 12, 5), (2, 6, 5)]
    assert logits.num_frames[0] == 6


def test_stem_that_is_faster_leaves_no_output_with_half_of_the_frames():
    logits = model_of(stem="2d_fast", intermediate_ctc="0.3, 0.7, 1")(AUDIO, NUM_SAMPLES, training=True)
    assert [each.num_frames[0] for each in logits.intermediate] == [12, 12, 6]


@pytest.mark.parametrize("family", ["separable", "conformer"])
def test_phones_are_outputs_of_their_own(family):
    model = model_of(family=family, intermediate_ctc="0.5", intermediate_units="phones", factored_output=True)
    logits = model(AUDIO, NUM_SAMPLES, training=True)
    assert logits.values.shape[-1] == 5
    assert [each.values.shape[-1] for each in logits.intermediate] == [1 + 6]  # an4, m-, a1, a3, n-, i3


def test_logits_in_the_middle_of_a_conformer_have_its_frames():
    model = model_of(family="conformer", intermediate_ctc="0.5")
    logits = model(AUDIO, NUM_SAMPLES, training=True)
    assert [each.values.shape for each in logits.intermediate] == [(2, 6, 5)]
    assert [int(each.num_frames[0]) for each in logits.intermediate] == [6]


def test_self_conditioned_networks_depend_on_what_they_recognized_so_far():
    model = model_of(intermediate_ctc="0.7", self_conditioned=True)
    before = model(AUDIO, NUM_SAMPLES)
    assert isinstance(before, Logits)
    bias = next(weight for weight in model.weights if weight.path.endswith("intermediate1/output/bias"))
    bias.assign([0, 9, 0, 0, 0])
    assert np.abs(model(AUDIO, NUM_SAMPLES).values - before.values).max() > 1e-3
