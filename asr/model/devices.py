"""Select the devices to compute on, as users name them: "2", "0,2", "all".

devices = start_model_devices(Devices("0,2"))
with devices.scope():
    model = make_acoustic_model(config, vocabulary)
placed = devices.place(model)             # is called in place of the model
step = devices.spread(step)               # each device gets its share of a batch's rows
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from asr.base.errors import UserError
from multigpu import start
from multigpu.errors import DeviceError

if TYPE_CHECKING:
    from multigpu.engine import Engine

HOST = "/CPU:0"
STAGES = "stages"
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/usr/lib/wsl/lib/libcuda.so.1")  # of NVIDIA, AMD, and WSL2


@dataclass(frozen=True)
class Devices:
    """Devices as a user names them, and how they share the work.

    Attributes:
        names: how many, such as 2; which, such as "0,2" (only device 2: "2,"); or "all". None for one.
        simulate: whether to split the machine's single device into that many.
        engine: one of `multigpu.ENGINES`; empty for the default for that many devices.
        stages: number of parts into which the model is cut for the engine "stages", which it implies; 0 for
            one a device. With several times as many devices, each row of them gets its share of a batch.
    """

    names: str | int | None = None
    simulate: bool = False
    engine: str = ""
    stages: int = 0

    def staged(self) -> Devices:
        """Return the devices with the engine and the number that `stages` implies where they are not given.

        Raises:
            UserError: there cannot be that number of stages, or another engine is given.
        """
        if not self.stages:
            return self
        if self.engine not in ("", STAGES):
            raise UserError(
                f"`stages={self.stages}`: `engine={self.engine}` keeps the whole model on each device; leave "
                f"one of the two out, or use `engine={STAGES}`"
            )
        if self.stages < 2:
            raise UserError(
                f"`stages={self.stages}`: expected at least 2; leave it out for a model on one device"
            )
        names = self.stages if self.names is None else self.names
        return dataclasses.replace(self, engine=STAGES, names=names)


ONE_DEVICE = Devices()

Spread: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Turns a function of a batch into the same function over several devices."""


Place: TypeAlias = Callable[[Any], Any]
"""Moves a model's weights to their devices, and returns what to call in its place."""


def on_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as it is."""
    return function


def start_devices(devices: Devices = ONE_DEVICE, cpu_towers: int = 1) -> tuple[str, ...]:
    """Start TensorFlow, and return the names of the selected devices.

    Args:
        devices: to select.
        cpu_towers: number of towers that share the CPU if no devices are selected and there is no GPU.

    Raises:
        UserError: a device does not exist.
    """
    if devices.simulate and devices.names is None:
        raise UserError("`simulate`: expected a number of devices, such as `devices=2`, received none")
    with device_errors_as_user_errors("devices"):
        if devices.names is None:
            return start.start_devices("1", simulate=devices.simulate, cpu_towers=cpu_towers)
        return start.start_devices(str(devices.names), simulate=devices.simulate)


def spread_over(devices: Sequence[str]) -> Spread:
    """Return a decorator that runs a function of a batch on several devices, each on its share of rows."""
    from multigpu.replication.towers import data_parallelism

    return lambda function: functools.partial(data_parallelism, devices, function)


@dataclass(frozen=True)
class ModelDevices:
    """Devices that have been started, and how a model runs on them.

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
    def of_engine(cls, engine: Engine, stages: Sequence[Sequence[str]] | None = None) -> ModelDevices:
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


def start_model_devices(devices: Devices = ONE_DEVICE) -> ModelDevices:
    """Start TensorFlow, and return the devices on which a model is to run without being trained.

    Args:
        devices: to select; the engine is "stages" for layers on several devices, or empty for the whole model
            on each.

    Raises:
        UserError: a device does not exist, or they cannot be divided into that many stages.
    """
    chosen = devices.staged()
    names = start_devices(chosen)
    if chosen.engine == STAGES:
        from multigpu.engines import make_engine

        with device_errors_as_user_errors(STAGES):
            return ModelDevices.of_engine(make_engine(STAGES, names, chosen.stages))
    if chosen.engine:
        raise UserError(
            f"`engine={chosen.engine}`: expected `engine={STAGES}` or none, since nothing is trained"
        )
    return (
        ModelDevices(names, names[0], spread_over(names)) if chosen.names is not None else ModelDevices(names)
    )


def runs_on_the_cpu() -> bool:
    """Return whether TensorFlow would choose the CPU; it is started only where there may be a GPU."""
    may_have_gpu = any(Path(path).exists() for path in GPU_FILES)
    if not may_have_gpu or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return True
    return not any("GPU" in name for name in start_devices())


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
