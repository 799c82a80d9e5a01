"""Equality of the fbank features with those that speech runtimes compute."""

import os
from pathlib import Path

import kaldi_native_fbank
import numpy as np
import pytest

from asr.audio.recording import read_audio
from asr.base.config import FeatureConfig, load_config
from asr.base.errors import UserError
from asr.model.features import make_features
from asr.model.features.fbank import Fbank
from asr.model.features.log_mel import LogMel

RECORDINGS = "POLYPHONE_RECORDINGS"  # variable of the environment: a folder with recordings of people
NUM_RECORDINGS = 200
# bands that are quieter than the loudest one of their frame by more than this, 52 dB, are the FFT's rounding
SINGLE_PRECISION = 12.0


def peer(waveform, num_mels=80):
    """Return what sherpa-onnx computes, by its own library."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = num_mels
    options.mel_opts.high_freq = -400
    features = kaldi_native_fbank.OnlineFbank(options)
    features.accept_waveform(16000, (waveform / 32768).astype(np.float32))
    features.input_finished()
    return np.stack([features.get_frame(frame) for frame in range(features.num_frames_ready)])


def ours(waveform, num_mels=80):
    features, num_frames = Fbank(num_mels=num_mels)(waveform[None], np.array([len(waveform)], np.int32))
    assert features.shape == (1, num_frames[0], num_mels)
    return features.numpy()[0]


def assert_equal_features(features, expected):
    assert features.shape == expected.shape
    precise = expected > expected.max(axis=1, keepdims=True) - SINGLE_PRECISION
    np.testing.assert_allclose(features[precise], expected[precise], rtol=0, atol=1e-3)
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-2)


def test_fbank_equals_kaldi_native_fbank(clips):
    for clip in clips:
        waveform = read_audio(clip.audio_path)
        assert_equal_features(ours(waveform), peer(waveform))


def test_fbank_equals_kaldi_native_fbank_on_recordings_of_people():
    if RECORDINGS not in os.environ:
        pytest.skip(f"needs recordings of people; {RECORDINGS}=FOLDER names a folder with some")
    paths = [
        path for path in Path(os.environ[RECORDINGS]).rglob("*") if path.suffix in (".wav", ".mp3", ".ogg")
    ]
    chosen = np.random.default_rng(0).permutation(sorted(paths))[:NUM_RECORDINGS]
    assert len(chosen), "the folder has no recordings"
    for path in chosen:
        waveform = read_audio(path)
        assert_equal_features(ours(waveform), peer(waveform))


@pytest.mark.parametrize("num_samples", [400, 401, 479, 480, 559, 560, 561, 719, 720])
def test_the_shortest_clips_have_the_frames_of_kaldi(clips, num_samples):
    waveform = read_audio(clips[0].audio_path)[6000 : 6000 + num_samples]
    assert Fbank().num_frames(num_samples) == len(peer(waveform))
    assert_equal_features(ours(waveform), peer(waveform))


@pytest.mark.parametrize("num_mels", [3, 40, 110])
def test_fbank_has_any_number_of_bands_that_kaldi_has(clips, num_mels):
    waveform = read_audio(clips[0].audio_path)
    assert_equal_features(ours(waveform, num_mels), peer(waveform, num_mels))


def test_a_band_without_a_frequency_of_the_fft_is_refused():
    with pytest.raises(UserError, match=r"features\.num_mels: 125 bands are too many for fbank.*such as 80"):
        make_features(FeatureConfig(kind="fbank", num_mels=125))


def test_loud_offsets_and_silence_are_those_of_kaldi():
    random = np.random.default_rng(0)
    offset = (random.normal(0, 20, 8000) + 20000).astype(np.int16)
    assert_equal_features(ours(offset), peer(offset))
    silence = np.zeros(8000, np.int16)
    np.testing.assert_allclose(ours(silence), peer(silence), rtol=0, atol=1e-5)


def test_each_kind_has_its_usual_number_of_bands_by_default():
    chosen = {
        kind: make_features(load_config("demo", [f"features.kind={kind}"]).features).num_features
        for kind in ("log_mel", "fbank")
    }
    assert chosen == {"log_mel": 64, "fbank": 80}
    assert (LogMel().num_features, Fbank().num_features) == (64, 80)
    assert make_features(FeatureConfig(kind="fbank", num_mels=40)).num_features == 40
