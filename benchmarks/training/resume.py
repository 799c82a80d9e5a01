"""Measures the time from `python train.py --resume` to its first step.

    python -m benchmarks.training.resume

It uses the demo. The peer of a resumed run is a new one. A run is stopped by SIGTERM in the middle of its
first epoch and resumed from there.
"""

from __future__ import annotations

import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import show

ROOT = Path(__file__).resolve().parents[2]
RUNS = 3
STEP = re.compile(rb"loss \d")  # shown by the progress bar from the first step on


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder), "first", resume=False)  # prepares the corpus
        names = [f"run{number}" for number in range(RUNS)]
        pairs = [tuple(start(Path(folder), name, resume) for resume in (False, True)) for name in names]
    new_s, resumed_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    show(
        "the demo",
        {
            "first step of a resumed run": f"{resumed_s:.1f} s",
            "first step of a new run": f"{new_s:.1f} s",
            "ratio": f"{statistics.median(a / b for a, b in pairs):.2f}",
        },
    )


def start(folder: Path, name: str, resume: bool) -> float:
    """Return the seconds from the start of the command to its first step; it is then stopped and saves."""
    began = time.perf_counter()
    process = train(folder, name, *(["--resume"] if resume else ["--set", "train.epochs=48"]))
    output = b""
    for part in read(process):
        output += part
        if STEP.search(output):
            break
    took = time.perf_counter() - began
    process.send_signal(signal.SIGTERM)
    process.communicate()
    return took


def train(folder: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    settings = ["--set", f"train.runs_dir={folder}/runs"]
    if "--resume" not in options:
        settings += ["--set", f"data.prepared_dir={folder}/data"]
    command = [sys.executable, "train.py", "--name", name, *options, *settings]
    environment = {"TQDM_MININTERVAL": "0", "PATH": str(Path(sys.executable).parent)}
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )


def read(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    while part := process.stdout.read1(4096):
        yield part


if __name__ == "__main__":
    main()
