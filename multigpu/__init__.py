"""Replicates a Keras model over several GPUs, or cuts it into stages; works without the speech packages.

from multigpu import ParallelModel, StagedModel, parse_devices, simulate_devices

Importing one of these names imports TensorFlow; importing the package does not, so command lines parse fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multigpu.devices import available_devices, parse_devices, simulate_devices
    from multigpu.errors import DeviceError
    from multigpu.keras_models.keras2 import multi_gpu_model
    from multigpu.keras_models.parallel_model import ParallelModel
    from multigpu.replication.towers import data_parallelism
    from multigpu.stages.staged_model import StagedModel

ENGINES = ("single", "parallel-model", "mirrored", "multi-worker", "stages")
"""The names that `multigpu.engines.make_engine` takes."""

__all__ = [
    "ENGINES",
    "DeviceError",
    "ParallelModel",
    "StagedModel",
    "available_devices",
    "data_parallelism",
    "multi_gpu_model",
    "parse_devices",
    "simulate_devices",
]

_MODULES = {
    "DeviceError": "errors",
    "ParallelModel": "keras_models.parallel_model",
    "StagedModel": "stages.staged_model",
    "data_parallelism": "replication.towers",
    "multi_gpu_model": "keras_models.keras2",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'multigpu' has no attribute {name!r}")
    return getattr(importlib.import_module(f"multigpu.{_MODULES.get(name, 'devices')}"), name)
