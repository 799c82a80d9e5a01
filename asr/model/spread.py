"""How a function of a batch gets onto several devices; `multigpu.towers.data_parallelism` does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Spread: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Turns a function of a batch into the same function over several devices."""


def on_one_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return function
