"""N devices do N devices' work: a Keras model replicated over GPUs. Standalone: it knows nothing of speech.

from multigpu import ParallelModel, parse_devices, simulate_devices
"""

from multigpu.devices import DeviceError, available_devices, parse_devices, simulate_devices
from multigpu.keras2 import multi_gpu_model
from multigpu.parallel_model import ParallelModel
from multigpu.towers import data_parallelism

__all__ = [
    "DeviceError",
    "ParallelModel",
    "available_devices",
    "data_parallelism",
    "multi_gpu_model",
    "parse_devices",
    "simulate_devices",
]
