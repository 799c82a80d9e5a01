"""Compares training steps on one device with the same steps on several."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from multigpu import ParallelModel


class Both:
    """A model on one device and an equal one on several, compiled with the same settings.

    Attributes:
        plain: the model on one device.
        parallel: the model on several devices.
    """

    def __init__(self, make: Callable[[], keras.Model], devices: Any = 3) -> None:
        keras.utils.set_random_seed(1)
        self.plain = make()
        keras.utils.set_random_seed(1)
        self.parallel = ParallelModel(make(), devices)

    def compile(self, optimizer=lambda: keras.optimizers.SGD(0.5), **settings):
        """Compile both with an optimiser each; `metrics` is a function, called once for each."""
        for model in (self.plain, self.parallel):
            model.compile(optimizer(), **{k: v() if k == "metrics" else v for k, v in settings.items()})
        return self

    def train(self, x, y=None, rel=1e-5, **kwargs):
        """Run one training step of each, and compare losses, metrics and changes of the weights."""
        if not self.plain.built:  # the parallel model must build itself, from the same seed
            self.plain(x)
        before = [m.get_weights() or self.plain.get_weights() for m in (self.plain, self.parallel.inner)]
        logs = [m.train_on_batch(x, y, return_dict=True, **kwargs) for m in (self.plain, self.parallel)]
        after = [self.plain.get_weights(), self.parallel.inner.get_weights()]
        assert logs[1] == pytest.approx(logs[0], rel=1e-5, abs=1e-6)
        trained = False
        for name, *values in zip([v.path for v in self.plain.weights], *before, *after, strict=True):
            one, several = values[2] - values[0], values[3] - values[1]
            if not np.issubdtype(one.dtype, np.floating):
                assert np.array_equal(one, several), name
                continue
            size = np.abs(one).max()
            rounding = 2.5 * np.finfo(one.dtype).eps * np.abs(values[0]).max()
            assert np.abs(several - one).max() <= rel * size + rounding, (name, one, several)
            trained = trained or size > 0
        assert trained
        return self


@pytest.fixture(scope="session")
def both() -> type[Both]:
    """Return the class `Both`."""
    return Both
