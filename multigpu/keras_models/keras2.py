"""Provides Keras 2's `multi_gpu_model` on top of `ParallelModel`.

from multigpu import multi_gpu_model

parallel = multi_gpu_model(model, gpus=2)
parallel.compile("adam", "mse")
parallel.fit(x, y)
model.save("model.keras")                   # the template, which shares the weights
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from multigpu.devices import available_devices, parse_devices
from multigpu.errors import DeviceError
from multigpu.keras_models.parallel_model import ParallelModel
from multigpu.replication.keras_internals import make_variable_again


def multi_gpu_model(
    model: keras.Model,
    gpus: int | Sequence[int] | None = None,
    cpu_merge: bool = True,
    cpu_relocation: bool = False,
) -> ParallelModel:
    """Return a `ParallelModel` of a template, with the arguments of Keras 2's function of this name.

    Args:
        model: the template; it shares its weights with the returned model.
        gpus: a number of devices, or a list of ids; at least two. None means all of them.
        cpu_merge: whether results are concatenated on the CPU, else on the first device.
        cpu_relocation: whether the weights are moved to the CPU first; a `tf.function` of yours that has
            used them must be created again.

    Raises:
        DeviceError: fewer than two devices, or one that does not exist.
    """
    num_devices = gpus if isinstance(gpus, int) else len(available_devices() if gpus is None else gpus)
    if num_devices < 2:
        raise DeviceError(
            f"multi_gpu_model: expected at least 2 devices, received gpus={gpus!r}"
            f"{f', and found {num_devices}' if gpus is None else ''}; use the model itself, or try "
            "multigpu.simulate_devices(2)"
        )
    devices = parse_devices("all" if gpus is None else gpus)
    if cpu_relocation:
        for variable in model.variables:
            value = variable.numpy()
            with tf.device("/CPU:0"):
                make_variable_again(variable, value)
        # they were traced with the variables on the old device
        model.train_function = model.test_function = model.predict_function = None
    return ParallelModel(model, devices, merge_on="/CPU:0" if cpu_merge else devices[0])
