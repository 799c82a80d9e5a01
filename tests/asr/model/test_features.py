import keras
import numpy as np
import pytest
import python_speech_features

from asr.audio.recording import read_audio
from asr.base.config import AugmentConfig, FeatureConfig, load_config
from asr.base.registry import FEATURE_KINDS
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.features import make_features
from asr.model.features.fbank import Fbank
from asr.model.features.log_mel import LogMel
from asr.model.features.mfcc import Mfcc
from asr.model.features.spec_augment import SpecAugment
from asr.model.features.spectrogram import Spectrogram


@pytest.fixture(scope="module")
def waveforms(clips):
    return [read_audio(clip.audio_path) for clip in clips[:2]]


def alone(layer, waveform):
    features, num_frames = layer(waveform[None], np.array([len(waveform)], np.int32))
    assert features.shape[1] == num_frames[0]
    return features.numpy()[0]


def test_spectrogram_equals_frame_by_frame_fft(waveforms):
    waveform = waveforms[0]
    window = np.array([0.54 - 0.46 * np.cos(2 * np.pi * n / 399) for n in range(400)])
    expected = [
        np.log(np.abs(np.fft.fft(waveform[start : start + 400] * window))[:200] + 1)
        for start in range(0, len(waveform) - 399, 160)
    ]
    np.testing.assert_allclose(alone(Spectrogram(), waveform), expected, rtol=1e-4, atol=2e-3)


def test_mfcc_equals_python_speech_features(waveforms):
    for waveform in waveforms:
        cepstra = python_speech_features.mfcc(waveform, 16000)
        first = python_speech_features.delta(cepstra, 2)
        expected = np.hstack([cepstra, first, python_speech_features.delta(first, 2)])
        np.testing.assert_allclose(alone(Mfcc(), waveform), expected, rtol=1e-4, atol=2e-3)


def test_log_mel_finds_a_tone_in_its_band():
    layer = LogMel(num_mels=64)
    centres_hz = np.argmax(layer.mel, axis=0) * 16000 / 512
    for tone_hz in (400, 1000, 3000):
        tone = (8000 * np.sin(2 * np.pi * tone_hz * np.arange(8000) / 16000)).astype(np.int16)
        loudest = alone(layer, tone).mean(axis=0).argmax()
        assert abs(centres_hz[loudest] - tone_hz) < 0.06 * tone_hz + 20


@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_silence_has_finite_features(kind):
    assert np.isfinite(alone(make_features(FeatureConfig(kind=kind)), np.zeros(4000, np.int16))).all()


@pytest.mark.parametrize(
    "settings",
    [{"normalize": False}, {}, {"normalize_over": "clip"}, {"pitch": True}],
    ids=["as they are", "speech", "clip", "pitch"],
)
@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_features_are_the_same_alone_and_in_a_padded_batch(kind, settings, waveforms):
    layer = make_features(FeatureConfig(kind=kind, **settings))
    short = waveforms[0][:9123]
    # the samples after the clip's end are not silence, but must not count
    audio = np.stack([waveforms[1][:14000], np.concatenate([short, waveforms[1][: 14000 - len(short)]])])
    features, num_frames = layer(audio, np.array([14000, len(short)], np.int32))
    expected = alone(layer, short)
    assert num_frames[1] == len(expected)
    np.testing.assert_allclose(features.numpy()[1, : len(expected)], expected, atol=5e-4)
    assert not features.numpy()[1, len(expected) :].any()


@pytest.mark.parametrize("pitch", [False, True])
@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_a_frame_depends_on_no_sample_outside_its_receptive_field(kind, pitch, waveforms):
    layer = make_features(FeatureConfig(kind=kind, normalize=False, pitch=pitch))
    field, frame = layer.receptive_field(), 40
    if field is None:
        pytest.skip("a frame of this kind depends on the whole clip")
    audio = waveforms[0][:14000]
    first, last = 160 * frame - field.before, 160 * frame + field.after
    changed = np.random.default_rng(0).integers(-3000, 3000, len(audio)).astype(np.int16)
    changed[first : last + 1] = audio[first : last + 1]
    np.testing.assert_allclose(alone(layer, changed)[frame], alone(layer, audio)[frame], atol=1e-3)


def test_normalized_features_have_mean_0_and_variance_1(waveforms):
    features = alone(LogMel(normalize=True), waveforms[0])
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-2)


def room_tone(num_samples, level_dbfs):
    rng = np.random.default_rng(2)
    return np.rint(rng.normal(0, 32768 * 10 ** (level_dbfs / 20), num_samples)).astype(np.int16)


