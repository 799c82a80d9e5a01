"""Test that an export is compared with the trained model, and is complete or not there."""

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import ROOT
from helpers.full_disk import largest_file
from helpers.processes import children_of, wait_until_ended
from helpers.random_run import trained_recognizer

from asr.base.errors import UserError
from asr.base.registry import EXPORT_FORMATS
from asr.base.types import EditCounts, Utterance
from asr.cli.main import main
from asr.export import ParityError, export
from asr.export.comparison import Clip, _Comparison
from asr.export.exporting import format_of
from asr.export.format import QUANTIZED, Bounds, Outputs
from asr.export.parity import Parity
from asr.export.runtimes.onnx import bundle


def test_exported_model_has_the_logits_and_tokens_of_the_trained_one(exported):
    parity = exported.parity
    assert parity.num_clips == 4
    assert 0 < parity.max_logit_difference < 1e-3
    assert parity.num_same_tokens == 4
    assert parity.exported == parity.trained
    assert parity.load_s > 0
    assert 10e6 < parity.peak_memory_bytes < 2e9


def test_folder_says_what_the_model_is_and_how_it_compares(exported, separable_run):
    about = json.loads((exported.folder / "model.json").read_text("utf-8"))
    assert about["run"] == separable_run.name
    assert about["frame_s"] == 0.08
    assert about["blank_id"] == 0
    assert about["parity"]["largest_logit_difference"] == exported.parity.max_logit_difference
    assert about["parity"]["size_bytes"] == (exported.folder / "model.onnx").stat().st_size
    tokens = (exported.folder / "tokens.txt").read_text("utf-8").splitlines()
    assert tokens[0] == "<blank> 0"
    assert len(tokens) == about["num_tokens"]


def test_model_that_differs_is_not_written_and_the_status_is_1(separable_run, tmp_path, capsys, monkeypatch):
    written = bundle.onnx_model

    def with_another_bias(*arguments):
        model = written(*arguments)
        (bias,) = (one for one in model.graph.initializer if one.name == "network/output/bias")
        bias.raw_data = (np.frombuffer(bias.raw_data, np.float32) + np.float32(0.01)).tobytes()
        return model

    monkeypatch.setattr(bundle, "onnx_model", with_another_bias)
    assert main(["export", str(separable_run), str(tmp_path / "out"), "--clips", "2"]) == 1
    printed = capsys.readouterr().out
    assert "logits differ by up to 0.01" in printed
    assert "2 of 2" in printed
    assert not list(tmp_path.iterdir())


def damaged_run(run, folder, *names):
    """Return a copy of a run without some of its files."""
    copy = folder / "run"
    shutil.copytree(run, copy)
    for name in names:
        for path in copy.glob(name):
            path.unlink()
    return copy


def test_mistakes_are_found_before_anything_is_written(separable_run, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(UserError, match="no checkpoint yet"):
        export(damaged_run(separable_run, tmp_path, "checkpoints/*"), out)
    with pytest.raises(UserError, match="no run here"):
        export(tmp_path / "none", out)
    with pytest.raises(UserError, match=r"`format`: expected one of onnx.*received 'tape'"):
        export(separable_run, out, "tape")
    with pytest.raises(UserError, match="`quantize`: expected int8"):
        export(separable_run, out, quantize="int3")
    with pytest.raises(UserError, match="`clips`: expected 1 or more"):
        export(separable_run, out, clips=0)
    with pytest.raises(UserError, match=r"none\.jsonl"):
        export(separable_run, out, manifest=tmp_path / "none.jsonl")
    config = tmp_path / "run/config.toml"
    config.write_text(config.read_text("utf-8").replace("dev.jsonl", "gone.jsonl"), "utf-8")
    (tmp_path / "run/checkpoints/epoch-0001.npz").touch()
    with pytest.raises(UserError, match=r"gone\.jsonl, is not there.*`manifest`"):
        export(tmp_path / "run", out)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"not installed.*polyphone\[litert\]"):
        export(separable_run, out, "litert")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_existing_folder_is_left_alone(separable_run, tmp_path, capsys):
    assert main(["export", str(separable_run), str(tmp_path)]) == 2
    assert "already exists; remove it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "saved_model" else ()) for name in EXPORT_FORMATS],
)
def test_full_disk_is_reported_and_leaves_nothing(separable_run, tmp_path, name):
    error = pytest.raises(UserError, match=r"cannot write this (.*model|checkpoint) \(.*; free space there")
    with largest_file(50_000), error:
        export(separable_run, tmp_path / f"out{format_of(name).suffix}", name, clips=1)
    assert not list(tmp_path.iterdir())


