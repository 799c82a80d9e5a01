"""Warns of a graphics card that TensorFlow does not use, which costs hours where nobody notices it.

from multigpu.unused_cards import warn_of_unused_cards

warn_of_unused_cards()      # once TensorFlow has looked for its devices; logs one warning, or nothing
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import tensorflow as tf

from multigpu.devices import ask_nvidia_smi

logger = logging.getLogger(__name__)

DRIVER_CARDS = Path("/proc/driver/nvidia/gpus")  # a folder for each card that the driver knows


@functools.cache
def warn_of_unused_cards() -> None:
    """Log a warning with the remedy if the machine has a card of NVIDIA's and TensorFlow has no GPU.

    Logs nothing where CUDA_VISIBLE_DEVICES hides the cards, nor in later calls of the same process.
    """
    if tf.config.list_physical_devices("GPU") or _hidden():
        return
    names = (re.match(r"GPU \d+: ([^(]+)", line) for line in ask_nvidia_smi("--list-gpus"))
    if cards := ", ".join(name[1].strip() for name in names if name):
        _warn(f"this machine has a GPU ({cards}), but TensorFlow computes on the CPU", _remedy())
    elif DRIVER_CARDS.is_dir() and any(DRIVER_CARDS.iterdir()):
        _warn(
            "this machine has a driver for NVIDIA GPUs, but this process sees none and computes on the CPU",
            "start a container with `--gpus all`, ask the scheduler for a GPU, or see what nvidia-smi says",
        )


def _hidden() -> bool:
    """Return whether CUDA_VISIBLE_DEVICES leaves no card: CUDA ignores all from the first invalid one on."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return chosen is not None and not re.match(r"\s*(?:\d|GPU-|MIG-)", chosen)


def _warn(what: str, remedy: str) -> None:
    logger.warning("%s: %s (CUDA_VISIBLE_DEVICES=-1 chooses the CPU, without this warning)", what, remedy)


def _remedy() -> str:
    if sys.platform == "win32":
        return "on Windows it supports GPUs in WSL2 alone; install there"
    if not tf.test.is_built_with_cuda():
        return (
            "this build of it has no CUDA; on x86-64, `pip uninstall tensorflow-cpu`, then "
            '`pip install "tensorflow[and-cuda]"`'
        )
    if _missing_libraries():
        return 'its CUDA libraries are not installed; `pip install "tensorflow[and-cuda]"`'
    return (
        "its CUDA libraries are installed, but it cannot use them; update the driver, and see what it says "
        "with TF_CPP_MIN_LOG_LEVEL=0"
    )


def _missing_libraries() -> list[str]:
    """Return the packages that `tensorflow[and-cuda]` would install."""
    try:
        required = metadata.requires("tensorflow") or []
    except metadata.PackageNotFoundError:  # tf-nightly, conda
        return []
    names = [re.split(r"[^\w.-]", line)[0] for line in required if re.search("extra == .and-cuda", line)]
    installed = {distribution.name.lower() for distribution in metadata.distributions()}
    return [name for name in names if name.lower() not in installed]
