"""Measures `asr transcribe` of one file as a whole process, by the run's graph and by TensorFlow.

python train.py && python -m benchmarks.speed.cold_start [runs/demo] [FILE]
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.common import compare, show

FILE = "data/mandarin_demo/audio/demo-0002.wav"


def main() -> None:
    run, file = [*sys.argv[1:], *("runs/demo", FILE)[len(sys.argv) - 1 :]]
    command = [sys.executable, "-m", "asr", "transcribe", run, file]
    graph_s, tensorflow_s, ratio = compare(
        lambda: subprocess.run(command, check=True, capture_output=True),
        lambda: subprocess.run([*command, "--gpus", "1", "--simulate"], check=True, capture_output=True),
        runs=7,
    )
    show(
        f"asr transcribe {run} {file}",
        {
            "ONNX Runtime": f"{graph_s:6.2f} s",
            "TensorFlow": f"{tensorflow_s:6.2f} s",
            "ratio": f"{ratio:.2f}",
        },
    )


if __name__ == "__main__":
    main()
