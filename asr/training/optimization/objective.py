"""Compute what training minimizes: the CTC loss, with the terms that a configuration adds to it.

objective = make_objective(config.train, optimizer, warmup_steps, flat_steps_of(config.train, num_steps))
loss, path = objective(model, *batch)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from asr.base.config import TrainConfig
from asr.base.types import DeepLogits, Logits, Tensor
from asr.base.vocabulary import BLANK_ID
from asr.ctc.greedy import BestPath, best_path
from asr.ctc.loss import ctc_loss
from asr.model.acoustic_model import AcousticModel

Objective: TypeAlias = Callable[..., tuple[Tensor, BestPath]]
"""(model, audio, num_samples, labels, num_labels[, weights]) -> (mean loss over the rows, best path).

Weights, of a `WeightedBatch`, multiply the losses of the rows; their sum is divided by the number of rows all
the same, so that devices and parts of a batch, which know only their own rows, add up to the whole batch.
"""


def flat_steps_of(config: TrainConfig, num_steps: int) -> int:
    """Return the number of steps of the flat start.

    Args:
        config: of the run.
        num_steps: of the whole run.
    """
    return round(config.flat_start * num_steps)


def make_objective(
    config: TrainConfig,
    optimizer: Any,
    warmup_steps: int = 0,
    flat_steps: int = 0,
    phone_ids: Sequence[Sequence[int]] = (),
) -> Objective:
    """Return the objective of a configuration.

    Args:
        config: of the run.
        optimizer: its `iterations` are the number of steps so far, on which weights of terms depend.
        warmup_steps: number of steps in which the weight of the consistency rises; 0 if it is whole at once.
        flat_steps: number of steps in which the preference for an even spread of labels falls to 0.
        phone_ids: the phones of each token, as `Vocabulary.phone_ids`, if the outputs in the middle of the
            network are phones; empty if they are tokens.
    """

    def consistency_weight() -> Tensor:
        step = tf.cast(optimizer.iterations, tf.float32)
        return config.consistency * (tf.minimum(step / warmup_steps, 1.0) if warmup_steps else 1.0)

    def prior_weight() -> Tensor | None:
        if not flat_steps:
            return None
        return tf.maximum(1.0 - tf.cast(optimizer.iterations, tf.float32) / flat_steps, 0.0)

    def mean_loss(logits: Logits, labels: Tensor, num_labels: Tensor, weights: Tensor | None) -> Tensor:
        losses = ctc_loss(logits, labels, num_labels, prior_weight())  # (B,)
        return tf.reduce_mean(losses if weights is None else losses * tf.cast(weights, losses.dtype))

    def intermediate_loss(
        logits: DeepLogits, labels: Tensor, num_labels: Tensor, weights: Tensor | None
    ) -> Tensor:
        if phone_ids:
            labels, num_labels = phone_labels(labels, num_labels, phone_ids)
        losses = [mean_loss(each, labels, num_labels, weights) for each in logits.intermediate]
        return tf.add_n(losses) / len(losses)

    def objective(
        model: AcousticModel,
        audio: Tensor,
        num_samples: Tensor,
        labels: Tensor,
        num_labels: Tensor,
        weights: Tensor | None = None,
    ) -> tuple[Tensor, BestPath]:
        logits: Logits | DeepLogits = model(audio, num_samples, training=True)
        if config.consistency:  # both views have the same labels
            labels, num_labels = tf.concat([labels] * 2, axis=0), tf.concat([num_labels] * 2, axis=0)
            weights = None if weights is None else tf.concat([weights] * 2, axis=0)
        loss = mean_loss(Logits(*logits[:2]), labels, num_labels, weights)
        if isinstance(logits, DeepLogits):
            share = config.intermediate_weight
            loss = (1 - share) * loss + share * intermediate_loss(logits, labels, num_labels, weights)
        last = Logits(*logits[:2])
        if not config.consistency:
            return loss, best_path(last)
        first, second = views_of(last)
        apart = tf.reduce_mean(consistency_loss(first, second))
        return loss + consistency_weight() * apart, best_path(first)

    return objective


def phone_labels(
    labels: Tensor, num_labels: Tensor, phone_ids: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Replace the tokens of each row by their phones.

    Args:
        labels: (B, U) int32; padding is ignored.
        num_labels: (B,) int32.
        phone_ids: of each token, P at most.

    Returns:
        (B, P U) int32, padded with blanks, and (B,) int32.
    """
    most = max(map(len, phone_ids))
    table = [[*ids, *[BLANK_ID] * (most - len(ids))] for ids in phone_ids]
    inside = tf.sequence_mask(num_labels, tf.shape(labels)[1])
    phones = tf.gather(tf.constant(table), tf.where(inside, labels, BLANK_ID))  # (B, U, P)
    phones = tf.reshape(phones, [tf.shape(labels)[0], -1])
    exists = phones != BLANK_ID
    counts = tf.cast(exists, tf.float32)  # GPUs have no sums of int32
    indices = tf.cumsum(counts, axis=1, exclusive=True)
    columns = tf.range(tf.cast(tf.shape(phones)[1], tf.float32))
    moved = exists[:, None] & (indices[:, None] == columns[:, None])  # (B, to, from)
    gathered = tf.reduce_sum(tf.where(moved, tf.cast(phones, tf.float32)[:, None], 0.0), axis=2)
    return tf.cast(gathered, tf.int32), tf.cast(tf.reduce_sum(counts, axis=1), tf.int32)


def views_of(logits: Logits) -> tuple[Logits, Logits]:
    """Return the logits of the first and of the second view of each clip, of a model with two."""
    values, num_frames = (tf.split(both, 2) for both in logits)
    return Logits(values[0], num_frames[0]), Logits(values[1], num_frames[1])


def consistency_loss(first: Logits, second: Logits) -> Tensor:
    """Return the consistency loss between two views of clips: CR-CTC (Yao et al., 2024, arXiv:2410.05101).

    That is the Kullback-Leibler divergence from the distribution over outputs of either view to that of the
    other, which is a constant there; the mean of both directions, summed over frames. Padding is left out.

    Args:
        first: logits of one view, (B, T, V).
        second: those of the other, with as many frames.

    Returns:
        (B,) of the logits' type.
    """
    difference = tf.stop_gradient(tf.nn.softmax(first.values) - tf.nn.softmax(second.values))
    # the two divergences are the sum of (p - q)(log p - log q); the logits may replace the logarithms, as
    # p - q sums to 0, and with p - q constant the gradients are (p - q) / 2 and (q - p) / 2, as they should
    of_frames = tf.reduce_sum(difference * (first.values - second.values), axis=-1) / 2  # (B, T)
    inside = tf.sequence_mask(first.num_frames, tf.shape(of_frames)[1])
    return tf.reduce_sum(tf.where(inside, of_frames, 0), axis=1)
