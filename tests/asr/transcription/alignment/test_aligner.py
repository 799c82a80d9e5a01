"""Recordings of any length are aligned in windows."""

import numpy as np
import tensorflow as tf
from helpers.random_run import trained_recognizer

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.config import Config, FeatureConfig
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.model.tensorflow_runner import TensorFlowRunner
from asr.transcription.alignment import aligner
from asr.transcription.alignment.aligner import log_probs_of_tokens
from asr.transcription.recognizer import Recognizer


def test_windows_of_a_model_with_a_bounded_field_equal_the_whole_recording(monkeypatch):
    """Every frame is in its place, with windows that do not divide the recording."""
    monkeypatch.setattr(aligner, "WINDOW_S", 7.0)
    vocabulary = Vocabulary("abcdef")
    model = make_acoustic_model(Config(features=FeatureConfig(normalize=False)), vocabulary)
    rng = np.random.default_rng(1)
    waveform = (rng.normal(size=41 * SAMPLE_RATE_HZ + 777) * 1000).astype(np.int16)
    whole = model(waveform[None], np.array([len(waveform)], np.int32))
    expected = tf.nn.log_softmax(whole.values[0]).numpy()
    columns = [0, 5, 2]
    found = log_probs_of_tokens(Recognizer(TensorFlowRunner(model), vocabulary), waveform, columns)
    assert found.shape == (int(whole.num_frames[0]), 3)
    assert np.ptp(expected, axis=0).min() > 0.01
    np.testing.assert_allclose(found, expected[:, columns], atol=1e-3)


def test_a_short_recording_is_processed_in_one_window(trained_run, clips):
    recognizer = trained_recognizer(trained_run, write_hanzi=False)
    model = recognizer.model
    waveform = read_audio(clips[0].audio_path)
    whole = model(waveform[None], np.array([len(waveform)], np.int32))
    expected = tf.nn.log_softmax(whole.values[0]).numpy()
    np.testing.assert_allclose(log_probs_of_tokens(recognizer, waveform, [0, 1]), expected[:, :2], atol=1e-4)
