"""Select the devices to compute on, as users name them: "2", "0,2", "all".

devices = start_devices("0,2")
with tf.device(devices[0]):
    model = make_acoustic_model(config, vocabulary)
step = spread_over(devices)(step)         # each device gets its share of a batch's rows
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from asr.base.types import UserError
from multigpu import quiet
from multigpu.errors import DeviceError

ONE_DEVICE = "1"

Spread: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Turns a function of a batch into the same function over several devices."""


def on_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is."""
    return function


def start_devices(devices: str | int | None = None, *, simulate: bool = False) -> tuple[str, ...]:
    """Start TensorFlow, and return the names of the selected devices.

    Args:
        devices: a number, such as 2; ids, such as "0,2" (device 2 alone: "2,"); or "all". None for one.
        simulate: whether to split the machine's one device into this number.

    Raises:
        UserError: a device does not exist.
    """
    if simulate and devices is None:
        raise UserError("`simulate`: expected a number of devices, such as `devices=2`, received none")
    with device_errors_as_user_errors("devices"):
        return quiet.start_devices(ONE_DEVICE if devices is None else str(devices), simulate=simulate)


def spread_over(devices: Sequence[str]) -> Spread:
    """Return a decorator that runs a function of a batch on several devices, each on its share of rows."""
    from multigpu.towers import data_parallelism

    return lambda function: functools.partial(data_parallelism, devices, function)


@contextlib.contextmanager
def device_errors_as_user_errors(parameter: str) -> Iterator[None]:
    """Raise a `DeviceError` of `multigpu` as a mistake in a parameter or a setting."""
    try:
        yield
    except DeviceError as error:
        name = parameter if "." in parameter else f"`{parameter}`"  # a setting, or a parameter
        raise UserError(f"{name}: {error}") from None
