"""Measure an exported folder with little else: `python -m benchmarks.speed.light_installation RUN`.

A virtual environment gets what the folder's README installs, from the package index. The benchmark prints the
size of the installation, and the time from the start of `recognize.py` to the transcript of the shortest clip
of the run's test set.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
import venv
from pathlib import Path

from asr.evaluation.data import evaluation_data
from asr.export import export
from asr.runs.run import Run

PACKAGES = ("numpy", "onnxruntime", "soundfile")
STARTS = 11


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    arguments = parser.parse_args()
    run = Run.open(arguments.run)
    data, _ = evaluation_data(Path(run.config().data.test), run.vocabulary())
    clip = min(data.utterances, key=lambda utterance: utterance.duration_s)
    with tempfile.TemporaryDirectory() as temporary:
        folder, python = Path(temporary) / "out", Path(temporary) / "venv/bin/python"
        export(run.directory, folder, clips=1)
        venv.create(python.parents[1], with_pip=True)
        before = sizes(python.parents[1])
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (whole, source), (whole_before, source_before) = sizes(python.parents[1]), before
        print(
            f"{', '.join(PACKAGES)}: {(whole - whole_before) / 2**20:.1f} MiB, of which Python's compiled "
            f"files {(whole - whole_before - source + source_before) / 2**20:.1f}"
        )
        for options in ([], ["--tokens"]):
            command = [str(python), str(folder / "recognize.py"), clip.audio_path, *options]
            times_s = [start(command) for _ in range(STARTS)]
            print(
                f"{' '.join(['recognize.py', *options])}, a clip of {clip.duration_s:.1f} s, from start to "
                f"transcript: {statistics.median(times_s):.2f} s ({min(times_s):.2f} to {max(times_s):.2f})"
            )


def sizes(folder: Path) -> tuple[int, int]:
    """Return the bytes of the files in a folder, and of those that pip did not compile from others."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    source = [path for path in files if path.suffix != ".pyc"]
    return sum(path.stat().st_size for path in files), sum(path.stat().st_size for path in source)


def start(command: list[str]) -> float:
    """Return the seconds that a program takes, without what this process's environment adds to it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
