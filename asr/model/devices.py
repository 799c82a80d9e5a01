"""Select the devices to compute on, as users name them: "2", "0,2", "all".

devices = start_model_devices("0,2")
with devices.scope():
    model = make_acoustic_model(config, vocabulary)
placed = devices.place(model)             # is called in place of the model
step = devices.spread(step)               # each device gets its share of a batch's rows
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from asr.base.errors import UserError
from multigpu import quiet
from multigpu.errors import DeviceError

ONE_DEVICE = "1"
HOST = "/CPU:0"
STAGES = "stages"

Spread: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Turns a function of a batch into the same function over several devices."""


Place: TypeAlias = Callable[[Any], Any]
"""Moves a model's weights to their devices, and returns what to call in its place."""


def on_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is."""
    return function


def start_devices(
    devices: str | int | None = None, *, simulate: bool = False, cpu_towers: int = 1
) -> tuple[str, ...]:
    """Start TensorFlow, and return the names of the selected devices.

    Args:
        devices: a number, such as 2; ids, such as "0,2" (device 2 alone: "2,"); or "all". None for one.
        simulate: whether to split the machine's one device into this number.
        cpu_towers: number of towers that share the CPU if no devices are selected and there is no GPU.

    Raises:
        UserError: a device does not exist.
    """
    if simulate and devices is None:
        raise UserError("`simulate`: expected a number of devices, such as `devices=2`, received none")
    with device_errors_as_user_errors("devices"):
        if devices is None:
            return quiet.start_devices(ONE_DEVICE, simulate=simulate, cpu_towers=cpu_towers)
        return quiet.start_devices(str(devices), simulate=simulate)


def spread_over(devices: Sequence[str]) -> Spread:
    """Return a decorator that runs a function of a batch on several devices, each on its share of rows."""
    from multigpu.towers import data_parallelism

    return lambda function: functools.partial(data_parallelism, devices, function)


class ModelEngine(Protocol):
    """Defines what running a model needs of an engine of `multigpu.engines`."""

    @property
    def name(self) -> str:
        """Return the engine's name."""

    @property
    def devices(self) -> Sequence[str]:
        """Return the names of this process's devices."""

    def place(self, model: Any, sample: Any = None, stages: Sequence[Sequence[str]] | None = None) -> Any:
        """Move a model's weights to their devices, and return what to call in its place."""

    def spread(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a batch that runs on all devices."""


@dataclass(frozen=True)
class ModelDevices:
    """Says on which devices a model runs, and how they share the work.

    Attributes:
        names: of the devices.
        made_on: name of the device on which weights are made; empty for TensorFlow's default.
        spread: turns a function of a batch into one that uses all devices.
        place: moves the weights of a model that has been made, and returns what to call in its place.
    """

    names: tuple[str, ...]
    made_on: str = ""
    spread: Spread = on_one_device
    place: Place = lambda model: model

    @classmethod
    def of_engine(cls, engine: ModelEngine, stages: Sequence[Sequence[str]] | None = None) -> ModelDevices:
        """Return the devices of an engine; those of stages together may have more memory than one.

        Args:
            engine: the engine.
            stages: names of the layers of each stage; None to measure the layers.
        """

        def place(model: Any) -> Any:
            with device_errors_as_user_errors(STAGES):
                return engine.place(model, None if stages else model.sample(), stages)

        made_on = HOST if engine.name == STAGES else engine.devices[0]
        return cls(tuple(engine.devices), made_on, engine.spread, place)

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model must be made."""
        import tensorflow as tf

        return tf.device(self.made_on) if self.made_on else contextlib.nullcontext()


def start_model_devices(
    devices: str | int | None = None, *, simulate: bool = False, engine: str = "", stages: int = 0
) -> ModelDevices:
    """Start TensorFlow, and return the devices on which a model is to run without being trained.

    Args:
        devices: see `start_devices`.
        simulate: see `start_devices`.
        engine: "stages" for layers on several devices; empty for the whole model on each.
        stages: number of stages; 0 for one a device.

    Raises:
        UserError: a device does not exist, or they cannot be divided into that many stages.
    """
    engine, devices = engine_of_stages(engine, devices, stages)
    names = start_devices(devices, simulate=simulate)
    if engine == STAGES:
        from multigpu.engines import make_engine

        with device_errors_as_user_errors(STAGES):
            return ModelDevices.of_engine(make_engine(engine, names, stages))
    if engine:
        raise UserError(f"`engine={engine}`: expected `engine={STAGES}` or none, since nothing is trained")
    return ModelDevices(names, names[0], spread_over(names)) if devices is not None else ModelDevices(names)


def engine_of_stages(engine: str, devices: str | int | None, stages: int) -> tuple[str, str | int | None]:
    """Return the engine and the devices that a number of stages implies where they are not given.

    Args:
        engine: name of an engine; empty for the default.
        devices: see `start_devices`.
        stages: number of stages; 0 if none is given.

    Raises:
        UserError: there cannot be that number of stages, or another engine is given.
    """
    if not stages:
        return engine, devices
    if engine not in ("", STAGES):
        raise UserError(
            f"`stages={stages}`: `engine={engine}` keeps the whole model on each device; leave one of the "
            f"two out, or use `engine={STAGES}`"
        )
    if stages < 2:
        raise UserError(f"`stages={stages}`: expected at least 2; leave it out for a model on one device")
    return STAGES, stages if devices is None else devices


@contextlib.contextmanager
def device_errors_as_user_errors(parameter: str) -> Iterator[None]:
    """Raise a `DeviceError` of `multigpu` as a mistake in a parameter or a setting.

    Args:
        parameter: its name, which the message then begins with, unless it begins with another parameter.
    """
    try:
        yield
    except DeviceError as error:
        if str(error).startswith("`"):
            raise UserError(str(error)) from None
        name = parameter if "." in parameter else f"`{parameter}`"  # a setting, or a parameter
        raise UserError(f"{name}: {error}") from None
