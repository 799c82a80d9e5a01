"""Test that a CPU evaluates by the graph that the run keeps, with the results of the trained model."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

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


def test_evaluation_starts_without_tensorflow(run, manifest):
    evaluate(run, manifest)  # the run keeps the graph
    program = (
        "import sys; from asr import evaluate; "
        "print(evaluate(sys.argv[1], sys.argv[2]).evaluation.edits.errors, 'tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(run), str(manifest)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [str(evaluate(run, manifest).evaluation.edits.errors), "False"]
