"""Measures the errors that are left after training on some minutes of speech, from nothing and from a model.

    python -m benchmarks.accuracy.amounts data/mine --parent general runs/demo
    python -m benchmarks.accuracy.amounts data/aishell_sample --speaker S0150 --parent runs/demo

The folder has the manifests of `asr prepare`. With `--speaker`, the utterances of this speaker in all of
them are split again: 24 for dev, 40 for test, the rest for training. Of the training manifest, the first
utterances of a shuffled order make 5, 20 and 60 minutes (`--minutes`); amounts that it does not have are left
out. Each is trained on once from random weights and once from each `--parent`, and measured on the whole test
manifest. The runs are in the folder of `--out` (`runs/amounts`): one that is finished is not trained again.
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
NUM_DEV, NUM_TEST = 24, 40  # utterances of one speaker


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors after training on some minutes of speech.")
    parser.add_argument("folder", type=Path, help="with train.jsonl, dev.jsonl and test.jsonl")
    parser.add_argument("--speaker", help="whose utterances are used only")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 20, 60], metavar="N")
    parser.add_argument("--parent", nargs="*", default=[], help="runs or model files to start from as well")
    parser.add_argument("--config", default="demo", help="whose model and training are used")
    parser.add_argument("--out", type=Path, default=Path("runs/amounts"), help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    if arguments.speaker:
        arguments.folder = split_of(arguments.folder, arguments.speaker, arguments.out)
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
            start = Path(parent.partition("#")[0]).name if parent else "nothing"  # an address has a digest
            rate = measured(arguments, manifest, f"{minutes:g}-minutes-from-{start}", parent)
            rows[f"{minutes:g} minutes, from {start}"] = f"{rate:.1%}"
    show(f"errors on {arguments.folder / 'test.jsonl'} after training on", rows)


def split_of(folder: Path, speaker: str, out: Path) -> Path:
    """Write manifests of one speaker's utterances, no sentence in two of them, and return their folder."""
    manifests = [folder / f"{split}.jsonl" for split in ("train", "dev", "test")]
    own = [u for manifest in manifests for u in read_manifest(manifest) if u.speaker == speaker]
    own.sort(key=lambda utterance: utterance.id)
    random.Random(7).shuffle(own)
    dev, test, rest = own[:NUM_DEV], own[NUM_DEV : NUM_DEV + NUM_TEST], own[NUM_DEV + NUM_TEST :]
    kept = {utterance.text for utterance in [*dev, *test]}
    train = [utterance for utterance in rest if utterance.text not in kept]
    for name, utterances in (("train", train), ("dev", dev), ("test", test)):
        write_manifest(out / speaker / f"{name}.jsonl", [_absolute(utterance) for utterance in utterances])
    return out / speaker


def utterances_of(utterances: list[Utterance], duration_s: float) -> list[Utterance]:
    """Return the first utterances of a shuffled order that last this long; none if all are shorter."""
    shuffled = random.Random(1).sample(utterances, len(utterances))
    some, total_s = [], 0.0
    for utterance in shuffled:
        if total_s >= duration_s:
            return some
        some.append(_absolute(utterance))
        total_s += utterance.duration_s
    return some if total_s >= duration_s else []


def _absolute(utterance: Utterance) -> Utterance:
    return dataclasses.replace(utterance, audio_path=str(Path(utterance.audio_path).resolve()))


def measured(arguments: argparse.Namespace, manifest: Path, name: str, parent: str | None) -> float:
    """Return the error rate on test of a run on a manifest, which is trained unless it is finished."""
    run = Run(arguments.out.resolve() / name)
    folder = arguments.folder.resolve()
    settings = [
        f"data.train={manifest}",
        *(f"data.{split}={folder / split}.jsonl" for split in ("dev", "test")),
    ]
    settings += ["data.corpus=", f"train.runs_dir={run.directory.parent}", *arguments.set]
    settings += [f"train.init_from={parent}"] if parent else []
    if not run.exists:
        words = [word for setting in settings for word in ("--set", setting)]
        subprocess.run([sys.executable, str(TRAIN), arguments.config, "--name", name, *words], check=True)
    elif read_state(run.directory).state != "finished":
        subprocess.run([sys.executable, str(TRAIN), str(run.directory), "--resume"], check=True)
    record = json.loads((run.directory / "report.json").read_text(encoding="utf-8"))
    return float(record["rates"][0]["rate"])


if __name__ == "__main__":
    main()
