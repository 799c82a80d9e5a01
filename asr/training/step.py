"""Compute a training step on any devices: the loss, clipped gradients and the recognized tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from asr.base.config import TrainConfig
from asr.base.types import Batch, Tensor
from asr.model.acoustic_model import AcousticModel
from asr.model.listener import BATCH_SIGNATURE
from asr.model.loss import ctc_loss
from asr.recognition.decoding.greedy import BestPath, best_path
from asr.training.engine import Engine
from asr.training.optimizer import loss_scale_of


class StepResult(NamedTuple):
    """Holds what a step returns to the training loop."""

    loss: Tensor  # () mean over the utterances
    path: BestPath
    gradient_norm: Tensor  # () before clipping


Step: TypeAlias = Callable[[Batch, int], StepResult]


def make_step(engine: Engine, model: AcousticModel, optimizer: Any, config: TrainConfig) -> Step:
    """Return a compiled step of an engine: (this process's rows, number of all processes' rows) -> result."""

    def clipped(gradients: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Return gradients clipped to the maximum norm, and their norm before."""
        scale = loss_scale_of(optimizer)
        kept, norm = tf.clip_by_global_norm(gradients, config.clip_norm * scale)
        return kept, norm / scale

    compiled = engine.train_step(model, optimizer, loss_of, clipped, BATCH_SIGNATURE, config.accumulate)

    def step(batch: Batch, num_rows: int) -> StepResult:
        return StepResult(*compiled(tf.constant(num_rows), *batch))

    return step


def loss_of(
    model: AcousticModel, audio: Tensor, num_samples: Tensor, labels: Tensor, num_labels: Tensor
) -> tuple[Tensor, BestPath]:
    """Return the mean CTC loss of some rows, and the best path through each."""
    logits = model(audio, num_samples, training=True)
    return tf.reduce_mean(ctc_loss(logits, labels, num_labels)), best_path(logits)


def reference_labels(batch: Batch) -> list[list[int]]:
    """Return each row's labels, without padding."""
    labels, num_labels = np.asarray(batch.labels), np.asarray(batch.num_labels)
    return [row[:length].tolist() for row, length in zip(labels, num_labels, strict=True)]
