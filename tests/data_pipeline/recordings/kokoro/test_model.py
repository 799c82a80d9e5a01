import numpy as np
import pytest
from helpers.kokoro import SYMBOL_SAMPLES, write_model
from onnx import TensorProto

from asr.base.errors import UserError
from data_pipeline.recordings.kokoro.model import KokoroModel, UnusableSpeechError, as_recording

STYLE = np.full((1, 256), 0.4, np.float32)
RATE_HZ = 24000


@pytest.mark.parametrize("symbols", ["input_ids", "tokens"])
def test_models_of_both_exporters_speak(tmp_path, symbols):
    model = KokoroModel(write_model(tmp_path / "a.onnx", symbols))
    samples = model.say([50, 60, 70], STYLE, 1.0)
    assert samples.shape == (5 * SYMBOL_SAMPLES,)  # a 0 before and after the symbols
    assert not samples[:SYMBOL_SAMPLES].any()
    assert not samples[-SYMBOL_SAMPLES:].any()
    assert 0.3 < np.abs(samples).max() <= 0.4
    assert len(model.say([50, 60, 70], STYLE, 2.0)) == 5 * SYMBOL_SAMPLES / 2


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"symbols": "text"}, "received text tensor"),
        ({"speed_type": TensorProto.INT32}, "speed tensor.int32"),
        ({"style_size": 128}, "128"),
    ],
)
def test_other_inputs_raise_with_what_they_are(tmp_path, options, received):
    path = write_model(tmp_path / "a.onnx", **options)
    with pytest.raises(UserError, match=rf"a\.onnx: expected the inputs .*{received}"):
        KokoroModel(path)


def test_other_files_raise(tmp_path):
    (tmp_path / "text.onnx").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(UserError, match=r"text\.onnx: not a model that ONNX Runtime can load"):
        KokoroModel(tmp_path / "text.onnx")
    with pytest.raises(UserError, match=r"none\.onnx: no such file"):
        KokoroModel(tmp_path / "none.onnx")


def tone(seconds):
    return np.sin(np.arange(round(seconds * RATE_HZ)) * 0.05).astype(np.float32)


def test_recording_has_little_silence_and_the_usual_level():
    quiet = np.zeros(RATE_HZ, np.float32)
    waveform = as_recording(np.concatenate([quiet, tone(1.0) * 0.03, quiet]), 4)
    assert len(waveform) / 16000 == pytest.approx(1.25, abs=0.01)
    assert np.abs(waveform.astype(int)).max() == pytest.approx(16384, rel=0.02)
    assert not waveform[:1500].any()
    assert waveform[1700:17500].any()
    assert not waveform[-2300:].any()


@pytest.mark.parametrize(
    ("samples", "num_syllables", "reason"),
    [
        (np.zeros(9000, np.float32), 1, "silence"),
        (np.zeros(0, np.float32), 1, "no finite samples"),
        (np.full(9000, np.nan, np.float32), 1, "no finite samples"),
        (tone(0.5), 10, "too short or too long"),
        (tone(5.0), 2, "too short or too long"),
    ],
)
def test_what_is_no_speech_is_unusable(samples, num_syllables, reason):
    with pytest.raises(UnusableSpeechError, match=reason):
        as_recording(samples, num_syllables)
