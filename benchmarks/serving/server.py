"""Measure `asr serve` with bounded load against this machine: `python -m benchmarks.serving.server RUN`.

The run, and the folder that `asr export` makes of it, are served by processes of their own; clients and
servers share two cores. `--only` chooses parts:

start: from the command to the first answer
throughput: 64 clients at once with clips of 2 s and recordings of 15 s, beside sherpa-onnx's server
    (`pip install sherpa-onnx-bin`) with the same model
streams: 100 streams at once, each in real time
mixed: minutes of honest clients of all protocols, with 5 % abusive ones
fuzz: 2,000 malformed requests by all protocols
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))  # for the makers of malformed requests

from benchmarks.serving.fuzz import measure_fuzz
from benchmarks.serving.mixed import measure_mixed
from benchmarks.serving.models import MODELS, Models
from benchmarks.serving.start import measure_start
from benchmarks.serving.streams import measure_streams
from benchmarks.serving.throughput import measure_throughput

NUM_CORES = 2
PARTS = {
    "start": measure_start,
    "throughput": measure_throughput,
    "streams": measure_streams,
    "mixed": measure_mixed,
    "fuzz": measure_fuzz,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--model", choices=MODELS, action="append", help="which to serve (default: all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of mixed load (default: 10)")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:NUM_CORES])
    with tempfile.TemporaryDirectory() as folder:
        models = Models(arguments.run, Path(folder), arguments.model or MODELS)
        parts = PARTS | {"mixed": functools.partial(measure_mixed, minutes=arguments.minutes)}
        for name in arguments.only or parts:
            parts[name](models)


if __name__ == "__main__":
    main()
