import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from asr.base.config import Config, DataConfig, FeatureConfig, ModelConfig, TrainConfig
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.run import Run
from asr.training.data import make_vocabulary
from asr.training.fine_tuning import differing_features, load_matching, with_tuning_rate
from data_pipeline.manifests.manifest import write_manifest

OURS = Vocabulary(["bu4", "ma1", "ma3", "hao3", "tang2"])  # the size of theirs, other ids
THEIRS = Vocabulary(["hao3", "an4", "ma1", "ni3", "bu4"])
SHARED = ["<blank>", "bu4", "ma1", "hao3"]
AUDIO = np.random.default_rng(0).integers(-3000, 3000, (2, 8000)).astype(np.int16)
NUM_SAMPLES = np.array([8000, 6000], np.int32)


def make(vocabulary, seed=1, num_mels=64, pitch=False, **model):
    config = Config(
        features=FeatureConfig(num_mels=num_mels, pitch=pitch),
        model=ModelConfig(**model),
        train=TrainConfig(seed=seed),
    )
    return make_acoustic_model(config, vocabulary)


def trained(vocabulary, **model):
    """Return a model with random weights, as another run would leave it."""
    made = make(vocabulary, seed=2, **model)
    rng = np.random.default_rng(1)
    for variable in made.variables:
        if variable.dtype == "float32":
            variable.assign(variable + abs(0.1 * rng.normal(size=variable.shape)))
    return made


def source_of(model):
    return {variable.path: np.asarray(variable).copy() for variable in model.variables}


def logits(model, vocabulary, tokens):
    places = [vocabulary.tokens.index(token) for token in tokens]
    return np.asarray(model(AUDIO, NUM_SAMPLES).values)[..., places]


def paths(weights):
    return [weight.path.removeprefix("acoustic_model/network/") for weight in weights]


@pytest.fixture(scope="module")
def plain():
    return trained(THEIRS)


@pytest.fixture(scope="module")
def factored():
    return trained(THEIRS, factored_output=True)


def test_weights_of_the_same_model_are_all_loaded_except_seeds(plain):
    model = make(THEIRS)
    seeds = [np.asarray(v).copy() for v in model.variables if "seed" in v.path]
    loaded = load_matching(model, THEIRS, source_of(plain), THEIRS)
    np.testing.assert_array_equal(logits(model, THEIRS, THEIRS.tokens), logits(plain, THEIRS, THEIRS.tokens))
    assert not loaded.in_part + loaded.initialized + loaded.unused + loaded.new_tokens
    assert {weight.path for weight in loaded.taken} == {
        v.path for v in model.variables if "seed" not in v.path
    }
    for before, variable in zip(seeds, (v for v in model.variables if "seed" in v.path), strict=True):
        np.testing.assert_array_equal(before, variable)
    assert loaded.lines() == [
        "loaded: 59 of 59 weights, in stage0, stage1, stage2, head, output",
        "tokens: 5 loaded",
    ]


def test_tokens_of_both_vocabularies_keep_their_logits(plain):
    model = make(OURS)
    loaded = load_matching(model, OURS, source_of(plain), THEIRS)
    np.testing.assert_allclose(logits(model, OURS, SHARED), logits(plain, THEIRS, SHARED), rtol=1e-5)
    # the others begin as the mean of those
    mean = logits(plain, THEIRS, SHARED[1:]).mean(axis=-1, keepdims=True)
    new = logits(model, OURS, ["ma3", "tang2"])
    np.testing.assert_allclose(new, np.repeat(mean, 2, axis=-1), rtol=1e-4, atol=1e-5)
    assert paths(loaded.in_part) == ["output/kernel", "output/bias"]
    assert loaded.in_part[0].reason == "4 of 6 outputs are known"
    assert loaded.lines()[1] == "tokens: 3 loaded, 2 initialized (ma3, tang2), 2 not used (an4, ni3)"


def test_smaller_vocabulary_loads_its_tokens_from_a_larger_one(plain):
    fewer = Vocabulary(["bu4", "hao3"])
    model = make(fewer)
    loaded = load_matching(model, fewer, source_of(plain), THEIRS)
    np.testing.assert_allclose(
        logits(model, fewer, fewer.tokens), logits(plain, THEIRS, fewer.tokens), rtol=1e-5
    )
    assert not loaded.in_part
    assert len(loaded.dropped_tokens) == 3