def test_errors_alone_or_in_batches_count_whichever_are_more(separable_run):
    recognizer = trained_recognizer(separable_run)
    vocabulary = recognizer.vocabulary
    comparison = _Comparison(vocabulary, recognizer.model, QUANTIZED)
    one_hot = np.eye(len(vocabulary), dtype=np.float32)
    said, other = vocabulary.tokens[1:4], vocabulary.tokens[4:7]
    clip = Clip(Utterance("a", "a.wav", 1.0, "", said), np.zeros(16000, np.int16), one_hot[[1, 2, 3]])
    comparison.add(clip, [Outputs(None, said), Outputs(None, other)], None)
    assert (comparison.exported.errors, comparison.changed.errors) == (3, 3)
    assert comparison.trained.errors == 0
    for _ in range(2):
        comparison.add(clip, [Outputs(None, other), Outputs(None, said)], None)
    assert (comparison.exported.errors, comparison.changed.errors) == (6, 6)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_export_leaves_nothing_that_looks_finished_and_may_be_repeated(
    separable_run, tmp_path, number
):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "asr", "export", str(separable_run), str(out)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        while not (runtimes := children_of(process.pid)):  # everything is written, and compared now
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.send_signal(number)
        status = process.wait()
    wait_until_ended(runtimes)
    assert not out.exists()
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    if number == signal.SIGTERM:
        assert status == 128 + signal.SIGTERM
        assert not list(tmp_path.iterdir())
    assert export(separable_run, out, clips=1).folder == out


def parity(**changes):
    values = {
        "manifest": "test.jsonl",
        "num_clips": 10,
        "audio_s": 20.0,
        "token": "syllable",
        "max_logit_difference": 1e-4,
        "allowed_logit_difference": 1e-3,
        "num_same_tokens": 10,
        "changed": EditCounts(0, 0, 0, 10_000),
        "trained": EditCounts(10, 0, 0, 10_000),
        "exported": EditCounts(10, 0, 0, 10_000),
        "size_bytes": 1,
        "load_s": 1.0,
        "run_s": 1.0,
        "peak_memory_bytes": 1,
    }
    return Parity(**values | changes)


def test_each_bound_is_checked():
    strict = Bounds(same_tokens=True, changed_tokens=0.001, extra_errors=0.003, extra_written_errors=0.01)
    assert parity().beyond(strict) == []
    for changes, part in (
        ({"max_logit_difference": 0.0011}, "logits differ"),
        ({"max_logit_difference": float("nan")}, "logits differ"),
        ({"num_same_tokens": 9}, "tokens of 1 clip differ"),
        ({"changed": EditCounts(4, 3, 4, 10_000)}, "0.11% of the tokens differ"),
        ({"max_time_difference_s": 0.24}, "a token begins 0.24 s earlier or later"),
        ({"exported": EditCounts(41, 0, 0, 10_000)}, "the syllable error rate is 0.41%"),
        ({"streamed": (EditCounts(41, 0, 0, 10_000), 9)}, "error rate of streams is 0.41%"),
        ({"written": (EditCounts(5, 0, 0, 999), EditCounts(15, 0, 0, 999))}, "character error rate is 1.50%"),
    ):
        (sentence,) = parity(**changes).beyond(strict)
        assert part in sentence
    allowed = {"exported": EditCounts(40, 0, 0, 10_000), "changed": EditCounts(10, 0, 0, 10_000)}
    assert parity(**allowed).beyond(strict) == []
    assert parity(max_time_difference_s=0.2, changed=EditCounts(9, 9, 9, 30)).beyond(Bounds()) == []
    few = {"trained": EditCounts(0, 0, 0, 20), "exported": EditCounts(3, 0, 0, 20)}
    assert parity(**few).beyond(strict) == []


def test_parity_error_keeps_what_was_measured(tmp_path):
    error = ParityError(tmp_path / "out", parity(max_logit_difference=0.5), Bounds())
    assert error.parity.max_logit_difference == 0.5
    assert "logits differ by up to 0.5" in str(error)


@pytest.mark.slow
def test_int8_model_is_a_third_of_the_size_and_its_cost_is_measured(separable_run, exported, tmp_path):
    small = export(separable_run, tmp_path / "out", quantize="int8")
    assert small.parity.size_bytes < exported.parity.size_bytes / 3
    assert 1e-4 < small.parity.max_logit_difference < 1
    assert small.parity.beyond(small.bounds) == []
    about = json.loads((tmp_path / "out/model.json").read_text("utf-8"))
    assert about["quantize"] == "int8"
