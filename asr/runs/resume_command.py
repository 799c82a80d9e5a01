"""Build the shell command that resumes a run, as a person types it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from asr.model.devices import ONE_DEVICE, Devices


def asr_command() -> str:
    """Return how the user calls `asr`: by name if the shell finds ours, else through this Python."""
    ours = Path(sys.executable).with_name("asr")
    found = shutil.which("asr")
    return "asr" if found and Path(found) == ours else f"{shlex.quote(sys.executable)} -m asr"


def resume_command(directory: Path, devices: Devices = ONE_DEVICE) -> str:
    """Return the command that resumes a run on the same devices.

    Args:
        directory: directory of the run, relative to where the command is typed.
        devices: on which it trains.
    """
    options = ["--gpus", str(devices.names)] if devices.names is not None else []
    options += ["--engine", devices.engine] if devices.engine else []
    options += ["--stages", str(devices.stages)] if devices.stages else []
    options += ["--simulate"] if devices.simulate else []
    return shlex.join([*shlex.split(asr_command()), "train", str(directory), "--resume", *options])