@pytest.mark.parametrize("factored_output", [False, True])
def test_outputs_in_the_middle_keep_the_weights_of_tokens(factored_output):
    """As many tokens in another order: equal shapes would swap their weights unnoticed."""
    model_settings = {
        "factored_output": factored_output,
        "intermediate_ctc": "0.7",
        "self_conditioned": True,
    }
    order = THEIRS.tokens[:0:-1]
    reordered = Vocabulary(order)
    source = trained(THEIRS, **model_settings)
    model = make(reordered, **model_settings)
    loaded = load_matching(model, reordered, source_of(source), THEIRS)
    assert not loaded.in_part + loaded.initialized + loaded.unused
    np.testing.assert_allclose(
        logits(model, reordered, THEIRS.tokens), logits(source, THEIRS, THEIRS.tokens), rtol=1e-4, atol=1e-5
    )


PHONES = {"intermediate_ctc": "0.7", "self_conditioned": True, "intermediate_units": "phones"}


def weight_of(model, ending):
    return next(array for path, array in source_of(model).items() if path.endswith(ending))


def test_phones_keep_their_weights_in_another_vocabulary():
    source = trained(THEIRS, **PHONES)
    model = make(OURS, **PHONES)
    loaded = load_matching(model, OURS, source_of(source), THEIRS)
    assert not loaded.initialized + loaded.unused
    ours, theirs = OURS.phones().tokens, THEIRS.phones().tokens
    assert ours != theirs
    for ending in ("intermediate1/output/bias", "intermediate1/feedback/rows"):
        here, there = weight_of(model, ending), weight_of(source, ending)
        for phone in set(ours) & set(theirs):
            np.testing.assert_array_equal(here[ours.index(phone)], there[theirs.index(phone)])
    new = ours.index("ang2")
    known = [ours.index(phone) for phone in ours[1:] if phone in theirs]
    feedback = weight_of(model, "intermediate1/feedback/rows")
    np.testing.assert_allclose(feedback[new], feedback[known].mean(axis=0), rtol=1e-5)


def test_phones_are_not_loaded_into_tokens():
    source = trained(THEIRS, **PHONES)
    model = make(THEIRS, intermediate_ctc="0.7", self_conditioned=True)
    loaded = load_matching(model, THEIRS, source_of(source), THEIRS)
    assert all("intermediate1" in weight.path for weight in loaded.initialized)
    assert len(loaded.initialized) == 3
    assert all("phones in only one" in weight.reason for weight in loaded.initialized)


def test_outputs_in_the_middle_that_only_one_run_has_are_named(plain):
    model = make(THEIRS, intermediate_ctc="0.7", self_conditioned=True)
    loaded = load_matching(model, THEIRS, source_of(plain), THEIRS)
    assert all("intermediate1" in path for path in paths(loaded.initialized))
    assert {weight.reason for weight in loaded.initialized} == {"not in the other run"}
    back = load_matching(make(THEIRS), THEIRS, source_of(model), THEIRS)
    assert paths(back.unused) == paths(loaded.initialized)
    assert not back.initialized


def test_factored_outputs_keep_the_weights_of_token_parts(factored):
    model = make(OURS, factored_output=True)
    loaded = load_matching(model, OURS, source_of(factored), THEIRS)
    np.testing.assert_allclose(logits(model, OURS, SHARED), logits(factored, THEIRS, SHARED), rtol=1e-5)

    rows = next(path for path in source_of(model) if path.endswith("output/rows"))
    ours, theirs = source_of(model)[rows], source_of(factored)[rows]
    ma3, their_ma1, their_ni3 = (
        OURS.syllable_parts()[3],
        THEIRS.syllable_parts()[3],
        THEIRS.syllable_parts()[4],
    )
    np.testing.assert_array_equal(ours[ma3[:2]], theirs[their_ma1[:2]])  # m and a, of ma1
    np.testing.assert_array_equal(ours[ma3[2]], theirs[their_ni3[2]])  # the third tone, of ni3
    # the part of ma3 itself is new: it begins as those of the tokens that both have
    own = [OURS.syllable_parts()[OURS.tokens.index(token)][3] for token in SHARED[1:]]
    np.testing.assert_allclose(ours[ma3[3]], ours[own].mean(axis=0), rtol=1e-5)
    assert "16 of 21 parts are known" in loaded.lines()[1]


def test_new_token_loads_its_parts_from_other_tokens(factored):
    model = make(Vocabulary(["nan4"]), factored_output=True)  # n of ni3, an and 4 of an4
    load_matching(model, Vocabulary(["nan4"]), source_of(factored), THEIRS)
    bias = next(path for path in source_of(model) if path.endswith("output/bias"))
    parts = Vocabulary(["nan4"]).syllable_parts()[1]
    ni3, an4 = THEIRS.syllable_parts()[4], THEIRS.syllable_parts()[2]
    np.testing.assert_array_equal(
        source_of(model)[bias][parts[:3]], source_of(factored)[bias][[ni3[0], an4[1], an4[2]]]
    )


