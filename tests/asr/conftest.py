"""Define the run and the exported models that several tests share."""

import shutil

import numpy as np
import pytest

from asr.base.config import load_config
from asr.base.vocabulary import Vocabulary
from asr.export import export
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import write_weights
from asr.runs.progress import Progress
from asr.runs.run import Run


@pytest.fixture(scope="session")
def separable_run(separable_config, clips, tmp_path_factory):
    """Return a run of the separable network whose weights are random, but its outputs clear."""
    config, vocabulary = load_config(separable_config), Vocabulary.of_utterances(clips)
    run = Run.create(tmp_path_factory.mktemp("separable") / "run", config, vocabulary)
    model, rng = make_acoustic_model(config, vocabulary), np.random.default_rng(6)
    weights = {weight.path: np.asarray(weight) for weight in model.weights}
    for path, values in weights.items():
        if path.endswith(("gamma", "moving_variance")):
            weights[path] = rng.uniform(0.5, 1.5, values.shape).astype(np.float32)
        elif path.endswith(("beta", "moving_mean")):
            weights[path] = rng.normal(scale=0.3, size=values.shape).astype(np.float32)
        elif path.startswith("network/output") or "/output/" in path:
            weights[path] = values * 5
    write_weights(run.epoch_checkpoint(1), weights, Progress())
    return run.directory


@pytest.fixture(scope="session")
def exported(separable_run, tmp_path_factory):
    """Return the export of the run in the format `onnx`, compared on its four test clips."""
    return export(separable_run, tmp_path_factory.mktemp("export") / "out")


@pytest.fixture(scope="session")
def bounded_run(separable_run, tmp_path_factory):
    """Return a run whose outputs depend on a bounded stretch of sound, as it does not normalise."""
    copy = tmp_path_factory.mktemp("bounded") / "run"
    shutil.copytree(separable_run, copy)
    config = copy / "config.toml"
    text = config.read_text("utf-8")
    assert "normalize = true" in text
    config.write_text(text.replace("normalize = true", "normalize = false"), "utf-8")
    return copy
