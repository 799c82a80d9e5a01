"""Measures the time from `python train.py --resume` to its first step, and memory over 2,000 steps.

    python benchmarks/resume.py

Both use the demo. The peer of a resumed run is a new one. A run is stopped by SIGTERM in the middle of its
first epoch and resumed from there; memory is read after some 200 steps and after some 2,200.
"""

from __future__ import annotations

import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from common import show

ROOT = Path(__file__).resolve().parents[1]
RUNS = 3
STEP = re.compile(rb"loss \d")  # shown by the progress bar from the first step on
WARM_STEPS, STEPS = 200, 2000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder), "first", resume=False)  # prepares the corpus
        names = [f"run{number}" for number in range(RUNS)]
        pairs = [tuple(start(Path(folder), name, resume) for resume in (False, True)) for name in names]
        grown_mb, num_steps = growth(Path(folder))
    new_s, resumed_s = (statistics.median(column) for column in zip(*pairs, strict=True))
    show(
        "the demo",
        {
            "first step of a resumed run": f"{resumed_s:.1f} s",
            "first step of a new run": f"{new_s:.1f} s",
            "ratio": f"{statistics.median(a / b for a, b in pairs):.2f}",
            f"memory over {num_steps:,} steps": f"{grown_mb:+.0f} MB",
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


def growth(folder: Path) -> tuple[float, int]:
    """Return the growth of a training process in MB, and the number of steps over which it was measured."""
    process = train(folder, "memory", "--set", "train.checkpoint_s=5", "--set", "train.epochs=40")
    threading.Thread(
        target=lambda: [None for _ in read(process)], daemon=True
    ).start()  # a full pipe would block it
    steps = folder / "runs" / "memory" / "metrics.jsonl"
    readings: list[tuple[int, float]] = []
    while process.poll() is None:
        done = [int(n) for n in re.findall(r'"step": (\d+)', steps.read_text())] if steps.exists() else []
        if done and (not readings or done[-1] != readings[-1][0]):
            readings.append((done[-1], resident_mb(process.pid)))
        if readings and readings[-1][0] >= WARM_STEPS + STEPS:
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    warm = next(reading for reading in readings if reading[0] >= WARM_STEPS)
    return readings[-1][1] - warm[1], readings[-1][0] - warm[0]


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


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
