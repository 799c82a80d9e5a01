"""Measures whole processes on a CPU, by the run's graph for ONNX Runtime and by TensorFlow.

    python train.py && python -m benchmarks.speed.cold_start [runs/demo] [FILE] [MANIFEST]

`asr transcribe` of one file, and `asr.evaluate` of one manifest.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from benchmarks.common import compare, show

USUAL = ("runs/demo", "data/mandarin_demo/audio/demo-0002.wav", "data/mandarin_demo/test.jsonl")
RUNS = 7


def main() -> None:
    run, file, manifest = [*sys.argv[1:], *USUAL[len(sys.argv) - 1 :]]
    command = ["-m", "asr", "transcribe", run, file]
    show_both(f"asr transcribe {run} {file}", command, [*command, "--gpus", "1", "--simulate"])
    program = "from asr import Devices, evaluate; evaluate({!r}, {!r}, devices=Devices({}))".format
    show_both(
        f"evaluate({run!r}, {manifest!r})",
        ["-c", program(run, manifest, "")],
        ["-c", program(run, manifest, "'0,'")],
    )


def show_both(title: str, graph: Sequence[str], tensorflow: Sequence[str]) -> None:
    """Print the seconds of two Python processes, and their ratio."""
    graph_s, tensorflow_s, ratio = compare(
        lambda: subprocess.run([sys.executable, *graph], check=True, capture_output=True),
        lambda: subprocess.run([sys.executable, *tensorflow], check=True, capture_output=True),
        runs=RUNS,
    )
    rows = {"ONNX Runtime": f"{graph_s:6.2f} s", "TensorFlow": f"{tensorflow_s:6.2f} s"}
    show(title, rows | {"ratio": f"{ratio:.2f}"})


if __name__ == "__main__":
    main()
