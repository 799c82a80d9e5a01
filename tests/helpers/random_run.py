"""Runs that were not trained: their weights are random, and their outputs clear."""

from pathlib import Path
from typing import Any

import numpy as np

from asr.base.config import Config
from asr.base.decoder_settings import DecoderSettings
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import write_weights
from asr.runs.progress import Progress
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.recognizer import Recognizer


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
        elif "/pitch/pointwise/" in path:  # 0 before training
            weights[path] = rng.normal(scale=0.1, size=values.shape).astype(np.float32)
        elif path.startswith("network/output") or "/output/" in path:
            weights[path] = values * 5
    write_weights(run.epoch_checkpoint(1), weights, Progress())
    return run.directory


def trained_recognizer(run: Path, settings: DecoderSettings | None = None, **choice: Any) -> Recognizer:
    """Load a run into TensorFlow, to compare another runtime with it."""
    return Recognizer.trained(Run.open(run), DecoderChoice(settings or DecoderSettings(), **choice))