def test_outputs_of_another_kind_keep_their_initial_values(factored):
    model = make(THEIRS)
    fresh = source_of(model)
    loaded = load_matching(model, THEIRS, source_of(factored), THEIRS)
    assert paths(loaded.initialized) == ["output/kernel", "output/bias"]
    assert paths(loaded.unused) == ["output/rows"]
    for weight in loaded.initialized:
        np.testing.assert_array_equal(source_of(model)[weight.path], fresh[weight.path])
    summary = "\n".join(loaded.lines())
    assert "tokens:" not in summary
    assert "initialized: output/kernel (only one of the two is a sum of parts (model.fac" in summary


def test_layer_of_another_shape_keeps_its_initial_values_and_is_reported(plain):
    model = make(THEIRS, num_mels=40)
    loaded = load_matching(model, THEIRS, source_of(plain), THEIRS)
    assert paths(loaded.initialized) == ["stage0/down/kernel"]
    assert "initialized: stage0/down/kernel (5x40x64 here, 5x64x64 there)" in loaded.lines()


def test_layers_missing_from_the_other_run_are_reported_in_a_few_lines(plain):
    source = {path: array for path, array in source_of(plain).items() if "/stage" not in path}
    loaded = load_matching(make(THEIRS), THEIRS, source, THEIRS)
    assert len(loaded.initialized) > 40
    lines = loaded.lines()
    assert len(lines) == 5
    assert lines[2].startswith(
        "initialized: stage0/down/kernel (not in the other run), and 16 more in stage0"
    )


@pytest.mark.parametrize("stem", ["1d", "2d_fast"])
def test_deeper_network_begins_with_the_logits_of_the_other_and_learns_with_all_blocks(stem):
    shallow = make(THEIRS, seed=2, size="sm", stem=stem)
    deep = make(THEIRS, size="sm_deep", stem=stem)
    loaded = load_matching(deep, THEIRS, source_of(shallow), THEIRS)
    assert loaded.num_added == 7
    assert "added: 7 blocks, which change nothing before training" in loaded.lines()
    assert not loaded.unused
    expected = logits(shallow, THEIRS, THEIRS.tokens)
    np.testing.assert_allclose(logits(deep, THEIRS, THEIRS.tokens), expected, rtol=0, atol=1e-5)
    for _ in range(2):  # the factors of 0 first, then what they let through
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(deep(AUDIO, NUM_SAMPLES, training=True).values))
        gradients = tape.gradient(loss, deep.trainable_variables)
        for variable, gradient in zip(deep.trainable_variables, gradients, strict=True):
            variable.assign_sub(1e-3 * tf.sign(gradient))
    still = [v.path for v, g in zip(deep.trainable_variables, gradients, strict=True) if not np.any(g)]
    assert not still


def test_weights_that_know_no_pitch_begin_with_the_same_logits_and_learn_it():
    without = trained(THEIRS, stem="2d_fast")
    model = make(THEIRS, stem="2d_fast", pitch=True)
    loaded = load_matching(model, THEIRS, source_of(without), THEIRS)
    assert not loaded.unused
    assert all("/stem/pitch/" in weight.path for weight in loaded.initialized)
    expected = logits(without, THEIRS, THEIRS.tokens)
    np.testing.assert_allclose(logits(model, THEIRS, THEIRS.tokens), expected, rtol=0, atol=1e-5)
    learning = [v for v in model.trainable_variables if "/stem/pitch/" in v.path]
    for _ in range(2):  # the mixture of 0 first, then the filters
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(AUDIO, NUM_SAMPLES, training=True).values))
        gradients = tape.gradient(loss, learning)
        for variable, gradient in zip(learning, gradients, strict=True):
            variable.assign_sub(1e-3 * tf.sign(gradient))
    assert all(np.any(gradient) for gradient in gradients)


def test_a_new_pitch_is_no_difference_to_a_stem_and_one_to_others():
    features, with_pitch = FeatureConfig(), FeatureConfig(pitch=True)
    assert not differing_features(Config(features=with_pitch, model=ModelConfig(stem="2d_fast")), features)
    assert len(differing_features(Config(features=with_pitch), features)) == 1
    assert (
        len(differing_features(Config(features=features, model=ModelConfig(stem="2d_fast")), with_pitch)) == 1
    )


def test_blocks_of_a_stage_that_the_other_lacks_keep_their_initial_values():
    source = source_of(trained(THEIRS, size="sm"))
    source = {path: array for path, array in source.items() if "/stage2/" not in path}
    loaded = load_matching(make(THEIRS, size="sm_deep"), THEIRS, source, THEIRS)
    assert loaded.num_added == 1  # of stage 1


