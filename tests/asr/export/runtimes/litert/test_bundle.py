"""Test the folder of the format `litert`."""

import importlib.util
import json
import shutil

import numpy as np
import pytest
import soundfile
from helpers.random_run import trained_recognizer
from helpers.recognize import recognize

from asr.base.errors import UserError
from asr.cli.main import main
from asr.export import export
from asr.export.runtimes.litert import bundle
from asr.export.runtimes.litert.flatbuffer import constant, read_flatbuffer, write_flatbuffer
from asr.export.runtimes.litert.model import SIGNATURES
from asr.export.runtimes.litert.runtime import LiteRtRuntime


@pytest.fixture(scope="module")
def exported(separable_run, tmp_path_factory):
    """Return the export of a run in the format `litert`, compared on its four test clips."""
    return export(separable_run, tmp_path_factory.mktemp("litert") / "out", "litert")


def test_exported_model_has_the_logits_and_tokens_of_the_trained_one(exported):
    parity = exported.parity
    assert 0 < parity.max_logit_difference < 1e-3
    assert parity.num_same_tokens == parity.num_clips == 4
    assert parity.exported == parity.trained
    about = json.loads((exported.folder / "model.json").read_text("utf-8"))
    assert about["format"] == "litert"
    assert about["samples_of_signatures"] == SIGNATURES
    assert about["parity"]["size_bytes"] == (exported.folder / "model.tflite").stat().st_size


def test_script_prints_what_asr_transcribe_prints(exported, separable_run, clips, tmp_path):
    other = tmp_path / "other.flac"
    samples, _ = soundfile.read(clips[2].audio_path)
    soundfile.write(other, np.stack([samples, samples], axis=1), 44_100)
    paths = [clips[0].audio_path, str(other)]
    done = recognize(exported.folder, *paths, "--format", "jsonl", without=["onnxruntime"])
    assert done.returncode == 0, done.stderr.decode()
    printed = [json.loads(line) for line in done.stdout.decode().splitlines()]
    recognizer = trained_recognizer(separable_run)
    for path, record in zip(paths, printed, strict=True):
        expected = recognizer.transcribe(path)
        assert record["text"] == expected.text
        assert tuple(record["tokens"]) == expected.tokens
        assert tuple(record["times_s"]) == expected.times_s


@pytest.mark.slow
def test_model_that_differs_is_not_written_and_the_status_is_1(
    separable_run, exported, tmp_path, capsys, monkeypatch
):
    file = read_flatbuffer((exported.folder / "model.tflite").read_bytes())
    for tensor in file.subgraphs[0].tensors:
        values = constant(file, tensor)
        if tensor.name.startswith(b"network/output/") and values is not None and values.dtype == np.float32:
            file.buffers[tensor.buffer].data = np.frombuffer((values * 1.01).tobytes(), np.uint8)
    content = write_flatbuffer(file)
    monkeypatch.setattr(bundle, "litert_model", lambda *arguments, **options: content)
    out = tmp_path / "out"
    assert main(["export", str(separable_run), str(out), "--format", "litert", "--clips", "2"]) == 1
    assert "at most 0.001 is allowed" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_int8_model_is_a_third_of_the_size_and_its_cost_is_measured(separable_run, exported, tmp_path):
    small = export(separable_run, tmp_path / "out", "litert", quantize="int8")
    assert small.parity.size_bytes < exported.parity.size_bytes / 2.9
    assert small.parity.max_logit_difference > 1e-3
    assert small.parity.beyond(small.bounds) == []
    assert small.bounds.extra_errors == 0.003


@pytest.mark.slow
def test_int8_model_over_fbank_is_near_the_trained_one_for_each_length(separable_run, tmp_path):
    shutil.copytree(separable_run, tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    text = config.read_text("utf-8").replace('"log_mel"', '"fbank"').replace("num_mels = 0", "num_mels = 64")
    config.write_text(text, "utf-8")
    small = export(tmp_path / "run", tmp_path / "out", "litert", quantize="int8")
    assert 1e-3 < small.parity.max_logit_difference < 1


def test_batch_is_run_by_each_length_that_holds_it(exported, monkeypatch):
    runtime, used = LiteRtRuntime(exported.folder), []
    monkeypatch.setattr(runtime, "_outputs", lambda name, size, waveform: used.append(name))
    runtime.run([np.zeros(5 * 16000, np.int16)] * 4)
    assert used == ["fixed_8s", "fixed_16s"] * 2
    runtime.run([np.zeros(17 * 16000, np.int16)] * 2)
    runtime.run([np.zeros(16000, np.int16)])
    assert used[4:] == ["any_length"] * 3


def test_missing_package_names_the_extra(separable_run, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"ai_edge_litert: not installed.*polyphone\[litert\]"):
        export(separable_run, tmp_path / "out", "litert")