@pytest.mark.parametrize("level_dbfs", [-np.inf, -90, -60, -50])
@pytest.mark.parametrize("kind", FEATURE_KINDS)
def test_silence_around_speech_does_not_change_the_features_of_speech(kind, level_dbfs, waveforms):
    if (kind, level_dbfs) == ("mfcc", -50):
        pytest.skip("to the energy of emphasised samples, white noise of -50 dBFS is as loud as this speech")
    layer = make_features(FeatureConfig(kind=kind, pitch=kind == "log_mel"))
    silence = room_tone(10 * 16000, level_dbfs)
    around = alone(layer, np.concatenate([silence, waveforms[0], silence]))
    inside = around[len(silence) // 160 :][: len(alone(layer, waveforms[0]))]
    # the windows and differences at the two ends reach into the silence
    np.testing.assert_allclose(inside[8:-8], alone(layer, waveforms[0])[8:-8], atol=0.05)
    over_clip = make_features(FeatureConfig(kind=kind, normalize_over="clip"))
    shifted = alone(over_clip, np.concatenate([silence, waveforms[0], silence]))[len(silence) // 160 :]
    assert np.abs(shifted[: len(inside)][8:-8] - alone(over_clip, waveforms[0])[8:-8]).max() > 0.5


@pytest.mark.parametrize(("kind", "highest"), [("log_mel", 0), ("spectrogram", 0), ("fbank", 0.2)])
def test_digital_silence_beside_speech_has_the_features_of_padding(kind, highest, waveforms):
    layer = make_features(FeatureConfig(kind=kind))
    features = alone(layer, np.concatenate([waveforms[0], np.zeros(16000, np.int16)]))
    assert features[-90:].max() <= highest  # Kaldi's floor is not far below the quietest bands of speech
    assert features.min() == 0


def test_click_before_quiet_speech_does_not_count_as_the_level_of_the_clip(waveforms):
    layer, quiet = LogMel(normalize=True, over_speech=True), (waveforms[0] // 20).astype(np.int16)
    clicked = np.concatenate([np.zeros(8000, np.int16), quiet])
    clicked[2000:2080] = 20000
    change = np.abs(alone(layer, clicked)[60:] - alone(layer, quiet)[10:])
    assert np.median(change) < 0.1  # 1.9 if the loudest frame were the level of the clip


def voice(f0_hz, amplitude, lowest=1, duration_s=0.5):
    """Return a sound with harmonics up to 3 kHz, from the lowest on."""
    time_s = np.arange(int(duration_s * 16000)) / 16000
    numbers = range(lowest, int(3000 / f0_hz))
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, len(numbers))
    waves = [np.sin(2 * np.pi * n * f0_hz * time_s + p) for n, p in zip(numbers, phases, strict=True)]
    return np.round(amplitude * sum(waves)).astype(np.int16)


@pytest.mark.parametrize("amplitude", [100, 1500])
@pytest.mark.parametrize("lowest", [1, 3])  # a telephone cuts the first two harmonics off
@pytest.mark.parametrize("f0_hz", [75, 120, 210, 330])
def test_features_of_the_pitch_are_highest_at_the_period_of_the_voice(f0_hz, lowest, amplitude):
    if lowest * f0_hz > 900:
        pytest.skip("nothing is left of this voice where the pitch is found")
    features = alone(LogMel(pitch=True), voice(f0_hz, amplitude, lowest))[:, LogMel.NUM_MELS :]
    highest_hz = 500 * (55 / 500) ** (features[10:-10].argmax(axis=1) / 47)
    # or at twice the period, which has it, too
    octaves = np.log2(f0_hz / highest_hz)
    assert np.abs(octaves - np.round(octaves)).max() < 0.04
    assert set(np.round(octaves)) <= {0, 1}
    assert features[10:-10].max(axis=1).min() > 0.25


def test_a_voice_that_is_higher_by_a_factor_moves_the_features_of_the_pitch():
    factor = (500 / 55) ** (1 / 47)  # of neighbouring delays
    for steps in (3, 7, 12):
        low, high = (
            alone(LogMel(pitch=True), voice(f0_hz, 500))[20, -48:] for f0_hz in (140, 140 * factor**steps)
        )
        assert low.argmax() - high.argmax() == steps


def test_an_offset_of_the_samples_changes_no_feature_of_the_pitch():
    sound = voice(140, 300)
    plain, shifted = (alone(LogMel(pitch=True), sound + np.int16(offset)) for offset in (0, 2000))
    np.testing.assert_allclose(shifted[5:-5, -48:], plain[5:-5, -48:], atol=1e-3)


def test_digital_silence_has_no_pitch():
    assert not alone(LogMel(pitch=True), np.zeros(4000, np.int16))[:, -48:].any()


@pytest.mark.parametrize("num_samples", [400, 559, 560, 16000])
@pytest.mark.parametrize("layer", [LogMel(), Mfcc(), Fbank(pitch=True)], ids=["log_mel", "mfcc", "fbank"])
def test_num_frames_agrees_with_the_features(layer, num_samples):
    assert len(alone(layer, np.ones(num_samples, np.int16))) == layer.num_frames(num_samples)


def spec_augment(seed=3, **changes):
    settings = {
        "frequency_warp": 0.0,
        "frequency_masks": 1,
        "frequency_mask_bands": 20,
        "time_masks": 1,
        "time_mask_frames": 30,
        "time_mask_share": 0.5,
    }
    return SpecAugment(AugmentConfig(**{**settings, **changes}), seed)


def masked(layer, num_clips=64, num_frames=100):
    lengths = np.full(num_clips, num_frames, np.int32)
    return layer(np.ones((num_clips, 100, 64), np.float32), lengths, training=True).numpy() == 0


def band_widths(zeros):
    """Return the width of the one run of True in each row; fail if there are two."""
    for row in zeros:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
        assert len(edges) in (0, 2), "a mask is one band"
        yield edges[1] - edges[0] if len(edges) else 0


def test_frequency_masks_have_every_width():
    zeros = masked(spec_augment(time_masks=0), num_clips=400).all(axis=1)  # (B, F)
    widths = list(band_widths(zeros))
    assert set(widths) == set(range(21))


@pytest.mark.parametrize("num_bands", [13, 40])
def test_frequency_masks_cover_at_most_half_of_the_bands(num_bands):
    features = np.ones((400, 5, num_bands), np.float32)
    layer = spec_augment(time_masks=0, frequency_mask_bands=30)
    zeros = np.asarray(layer(features, np.full(400, 5, np.int32), training=True))[:, 0] == 0
    assert set(band_widths(zeros)) == set(range(num_bands // 2 + 1))


def test_time_masks_stay_within_their_share_of_the_clip():
    zeros = masked(spec_augment(frequency_masks=0, time_mask_share=0.2), num_frames=60).all(axis=2)
    widths = list(band_widths(zeros))
    assert max(widths) == 12
    assert not zeros[:, 60:].any()


def test_features_of_the_pitch_keep_their_axis_and_lose_frames():
    config = AugmentConfig(frequency_warp=0.1, frequency_masks=2, frequency_mask_bands=20, time_masks=1)
    layer = SpecAugment(config, seed=3, num_pitch=24)
    features = np.random.default_rng(0).normal(size=(8, 100, 64)).astype(np.float32)
    changed = np.asarray(layer(features, np.full(8, 100, np.int32), training=True))
    hidden = (changed == 0).all(axis=2)  # (B, T)
    assert hidden.any()
    expected = np.where(hidden[..., None], 0, features)
    np.testing.assert_array_equal(changed[..., 40:], expected[..., 40:])
    assert (changed[..., :40] != expected[..., :40]).mean() > 0.5
    same = SpecAugment.from_config(layer.get_config())
    np.testing.assert_array_equal(
        same(features, np.full(8, 100, np.int32), training=True)[..., 40:] == 0, changed[..., 40:] == 0
    )


def test_every_clip_gets_its_own_spec_augment_masks():
    zeros = masked(spec_augment())
    assert len({row.tobytes() for row in zeros}) > 50


def test_masks_depend_on_the_seed_and_change_from_call_to_call():
    one, other = spec_augment(seed=5), spec_augment(seed=5)
    first = masked(one)
    np.testing.assert_array_equal(first, masked(other))
    assert (first != masked(one)).any()


def test_frequency_warping_shifts_a_band_in_proportion_to_its_frequency():
    features = np.zeros((200, 5, 64), np.float32)
    features[:, :, [10, 40]] = 1
    layer = spec_augment(frequency_masks=0, time_masks=0, frequency_warp=0.1)
    warped = np.asarray(layer(features, np.full(200, 5, np.int32), training=True))[:, 0]
    bands = np.arange(64)
    low = (warped[:, :25] * bands[:25]).sum(axis=1) / warped[:, :25].sum(axis=1) / 10
    high = (warped[:, 25:] * bands[25:]).sum(axis=1) / warped[:, 25:].sum(axis=1) / 40
    assert 0.88 < high.min() < 0.95
    assert 1.05 < high.max() < 1.13
    np.testing.assert_allclose(low, high, atol=0.05)


@pytest.mark.parametrize(("kind", "is_warped"), [("log_mel", True), ("mfcc", False)])
def test_cepstra_are_not_warped(kind, is_warped):
    overrides = [f"features.kind={kind}", "augment.frequency_masks=0", "augment.time_masks=0"]
    config = load_config("base", overrides=[*overrides, "augment.frequency_warp=0.1"])
    layer = make_acoustic_model(config, Vocabulary(["ma1"])).spec_augment
    features = np.random.default_rng(0).normal(size=(8, 5, 39)).astype(np.float32)
    changed = np.asarray(layer(features, np.full(8, 5, np.int32), training=True))
    assert (changed != features).any() == is_warped


def test_spec_augment_does_nothing_outside_training():
    features = np.ones((2, 50, 64), np.float32)
    assert (spec_augment(frequency_warp=0.1)(features, np.array([50, 50], np.int32)).numpy() == 1).all()


def test_feature_layers_survive_serialization(waveforms):
    layer = LogMel(num_mels=40, normalize=True)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    np.testing.assert_array_equal(alone(copy, waveforms[0]), alone(layer, waveforms[0]))
