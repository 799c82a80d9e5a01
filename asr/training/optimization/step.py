"""Compute a training step on any devices: the loss, clipped gradients and the recognized tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from asr.base.config import TrainConfig
from asr.base.types import Tensor, TrainingBatch
from asr.ctc.greedy import BestPath
from asr.model.acoustic_model import AcousticModel
from asr.model.tensorflow_runner import BATCH_SIGNATURE
from asr.training.optimization.objective import Objective
from asr.training.optimization.optimizer import loss_scale_of
from multigpu.engine import Engine


class StepResult(NamedTuple):
    """What a step returns to the training loop."""

    loss: Tensor  # () mean over the utterances
    path: BestPath
    gradient_norm: Tensor  # () before clipping


Step: TypeAlias = Callable[[TrainingBatch, int], StepResult]


def make_step(
    engine: Engine,
    model: AcousticModel,
    optimizer: Any,
    config: TrainConfig,
    objective: Objective,
) -> Step:
    """Return a compiled step of an engine: (this process's rows, number of all processes' rows) -> result.

    Args:
        engine: on whose devices the model is.
        model: what the engine's `place` returned.
        optimizer: built for the model.
        config: of the run; its batches are weighted unless `label_weight` is 1.
        objective: what `make_objective` returned for this configuration and optimizer.
    """

    def clipped(gradients: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Return gradients clipped to the maximum norm, and their norm before."""
        scale = loss_scale_of(optimizer)
        kept, norm = clip(gradients, config.clip_norm * scale)
        return kept, norm / scale

    signature = [*BATCH_SIGNATURE, *[tf.TensorSpec((None,), tf.float32)] * (config.label_weight != 1.0)]
    compiled = engine.train_step(model, optimizer, objective, clipped, signature, config.accumulate)

    def step(batch: TrainingBatch, num_rows: int) -> StepResult:
        return StepResult(*compiled(tf.constant(num_rows), *batch))

    return step


def clip(gradients: Sequence[Tensor | None], max_norm: Tensor) -> tuple[list[Tensor | None], Tensor]:
    """Return gradients scaled down to a maximum global norm, and their norm before.

    Args:
        gradients: of the weights; None for a frozen one. Where only some rows of a weight are used, as in
            layers that look rows up, TensorFlow's gradient has a row for each use, and these are added up.
        max_norm: ().
    """
    dense = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]
    clipped: tuple[list[Tensor | None], Tensor] = tf.clip_by_global_norm(dense, max_norm)
    return clipped


def reference_labels(batch: TrainingBatch) -> list[list[int]]:
    """Return each row's labels, without padding."""
    labels, num_labels = np.asarray(batch.labels), np.asarray(batch.num_labels)
    return [row[:length].tolist() for row, length in zip(labels, num_labels, strict=True)]
