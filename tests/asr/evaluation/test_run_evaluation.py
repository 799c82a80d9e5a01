"""Test that a CPU evaluates by the graph that the run keeps, with the results of the trained model."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from asr.cli.main import main
from asr.evaluation.run_evaluation import evaluate
from asr.model.devices import Devices
from data_pipeline.manifests.manifest import write_manifest


@pytest.fixture(scope="module")
def manifest(clips, tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "dev.jsonl"
    write_manifest(path, clips)
    return path


@pytest.fixture(scope="module")
def run(separable_run, tmp_path_factory):
    return shutil.copytree(separable_run, tmp_path_factory.mktemp("runs") / "run")


def test_graph_has_the_hypotheses_and_losses_of_the_trained_model(run, manifest):
    graph = evaluate(run, manifest).evaluation
    trained = evaluate(run, manifest, devices=Devices("0,")).evaluation
    assert [one.tokens for one in graph.hypotheses] == [one.tokens for one in trained.hypotheses]
    assert any(one.tokens for one in graph.hypotheses)
    np.testing.assert_allclose(graph.reference_log_probs, trained.reference_log_probs, atol=1e-2)
    assert len(set(np.round(graph.reference_log_probs))) > 1


@pytest.mark.slow
def test_commands_start_without_tensorflow(run, manifest, tmp_path):
    evaluate(run, manifest)  # the run keeps the graph
    assert main(["lm", "train", str(manifest), "--out", str(tmp_path / "lm")]) == 0
    program = (
        "import sys; from asr.cli.main import main\n"
        "for command in ('evaluate', 'tune-decoder'):\n"
        "    assert main([command, *sys.argv[1:]]) == 0\n"
        "    print(command, 'imported:', 'tensorflow' in sys.modules)"
    )
    options = [str(run), str(manifest), "--lm", str(tmp_path / "lm")]
    answer = subprocess.run(
        [sys.executable, "-c", program, *options], capture_output=True, text=True, check=True
    )
    for command in ("evaluate", "tune-decoder"):
        assert f"{command} imported: False" in answer.stdout