def test_moving_statistics_are_loaded_and_unused_norms_are_reported():
    source = source_of(trained(THEIRS, family="dcnn251bn"))
    model = make(THEIRS, family="dcnn251")
    loaded = load_matching(model, THEIRS, source, THEIRS)
    assert {weight.path.split("/")[-1] for weight in loaded.unused} >= {"gamma", "moving_mean"}
    assert "not used: and in norm5, norm6, norm7, norm8, norm9" in loaded.lines()
    same = make(THEIRS, family="dcnn251bn")
    loaded = load_matching(same, THEIRS, source, THEIRS)
    statistics = [weight.path for weight in loaded.taken if "moving" in weight.path]
    assert len(statistics) == 20
    for path in statistics:
        np.testing.assert_array_equal(source_of(same)[path], source[path])


@pytest.mark.parametrize("other", [{"family": "dcnn24"}, {"size": "s"}])
def test_model_without_matching_layers_is_refused_and_unchanged(plain, other):
    model = make(THEIRS, **other)
    before = source_of(model)
    with pytest.raises(UserError, match="no layer of the other run's model fits") as refusal:
        load_matching(model, THEIRS, source_of(plain), THEIRS)
    assert "weights in stage0, stage1, stage2, head, output, this one has" in str(refusal.value)
    for path, array in source_of(model).items():
        np.testing.assert_array_equal(array, before[path])


def test_vocabulary_that_does_not_fit_the_weights_is_refused(plain):
    with pytest.raises(UserError, match="output/kernel has 6 rows, but its vocabulary makes 3 outputs"):
        load_matching(make(OURS), OURS, source_of(plain), Vocabulary(["an4", "bu4"]))


def test_model_made_for_training_loads_weights(plain):
    config = Config(train=dataclasses.replace(TrainConfig(), precision="bfloat16", freeze="stage0"))
    model = make_acoustic_model(config, OURS, for_training=True)
    loaded = load_matching(model, OURS, source_of(plain), THEIRS)
    assert not loaded.initialized
    for path, array in source_of(model).items():
        if "stage" in path:
            np.testing.assert_array_equal(array, source_of(plain)[path])


@pytest.fixture
def few_words(trained_run, tmp_path):
    """Return a configuration that starts from a run, with two of its syllables and a new one."""
    known = Run.open(trained_run).vocabulary().tokens[5:7]
    manifest = tmp_path / "few.jsonl"
    write_manifest(manifest, [Utterance("a", str(tmp_path / "a.wav"), 1.0, "", (*known, "xyue4"))])
    return Config(data=DataConfig(train=str(manifest)), train=TrainConfig(init_from=str(trained_run)))


def test_fine_tuned_model_can_write_what_the_other_run_could(few_words, trained_run, caplog):
    parent = Run.open(trained_run).vocabulary()
    with caplog.at_level("INFO"):
        vocabulary = make_vocabulary(few_words)
    assert vocabulary.tokens == (*parent.tokens, "xyue4")
    assert f"all {len(parent) - 1} tokens of {trained_run} and 1 new ones" in caplog.text


def test_tokens_of_the_other_run_are_left_out_by_choice_or_for_another_unit(few_words, tmp_path):
    by_choice = dataclasses.replace(few_words, data=dataclasses.replace(few_words.data, vocabulary="train"))
    assert len(make_vocabulary(by_choice)) == 4
    manifest = tmp_path / "hanzi.jsonl"
    write_manifest(manifest, [Utterance("a", str(tmp_path / "a.wav"), 1.0, "你好", ("你", "好"))])
    hanzi = dataclasses.replace(few_words, data=DataConfig(train=str(manifest)))
    assert set(make_vocabulary(hanzi).tokens[1:]) == {"你", "好"}


@pytest.mark.parametrize(
    ("family", "start_error", "rate"),
    [
        ("separable", 0.5, 3e-4),
        ("separable", 1.1, 1e-3),
        ("conformer", 0.2, 1e-4),
        ("conformer", 0.7, 1e-3 / 3),
    ],
)
def test_weights_that_know_the_speech_are_changed_gently(family, start_error, rate):
    config = Config(model=ModelConfig(family=family), train=TrainConfig(learning_rate=0))
    assert with_tuning_rate(config, start_error).train.learning_rate == pytest.approx(rate)
    own = dataclasses.replace(config, train=TrainConfig(learning_rate=2e-3))
    assert with_tuning_rate(own, start_error) == own
