"""N devices do N devices' work: a Keras model replicated over GPUs. Standalone: it knows nothing of speech.

from multigpu import ParallelModel, parse_devices, simulate_devices

TensorFlow is imported with the first of these names, so that a command line can be read without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multigpu.devices import available_devices, parse_devices, simulate_devices
    from multigpu.errors import DeviceError
    from multigpu.keras2 import multi_gpu_model
    from multigpu.parallel_model import ParallelModel
    from multigpu.towers import data_parallelism

ENGINES = ("single", "parallel-model", "mirrored", "multi-worker")
"""The names of what `multigpu.engines.make_engine` makes."""

__all__ = [
    "ENGINES",
    "DeviceError",
    "ParallelModel",
    "available_devices",
    "data_parallelism",
    "multi_gpu_model",
    "parse_devices",
    "simulate_devices",
]

_MODULES = {
    "DeviceError": "errors",
    "ParallelModel": "parallel_model",
    "data_parallelism": "towers",
    "multi_gpu_model": "keras2",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'multigpu' has no attribute {name!r}")
    return getattr(importlib.import_module(f"multigpu.{_MODULES.get(name, 'devices')}"), name)
