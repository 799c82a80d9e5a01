"""Loads the model of a run's chosen checkpoint, into TensorFlow or as the graph by which a CPU runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.devices import HOST, start_model_devices
from asr.model.runner import ModelRunner
from asr.runs.checkpoint import DamagedCheckpointError, load_decoding_weights
from asr.runs.inference_graph import InferenceGraph
from asr.runs.run import Run

if TYPE_CHECKING:
    from asr.model.acoustic_model import AcousticModel


def cpu_runner(run: Run, vocabulary: Vocabulary) -> tuple[ModelRunner, Path]:
    """Return what runs a run's model on the CPU, and the model's checkpoint.

    The graph is made where the run has none of this checkpoint.
    """
    checkpoint = run.chosen_checkpoint()
    graph = InferenceGraph.of(run, checkpoint)
    if graph and (kept := graph.runner()):
        return kept, checkpoint
    start_model_devices()  # before the import of TensorFlow, to silence its logs
    import tensorflow as tf

    from asr.model.tensorflow_runner import TensorFlowRunner

    with tf.device(HOST):
        model, checkpoint = chosen_model(run, vocabulary)
        graph = InferenceGraph.of(run, checkpoint)
        made = graph.make(model, vocabulary) if graph else None
    return made or TensorFlowRunner(model), checkpoint


def chosen_model(run: Run, vocabulary: Vocabulary) -> tuple[AcousticModel, Path]:
    """Return the model of a run's chosen checkpoint, and the path of the checkpoint."""
    from asr.model.acoustic_model import make_acoustic_model

    model = make_acoustic_model(run.config(), vocabulary)
    path = run.chosen_checkpoint()
    try:
        load_decoding_weights(path, model)
    except DamagedCheckpointError as error:
        raise UserError(f"{error}; remove it to use another checkpoint") from None
    except UserError:
        if path.exists():
            raise
        # training has replaced it with a better one
        path = run.chosen_checkpoint()
        load_decoding_weights(path, model)
    if not all(np.isfinite(weight).all() for weight in model.get_weights()):
        raise UserError(
            f"{path}: its weights have diverged (NaN or infinite); remove it to use an earlier checkpoint, "
            "or train again with a lower train.learning_rate"
        )
    return model, path
