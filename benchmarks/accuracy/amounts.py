"""Measures the errors that are left after training on some minutes of speech, from nothing and from a model.

    python -m benchmarks.accuracy.amounts data/mine --parent runs/demo

The folder has the manifests of `asr prepare`. Of the training manifest, the first utterances of a shuffled
order make 5, 20 and 60 minutes (`--minutes`); amounts that it does not have are left out. Each is trained on
once from random weights and once from each `--parent`, and measured on the whole test manifest. The runs
are in the folder of `--out` (`runs/amounts`): one that is finished is not trained again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import subprocess
import sys
from pathlib import Path

from asr.base.types import Utterance
from asr.runs.run import Run
from asr.runs.state import read_state
from benchmarks.common import show
from data_pipeline.manifests.manifest import read_manifest, write_manifest

TRAIN = Path(__file__).resolve().parents[2] / "train.py"


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors after training on some minutes of speech.")
    parser.add_argument("folder", type=Path, help="with train.jsonl, dev.jsonl and test.jsonl")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 20, 60], metavar="N")
    parser.add_argument("--parent", type=Path, nargs="*", default=[], help="runs to start from as well")
    parser.add_argument("--config", default="demo", help="whose model and training are used")
    parser.add_argument("--out", type=Path, default=Path("runs/amounts"), help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    utterances = read_manifest(arguments.folder / "train.jsonl")
    rows = {}
    for minutes in arguments.minutes:
        some = utterances_of(utterances, 60 * minutes)
        if not some:
            print(f"{minutes:g} minutes: the training set has less", file=sys.stderr)
            continue
        manifest = arguments.out.resolve() / f"{minutes:g}-minutes.jsonl"
        write_manifest(manifest, some)
        for parent in (None, *arguments.parent):
            start = parent.name if parent else "nothing"
            rate = measured(arguments, manifest, f"{minutes:g}-minutes-from-{start}", parent)
            rows[f"{minutes:g} minutes, from {start}"] = f"{rate:.1%}"
    show(f"errors on {arguments.folder / 'test.jsonl'} after training on", rows)


def utterances_of(utterances: list[Utterance], duration_s: float) -> list[Utterance]:
    """Return the first utterances of a shuffled order that last this long; none if all are shorter."""
    shuffled = random.Random(1).sample(utterances, len(utterances))
    some, total_s = [], 0.0
    for utterance in shuffled:
        if total_s >= duration_s:
            return some
        some.append(dataclasses.replace(utterance, audio_path=str(Path(utterance.audio_path).resolve())))
        total_s += utterance.duration_s
    return some if total_s >= duration_s else []


def measured(arguments: argparse.Namespace, manifest: Path, name: str, parent: Path | None) -> float:
    """Return the error rate on test of a run on a manifest, which is trained unless it is finished."""
    run = Run(arguments.out.resolve() / name)
    folder = arguments.folder.resolve()
    settings = [
        f"data.train={manifest}",
        *(f"data.{split}={folder / split}.jsonl" for split in ("dev", "test")),
    ]
    settings += ["data.corpus=", f"train.runs_dir={run.directory.parent}", *arguments.set]
    settings += [f"train.init_from={parent.resolve()}"] if parent else []
    if not run.exists:
        words = [word for setting in settings for word in ("--set", setting)]
        subprocess.run([sys.executable, str(TRAIN), arguments.config, "--name", name, *words], check=True)
    elif read_state(run.directory).state != "finished":
        subprocess.run([sys.executable, str(TRAIN), str(run.directory), "--resume"], check=True)
    record = json.loads((run.directory / "report.json").read_text(encoding="utf-8"))
    return float(record["rates"][0]["rate"])


if __name__ == "__main__":
    main()
