"""The shell command that resumes a run, as a person types it."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def asr_command() -> str:
    """How the user types `asr`: as it is where the shell finds ours, else by way of this Python."""
    ours = Path(sys.executable).with_name("asr")
    found = shutil.which("asr")
    return "asr" if found and Path(found) == ours else f"{shlex.quote(sys.executable)} -m asr"


def resume_command(config: str, name: str, runs_dir: str = "", options: Sequence[str] = ()) -> str:
    """Return the command that resumes a run.

    Args:
        config: the configuration as the command takes it: a name, or a path.
        name: of the run.
        runs_dir: where the run is; empty where the configuration says so itself.
        options: further ones, such as those that choose devices.
    """
    command = [*shlex.split(asr_command()), "train", config, "--name", name, "--resume"]
    command += ["--set", f"train.runs_dir={runs_dir}"] * bool(runs_dir)
    return shlex.join([*command, *options])
