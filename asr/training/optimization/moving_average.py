"""Keep an exponential moving average of weights (Polyak & Juditsky, 1992), to evaluate and decode with."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from asr.base.types import Tensor


class MovingAverage:
    """Averages of weights and batch statistics over the steps of training, each on the device of the weight.

    At first the decay is lower, (1 + steps) / (10 + steps), so that the random initial weights are soon
    forgotten.

    Args:
        model: with its weights created.
        decay: share of the average that a step keeps.
    """

    def __init__(self, model: Any, decay: float) -> None:
        self.decay = decay
        self._weights = model.weights
        self.variables = []
        for weight in self._weights:
            with tf.device(weight.value.device):
                self.variables.append(tf.Variable(np.asarray(weight).copy()))

    def update(self, step: int) -> None:
        """Update the average with the weights after a step.

        Args:
            step: number of steps so far, including this one.
        """
        self._update(tf.constant(step, tf.float32))

    @contextlib.contextmanager
    def in_model(self) -> Iterator[None]:
        """Put the average into the model for the duration of the context."""
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
        @tf.function(input_signature=[tf.TensorSpec((), tf.float32)], autograph=False)
        def update(step: Tensor) -> None:
            share = 1 - tf.minimum(self.decay, (1 + step) / (10 + step))
            for average, weight in zip(self.variables, self._weights, strict=True):
                with tf.device(average.device):
                    average.assign_sub(share * (average - tf.convert_to_tensor(weight.value)))

        return update
