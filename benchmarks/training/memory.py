"""Measures the memory of a training process over some thousand steps of the demo.

    python -m benchmarks.training.memory
    python -m benchmarks.training.memory --steps 5000 --without-onednn

Every 100 steps the process notes its resident memory, how much of it the C library's allocator (glibc's)
has handed out, and how much it keeps although it is free; at the end, what remains after free memory was
given back to the system (`malloc_trim`). `--without-onednn` uses TensorFlow's own kernels, not oneDNN's,
which are cached by shape.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.common import show

ROOT = Path(__file__).resolve().parents[2]
CURVE = "POLYPHONE_MEMORY_CURVE"  # environment: the file that the process writes, and the number of steps
STEPS = "POLYPHONE_MEMORY_STEPS"
APART, ROWS_APART = 100, 500
EPOCHS = 48  # of the demo, 116 steps each
MALLINFO2 = (  # see mallinfo(3)
    *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
    "keepcost",
)


class Mallinfo2(ctypes.Structure):
    """The memory of all arenas of glibc's allocator."""

    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO2]


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory of training over many steps.")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--without-onednn", action="store_true")
    arguments = parser.parse_args()
    environment = {"TF_ENABLE_ONEDNN_OPTS": "0"} if arguments.without_onednn else {}
    with tempfile.TemporaryDirectory() as folder:
        curve = trained_curve(Path(folder), arguments.steps, environment)
    rows = {
        f"step {reading['step']:,}": reading_text(reading)
        for reading in curve[:-1]
        if reading["step"] == APART or reading["step"] % ROWS_APART == 0
    }
    rows["after malloc_trim"] = reading_text(curve[-1])
    show(f"memory of training on the demo, {arguments.steps:,} steps, {environment or 'as it is'}", rows)


def reading_text(reading: Mapping[str, float]) -> str:
    return (
        "{resident_mb:,.0f} MB resident, {used_mb:,.0f} in use, {free_mb:,.0f} free in the allocator".format(
            **reading
        )
    )


def trained_curve(folder: Path, steps: int, environment: Mapping[str, str]) -> list[dict[str, float]]:
    """Train for a number of steps in a process of its own, and return what it noted."""
    curve = folder / "curve.jsonl"
    settings = [f"train.runs_dir={folder}/runs", f"data.prepared_dir={folder}/data", f"train.epochs={EPOCHS}"]
    settings.append("train.callbacks=benchmarks.training.memory:callbacks")
    options = [word for setting in settings for word in ("--set", setting)]
    subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "--name", "memory", "--quiet", *options],
        cwd=ROOT,
        env={**os.environ, **environment, CURVE: str(curve), STEPS: str(steps)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return [json.loads(line) for line in curve.read_text().splitlines()]


def callbacks() -> list[object]:
    """Return the callback that notes the memory of the process and stops it after the last step."""
    import keras

    class Curve(keras.callbacks.Callback):
        """A callback that appends a reading to the file every 100 steps, and one at the end."""

        steps = 0

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            self.steps += 1
            if self.steps % APART == 0:
                note(self.steps)
            self.model.stop_training = self.steps >= int(os.environ[STEPS])

        def on_train_end(self, logs: object = None) -> None:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            note(self.steps)

    return [Curve()]


def note(step: int) -> None:
    """Append the memory of this process to the file, in MB."""
    libc = ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    status = Path("/proc/self/status").read_text()
    reading = {
        "step": step,
        "resident_mb": int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024,
        "used_mb": (info.uordblks + info.hblkhd) / 2**20,
        "free_mb": info.fordblks / 2**20,
    }
    with Path(os.environ[CURVE]).open("a") as file:
        file.write(json.dumps(reading) + "\n")


if __name__ == "__main__":
    main()
