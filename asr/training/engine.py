"""How steps run on devices: what the loop needs of an engine, and the start of one of `multigpu.engines`."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from asr.base.types import Tensor, UserError
from asr.model.devices import device_errors_as_user_errors, start_devices
from multigpu import quiet

logger = logging.getLogger(__name__)


class Engine(Protocol):
    """Runs training steps on some devices; every method as `multigpu.engines.Engine` explains it."""

    @property
    def name(self) -> str:
        """Of the engine."""

    @property
    def devices(self) -> Sequence[str]:
        """Names of this process's devices."""

    @property
    def num_devices(self) -> int:
        """Number of devices, those of other processes included."""

    @property
    def num_workers(self) -> int:
        """Number of processes that train together."""

    @property
    def worker(self) -> int:
        """The number of this process among them, from 0."""

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes."""

    def scope(self) -> AbstractContextManager[Any]:
        """To make variables in."""

    def train_step(
        self,
        model: Any,
        optimizer: Any,
        loss_of: Callable[..., tuple[Tensor, Any]],
        prepare: Callable[[list[Tensor]], tuple[list[Tensor], Any]],
        signature: Sequence[Any],
        num_parts: int = 1,
    ) -> Callable[..., tuple[Tensor, Any, Any]]:
        """(number of rows, *batch) -> (loss, outputs, what `prepare` tells), compiled."""

    def spread(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of a batch, on all devices."""

    def own_rows(self, rows: Sequence[int]) -> list[int]:
        """Those of a batch that this process reads."""

    def refuse_parts(self, model: Any, num_parts: int) -> None:
        """Raise an error where a step cannot be made in so many parts."""

    def wait_for_all(self) -> None:
        """Return when every process has called it."""


def start_engine(devices: str | int | None = None, *, simulate: bool = False, engine: str = "") -> Engine:
    """Start TensorFlow, and return the engine that trains on some devices.

    Args:
        devices: how many, which, or "all"; see `asr.model.devices.start_devices`.
        simulate: whether to cut the machine's one device into as many.
        engine: one of `multigpu.ENGINES`; empty for the usual one for as many devices.

    Raises:
        UserError: a device does not exist, or the processes of a multi-worker run cannot meet.
    """
    if engine == "multi-worker":
        if devices is not None or simulate:
            raise UserError(
                "`engine=multi-worker`: takes all GPUs that its process sees; choose them by "
                "CUDA_VISIBLE_DEVICES instead of `devices` and `simulate`"
            )
        return _join_workers()
    names = start_devices(devices, simulate=simulate)
    from multigpu.engines import make_engine

    with device_errors_as_user_errors("engine"):
        return make_engine(engine, names)


def _join_workers() -> Engine:
    engines: list[Engine] = []

    def join() -> None:
        from multigpu.cluster import find_cluster
        from multigpu.engines import MultiWorkerEngine

        cluster = find_cluster()
        others = [address for index, address in enumerate(cluster.addresses) if index != cluster.worker]
        if others:
            logger.info("worker %d: waiting for %s", cluster.worker, ", ".join(others))
        # TensorFlow waits without end, and would not notice Ctrl-C; there is nothing to be saved yet
        handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        engines.append(MultiWorkerEngine(cluster))
        signal.signal(signal.SIGINT, handler)

    with device_errors_as_user_errors("engine"):
        quiet.import_tensorflow(prepare=join)
    return engines[0]
