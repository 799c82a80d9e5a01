"""Test that a CPU recognizes by a graph that the run keeps, with the results of the trained model."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
from helpers.clips import clip_segments
from helpers.random_run import trained_recognizer

import asr.model.onnx.model
from asr.audio.recording import read_audio
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.model.devices import Devices
from asr.model.onnx_runner import OnnxRunner
from asr.model.tensorflow_runner import TensorFlowRunner
from asr.runs.checkpoint import read_checkpoint, write_weights
from asr.runs.progress import Progress
from asr.runs.run import Run
from asr.transcription.recognizer import Recognizer


@pytest.fixture
def run(separable_run, tmp_path):
    return shutil.copytree(separable_run, tmp_path / "run", ignore=shutil.ignore_patterns("inference"))


def kept(run):
    return sorted(path.name for path in (run / "inference").iterdir())


def test_graph_gives_the_transcripts_of_the_trained_model(run, clips):
    graph, trained = Recognizer.load(run), trained_recognizer(run)
    assert isinstance(graph.runner, OnnxRunner)
    waveforms = [read_audio(clip.audio_path) for clip in clips]
    for ours, theirs in zip(clip_segments(graph, waveforms), clip_segments(trained, waveforms), strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.times_s == theirs.times_s
        assert ours.score == pytest.approx(theirs.score, abs=1e-2)
    assert any(segment.tokens for segment in clip_segments(graph, waveforms[:1]))


@pytest.mark.parametrize("beam", [1, 4])
def test_second_recognition_starts_without_tensorflow_and_greedy_without_numba(run, clips, beam):
    expected = Recognizer.load(run, settings=DecoderSettings(beam=beam)).transcribe(clips[0].audio_path).text
    program = (
        "import sys; from asr import Recognizer; from asr.base.decoder_settings import DecoderSettings; "
        f"recognizer = Recognizer.load(sys.argv[1], settings=DecoderSettings(beam={beam})); "
        "text = recognizer.transcribe(sys.argv[2]).text; "
        "print(text, 'tensorflow' in sys.modules, 'numba' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(run), clips[0].audio_path]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [*expected.split(), "False", str(beam > 1)]


def test_graph_follows_the_weights(run, clips):
    before = Recognizer.load(run).transcribe(clips[0].audio_path).tokens
    (old,) = kept(run)
    path = Run(run).chosen_checkpoint()
    weights = read_checkpoint(path).decoding_weights
    write_weights(path, {name: np.flip(values) for name, values in weights.items()}, Progress())
    assert Recognizer.load(run).transcribe(clips[0].audio_path).tokens != before
    assert len(kept(run)) == 1
    assert kept(run) != [old]


def test_damaged_graph_is_made_again(run, caplog):
    Recognizer.load(run)
    (name,) = kept(run)
    path = run / "inference" / name
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert isinstance(Recognizer.load(run).runner, OnnxRunner)
    assert str(path) in caplog.text
    assert path.stat().st_size == len(whole)


def test_graph_that_is_not_the_model_is_not_used(run, separable_run, monkeypatch, caplog):
    original = asr.model.onnx.model.onnx_model

    def wrong(model, *others):
        weight = next(weight for weight in model.weights if weight.path.endswith("output/kernel"))
        right = weight.numpy()
        weight.assign(right * 1.01)
        graph = original(model, *others)
        weight.assign(right)
        return graph

    monkeypatch.setattr(asr.model.onnx.model, "onnx_model", wrong)
    assert isinstance(Recognizer.load(run).runner, TensorFlowRunner)
    assert "logits differ" in caplog.text
    assert [name[-4:] for name in kept(run)] == [".txt"]
    monkeypatch.undo()
    caplog.clear()
    assert isinstance(Recognizer.load(run).runner, TensorFlowRunner)  # the reason is kept
    assert "logits differ" in caplog.text


def test_run_that_cannot_be_written_to_is_recognized_with(run, clips):
    (run / "inference").write_text("no folder")
    recognizer = Recognizer.load(run)
    assert isinstance(recognizer.runner, OnnxRunner)
    assert recognizer.transcribe(clips[0].audio_path).tokens


def test_chosen_devices_run_the_trained_model(run):
    assert isinstance(Recognizer.load(run, Devices("0,")).runner, TensorFlowRunner)


def test_end_of_training_makes_the_graph(trained_run):
    assert len(kept(trained_run)) == 1


def test_damaged_checkpoint_is_named(run):
    path = Run(run).chosen_checkpoint()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=path.name):
        Recognizer.load(run)
