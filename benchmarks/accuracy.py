"""Measures the error rate of a configuration: prepares the corpus, trains and evaluates in one command.

    python benchmarks/accuracy.py                                        # the demo
    python benchmarks/accuracy.py hsk_words ../shared/data/hsk_words
    python benchmarks/accuracy.py digits ../shared/data/fsdd

Runs `python train.py CONFIG` in a process of its own and in an empty folder.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import show

TRAIN = Path(__file__).resolve().parent.parent / "train.py"


def main() -> None:
    config = sys.argv[1] if len(sys.argv) > 1 else "demo"
    source = ["--set", f"data.source={Path(sys.argv[2]).resolve()}"] if len(sys.argv) > 2 else []
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        printed = run_and_show([sys.executable, str(TRAIN), config, *source], folder)
        total_s = time.monotonic() - started
        lines = (Path(folder) / "runs" / config / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    show(
        f"python train.py {config}",
        {
            "the whole command": f"{total_s / 60:.1f} minutes",
            "of which training": f"{last['train_s'] / 60:.1f} minutes, {last['epoch']} epochs",
            **dict(re.findall(r"^ *(.+ error rate) {2,}(.*)", printed, re.MULTILINE)),
        },
    )


def run_and_show(command: list[str], folder: str) -> str:
    """Run a command, print its output as it comes, and return it."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if process.wait():
        raise SystemExit(process.returncode)
    return "".join(lines)


if __name__ == "__main__":
    main()
