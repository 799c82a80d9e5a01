"""Define what the training loop needs of an engine, and start one of `multigpu.engines`."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from asr.base.errors import UserError
from asr.base.types import Tensor
from asr.model.devices import ModelEngine, device_errors_as_user_errors, engine_of_stages, start_devices
from multigpu import quiet

logger = logging.getLogger(__name__)


class Engine(ModelEngine, Protocol):
    """Runs training steps on devices; `multigpu.engine.Engine` documents every method."""

    @property
    def num_devices(self) -> int:
        """Return the number of devices, including those of other processes."""

    @property
    def num_stages(self) -> int:
        """Return the number of stages into which the model is cut, 1 where each device has all of it."""

    @property
    def num_workers(self) -> int:
        """Return the number of processes that train together."""

    @property
    def has_weights_on_one_device(self) -> bool:
        """Return whether the optimiser updates all weights on the first device."""

    @property
    def worker(self) -> int:
        """Return the index of this process among them, from 0."""

    @property
    def is_chief(self) -> bool:
        """Return whether this process is the one that writes files."""

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which variables must be made."""

    def train_step(
        self,
        model: Any,
        optimizer: Any,
        loss_of: Callable[..., tuple[Tensor, Any]],
        prepare: Callable[[list[Tensor]], tuple[list[Tensor], Any]],
        signature: Sequence[Any],
        num_parts: int = 1,
    ) -> Callable[..., tuple[Tensor, Any, Any]]:
        """Return a compiled step: (number of rows, *batch) -> (loss, outputs, second result of `prepare`)."""

    def own_rows(self, rows: Sequence[int]) -> list[int]:
        """Return the rows of a batch that this process reads."""

    def check_num_parts(self, model: Any, num_parts: int) -> None:
        """Raise an error if a step cannot be split into that many parts."""

    def wait_for_all(self) -> None:
        """Wait until every process has called this method."""


class DeviceChoice(NamedTuple):
    """Says on which devices to train, and how they share the work.

    Attributes:
        devices: how many, which, or "all"; see `asr.model.devices.start_devices`.
        simulate: whether to split the machine's single device into that many.
        engine: one of `multigpu.ENGINES`; empty for the default for that many devices.
        stages: number of stages of the engine "stages", which it implies; 0 for one a device.
    """

    devices: str | int | None = None
    simulate: bool = False
    engine: str = ""
    stages: int = 0


def start_engine(choice: DeviceChoice, cpu_towers: int = 1) -> Engine:
    """Start TensorFlow, and return the engine that trains on the chosen devices.

    Args:
        choice: the devices, and how they share the work.
        cpu_towers: number of towers that share the CPU where there is no GPU, and neither devices nor an
            engine is chosen.

    Raises:
        UserError: a device does not exist, they cannot be divided into that many stages, or the processes of
            a multi-worker run cannot connect.
    """
    engine, devices = engine_of_stages(choice.engine, choice.devices, choice.stages)
    if engine == "multi-worker":
        if devices is not None or choice.simulate:
            raise UserError(
                "`engine=multi-worker`: uses all GPUs that its process sees; choose them with "
                "CUDA_VISIBLE_DEVICES instead of `devices` and `simulate`"
            )
        return _join_workers()
    names = start_devices(devices, simulate=choice.simulate, cpu_towers=1 if engine else cpu_towers)
    from multigpu.engines import make_engine

    with device_errors_as_user_errors("stages" if choice.stages else "engine"):
        return make_engine(engine, names, choice.stages)


def _join_workers() -> Engine:
    engines: list[Engine] = []

    def join() -> None:
        from multigpu.cluster import find_cluster
        from multigpu.engines import MultiWorkerEngine

        cluster = find_cluster()
        others = [address for index, address in enumerate(cluster.addresses) if index != cluster.worker]
        if others:
            logger.info("worker %d: waiting for %s", cluster.worker, ", ".join(others))
        # TensorFlow waits forever and would ignore Ctrl-C; there is nothing to save yet
        handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        engines.append(MultiWorkerEngine(cluster))
        signal.signal(signal.SIGINT, handler)

    with device_errors_as_user_errors("engine"):
        quiet.import_tensorflow(prepare=join)
    return engines[0]
