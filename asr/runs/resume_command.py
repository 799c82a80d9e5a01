"""Build the shell command that resumes a run, as a person types it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def asr_command() -> str:
    """Return how the user calls `asr`: by name if the shell finds ours, else through this Python."""
    ours = Path(sys.executable).with_name("asr")
    found = shutil.which("asr")
    return "asr" if found and Path(found) == ours else f"{shlex.quote(sys.executable)} -m asr"


def resume_command(
    directory: Path,
    devices: str | int | None = None,
    *,
    simulate: bool = False,
    engine: str = "",
    stages: int = 0,
) -> str:
    """Return the command that resumes a run on the same devices.

    Args:
        directory: directory of the run, relative to where the command is typed.
        devices: see `asr.training.train.train`, as for the other arguments.
        simulate: whether to split the machine's one device.
        engine: how devices share the work.
        stages: number of parts into which the model is cut; 0 if none was given.
    """
    options = ["--gpus", str(devices)] if devices is not None else []
    options += ["--engine", engine] if engine else []
    options += ["--stages", str(stages)] if stages else []
    options += ["--simulate"] if simulate else []
    return shlex.join([*shlex.split(asr_command()), "train", str(directory), "--resume", *options])
