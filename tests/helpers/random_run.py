"""Make a run without training: its weights are random, and its outputs clear."""

from pathlib import Path

import numpy as np

from asr.base.config import Config
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import write_weights
from asr.runs.progress import Progress
from asr.runs.run import Run


def random_run(config: Config, vocabulary: Vocabulary, directory: Path) -> Path:
    """Create a run of one epoch, and return its directory."""
    run = Run.create(directory, config, vocabulary)
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
