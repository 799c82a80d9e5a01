"""Compares our CTC loss and its gradient with TensorFlow's: their time, and their error in float32.

    python -m benchmarks.peers.ctc

The peer is `tf.nn.ctc_loss` on sparse labels, the fastest of TensorFlow's ways. Both run in a graph, as in a
training step; calling them from Python instead costs each about 0.15 ms more. Errors are measured against our
loss in float64, which tests compare with the sum over all alignments.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

from asr.base.types import Logits, Tensor
from asr.ctc.loss import ctc_loss
from benchmarks.common import compare, show

SHAPES = [(16, 200, 1428, 20), (12, 35, 322, 8), (80, 100, 1706, 20)]  # of rows, frames, outputs and labels
LONG_SHAPE = (3, 3000, 50, 40)
CALLS, RUNS = 10, 21


def main() -> None:
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        batch = make_batch(rng, shape)
        ours, peer = with_gradient(ctc_loss), with_gradient(sparse_ctc)
        started = time.perf_counter()
        ours(*batch)
        first_s = time.perf_counter() - started
        ours_s, peer_s, ratio = compare(in_a_graph(ours, batch), in_a_graph(peer, batch), RUNS)
        *_, ratio_of_calls = compare(repeated(ours, batch), repeated(peer, batch), RUNS)
        show(
            "CTC loss and gradient, {} rows, {} frames, {} outputs, {} labels".format(*shape),
            {
                "ours": f"{ours_s / CALLS * 1e3:6.2f} ms",
                "tf.nn.ctc_loss": f"{peer_s / CALLS * 1e3:6.2f} ms",
                "ratio": f"{ratio:.2f}",
                "ratio when called from Python": f"{ratio_of_calls:.2f}",
                "our first call, with tracing and compiling": f"{first_s:.1f} s",
                **errors(batch),
            },
        )
    show(
        "CTC over {} rows, {} frames, {} outputs, {} labels".format(*LONG_SHAPE),
        errors(make_batch(rng, LONG_SHAPE)),
    )


def make_batch(rng: np.random.Generator, shape: tuple[int, int, int, int]) -> tuple[Tensor, ...]:
    """Return random logits, numbers of frames, labels and numbers of labels."""
    num_rows, num_frames, num_outputs, num_labels = shape
    return (
        tf.constant(rng.normal(size=shape[:3]).astype(np.float32)),
        tf.constant(rng.integers(num_frames * 3 // 4, num_frames + 1, num_rows), tf.int32),
        tf.constant(rng.integers(1, num_outputs, (num_rows, num_labels)), tf.int32),
        tf.constant(rng.integers(num_labels // 2, num_labels + 1, num_rows), tf.int32),
    )


def with_gradient(
    loss_of: Callable[[Logits, Tensor, Tensor], Tensor],
) -> Callable[..., Any]:
    @tf.function(autograph=False)
    def losses_and_gradient(
        values: Tensor, num_frames: Tensor, labels: Tensor, num_labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(values)
            losses = loss_of(Logits(values, num_frames), labels, num_labels)
        return losses, tape.gradient(losses, values)

    return losses_and_gradient


def in_a_graph(function: Callable[..., Any], batch: tuple[Tensor, ...]) -> Callable[[], None]:
    """Return what calls a function CALLS times, one after the other, in one graph, as training does."""

    @tf.function(autograph=False)
    def run(values: Tensor, *others: Tensor) -> Tensor:
        def call(index: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            with tf.control_dependencies([index]):  # else computed once, before the loop
                values_now = tf.identity(values)
            return index + 1, function(values_now, *others)[1]

        start = (0, tf.zeros_like(values))
        return tf.while_loop(lambda index, _: index < CALLS, call, start, parallel_iterations=1)[1]

    return lambda: run(*batch)


def repeated(function: Callable[..., object], batch: tuple[Tensor, ...]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            function(*batch)

    return run


def errors(batch: tuple[Tensor, ...]) -> dict[str, str]:
    """Return rows of the table: largest errors of losses, relative, and of gradients, both in float32."""
    exact_losses, exact_gradient = with_gradient(ctc_loss)(tf.cast(batch[0], tf.float64), *batch[1:])
    rows = {}
    for name, loss_of in (("our", ctc_loss), ("tf.nn.ctc_loss's", sparse_ctc)):
        losses, gradient = with_gradient(loss_of)(*batch)
        loss_error = np.max(np.abs(losses / tf.cast(exact_losses, tf.float32) - 1))
        gradient_error = np.max(np.abs(gradient - tf.cast(exact_gradient, tf.float32)))
        rows[f"{name} error of the loss, of the gradient"] = f"{loss_error:.1e}, {gradient_error:.1e}"
    return rows


def sparse_ctc(logits: Logits, labels: Tensor, num_labels: Tensor) -> Tensor:
    """Compute the same loss by TensorFlow's implementation for sparse labels."""
    kept = tf.sequence_mask(num_labels, tf.shape(labels)[1])
    return tf.nn.ctc_loss(
        labels=tf.SparseTensor(tf.where(kept), labels[kept], tf.shape(labels, tf.int64)),
        logits=logits.values,
        label_length=None,
        logit_length=logits.num_frames,
        logits_time_major=False,
        blank_index=0,
    )


if __name__ == "__main__":
    main()
