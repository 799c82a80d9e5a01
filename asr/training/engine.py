"""What the loop needs to know of how its steps run; `multigpu.engines` has the real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from asr.base.types import Tensor


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
