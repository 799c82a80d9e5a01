"""An exponential moving average of weights (Polyak & Juditsky, 1992), to evaluate and decode with."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from asr.base.types import Tensor


class MovingAverage:
    """The average of weights and batch statistics over the steps of training.

    Early on it forgets faster, by a decay of (1 + steps) / (10 + steps), so that the first weights, which
    are random, do not linger.

    Args:
        model: with its weights made.
        decay: share of the average that a step leaves as it was.
        device: name of the one to keep it on.
    """

    def __init__(self, model: Any, decay: float, device: str) -> None:
        self.decay, self.device = decay, device
        self._weights = model.weights
        with tf.device(device):
            self.variables = [tf.Variable(np.asarray(weight).copy()) for weight in self._weights]

    def update(self, step: int) -> None:
        """Take the weights after a step in.

        Args:
            step: how many there have been, this one included.
        """
        self._update(tf.constant(step, tf.float32))

    @contextlib.contextmanager
    def in_model(self) -> Iterator[None]:
        """Within, the model's weights are the average."""
        own = [np.asarray(weight).copy() for weight in self._weights]
        try:
            for weight, average in zip(self._weights, self.variables, strict=True):
                weight.assign(average)
            yield
        finally:
            for weight, value in zip(self._weights, own, strict=True):
                weight.assign(value)

    @functools.cached_property
    def _update(self) -> Any:
        @tf.function(input_signature=[tf.TensorSpec((), tf.float32)])
        def update(step: Tensor) -> None:
            with tf.device(self.device):
                share = 1 - tf.minimum(self.decay, (1 + step) / (10 + step))
                for average, weight in zip(self.variables, self._weights, strict=True):
                    average.assign_sub(share * (average - tf.convert_to_tensor(weight.value)))

        return update
