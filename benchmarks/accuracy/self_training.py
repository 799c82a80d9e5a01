"""Measures self-training: the text of a tenth of a corpus, the rest through `asr label`, in rounds.

    python -m benchmarks.accuracy.self_training data/mine --parent runs/demo
    python -m benchmarks.accuracy.self_training data/hsk_words --config hsk_words --rounds 2 --lm words

The folder has the manifests of `asr prepare`. Of the training manifest, a tenth of the utterances (`--share`)
keeps its text, and a run is trained on these, from the weights of `--parent` or from nothing.
In each round the latest run labels the recordings of the rest, and the next run is trained on both, from the
latest run's weights or from nothing (`--restart`). With `--lm`, a language model of other texts, each run's
decoding is tuned on dev before it labels. Each run is measured on test by greedy decoding, and what each
round keeps is compared with the text that the rest really has. A step that is finished is not repeated.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from asr.base.types import Utterance
from asr.evaluation.errors.metrics import align
from asr.evaluation.labels.calibrated_confidence import Sample, measured
from asr.runs.run import Run
from asr.runs.state import read_state
from benchmarks.common import show
from data_pipeline.manifests.manifest import read_manifest, write_manifest

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors after rounds of self-training.")
    parser.add_argument("folder", type=Path, help="with train.jsonl, dev.jsonl and test.jsonl")
    parser.add_argument("--parent", help="a run or model file to start from")
    parser.add_argument("--share", type=float, default=0.1, help="of the utterances, that keep their text")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--restart", action="store_true", help="train each round as the first run was")
    parser.add_argument("--config", default="demo", help="whose model and training are used")
    parser.add_argument("--out", type=Path, default=Path("runs/self_training"), help="folder of the runs")
    parser.add_argument("--min-confidence", type=float, default=0.8, metavar="SHARE")
    parser.add_argument(
        "--beam", type=int, default=1, help="hypotheses of `asr label`, among which the general model chooses"
    )
    parser.add_argument("--lm", type=Path, help="for `asr label`: a folder that `asr lm train` made")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--round-set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    some, rest = shared_out(read_manifest(arguments.folder / "train.jsonl"), arguments.share)
    write_manifest(out / "some.jsonl", some)
    run, parent = out / "some", arguments.parent
    train(arguments, run, parent, arguments.set)
    rows = {f"{len(some)} labelled": f"{error_of(run):.1%} wrong on test"}
    for number in range(1, arguments.rounds + 1):
        manifest, latest, run = out / f"round-{number}.jsonl", run, out / f"round-{number}"
        label(arguments, latest, rest, manifest)
        settings = [f"data.machine_labelled={manifest}", *arguments.set, *arguments.round_set]
        train(arguments, run, parent if arguments.restart else latest, settings)
        rows[f"round {number}"] = f"{error_of(run):.1%} wrong on test; {kept(manifest, rest)}"
    show(f"{arguments.folder}: syllables wrong", rows)


def shared_out(utterances: Sequence[Utterance], share: float) -> tuple[list[Utterance], list[Utterance]]:
    """Return the utterances that keep their text, and the others, which are recordings only."""
    shuffled = random.Random(1).sample(
        [dataclasses.replace(u, audio_path=str(Path(u.audio_path).resolve())) for u in utterances],
        len(utterances),
    )
    number = round(share * len(utterances))
    return shuffled[:number], shuffled[number:]


def train(
    arguments: argparse.Namespace, directory: Path, parent: str | Path | None, settings: list[str]
) -> None:
    """Train a run, unless it is finished."""
    folder, run = arguments.folder.resolve(), Run(directory)
    if run.exists and read_state(directory).state == "finished":
        return
    if run.exists:
        subprocess.run([sys.executable, str(ROOT / "train.py"), str(directory), "--resume"], check=True)
        return
    chosen = [
        "data.corpus=",
        f"data.train={arguments.out.resolve() / 'some.jsonl'}",
        *(f"data.{split}={folder / split}.jsonl" for split in ("dev", "test")),
        f"train.runs_dir={directory.parent}",
        *([f"train.init_from={parent}"] if parent else []),
        *settings,
    ]
    words = [word for setting in chosen for word in ("--set", setting)]
    command = [sys.executable, str(ROOT / "train.py"), arguments.config, "--name", directory.name, *words]
    subprocess.run(command, check=True)


def label(arguments: argparse.Namespace, run: Path, rest: Sequence[Utterance], manifest: Path) -> None:
    """Label the recordings of the rest, unless that is done."""
    if not manifest.exists():
        files = [utterance.audio_path for utterance in rest]
        decoding = [f"--beam={arguments.beam}"]
        if arguments.lm:
            tuning = [str(run), str(arguments.folder / "dev.jsonl"), f"--lm={arguments.lm.resolve()}"]
            subprocess.run([sys.executable, "-m", "asr", "tune-decoder", *tuning], check=True)
            decoding = []  # as tuned
        options = [*decoding, f"--min-confidence={arguments.min_confidence}", f"--out={manifest}"]
        subprocess.run([sys.executable, "-m", "asr", "label", str(run), *files, *options], check=True)


def error_of(run: Path) -> float:
    """Return the error rate of a run on test."""
    record = json.loads((run / "report.json").read_text(encoding="utf-8"))
    return float(record["rates"][0]["rate"])


def kept(manifest: Path, rest: Sequence[Utterance]) -> str:
    """Return how much a round keeps, how much of it is right, and how well its confidence says so."""
    tokens = {utterance.audio_path: utterance.tokens for utterance in rest}
    predicted, samples = [], []
    for utterance in read_manifest(manifest):
        assert utterance.labelled_by
        if utterance.labelled_by.source == utterance.audio_path:  # not a part of a recording
            pairs = align(tokens[utterance.audio_path], utterance.tokens)
            predicted.append(utterance.labelled_by.confidence)
            samples.append(Sample((), [pair.edit == "equal" for pair in pairs]))
    result = measured(predicted, samples)
    right = sum(sum(sample.correct) for sample in samples) / sum(len(sample.correct) for sample in samples)
    return (
        f"{len(samples)} of {len(rest)} recordings kept as a whole, {right:.1%} of their tokens right, "
        f"calibration error {result.error:.1%}"
    )


if __name__ == "__main__":
    main()
