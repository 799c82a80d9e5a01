"""Measures English sentences by a speech synthesizer, with pieces of words and with characters as units.

    python -m benchmarks.accuracy.espeak.english
    python -m benchmarks.accuracy.espeak.english --units bpe:300 bpe:300+sampling
    python -m benchmarks.accuracy.espeak.english --units bpe:300 --lm pieces words

The sentences are clauses of the help that comes with Python (`pydoc_data.topics`), said by espeak's English
voices; those of test are said by voices that training does not have. They are said slowly, 9 letters a
second: at usual speed, 16, there are more letters than output frames (12.5). Network, epochs and seeds are
the same for all units; `+sampling` is `augment.piece_sampling`. With `--lm`, runs with pieces are also
decoded with a language model over each of these, its weights tuned on dev; its text is all clauses but
those of dev and test. Runs are in the folder of `--out` (`runs/english`): one that is finished is not
trained again.
"""

from __future__ import annotations

import argparse
import csv
import pydoc_data.topics
import random
import re
from collections.abc import Sequence
from pathlib import Path

from asr.audio.recording import write_wav
from asr.runs.run import Run
from asr.runs.state import read_state
from benchmarks.accuracy.accuracy import TRAIN, error_rates, run_command, spread_text
from benchmarks.accuracy.espeak.voice import Voice
from benchmarks.common import show
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.recordings.synthesis import DRAWN_PITCHES

WORDS_PER_CLAUSE = range(4, 13)
RATES_WPM = (80, 95)
VOICES = {"train": ("m1", "m2", "m3", "m4", "f1", "f2", "f3"), "dev": ("m6", "f4"), "test": ("m7", "f5")}
NUM_DEV, NUM_TEST, NUM_TRAIN = 100, 250, 500
EPOCHS = 12
SETTINGS = (
    f"train.epochs={EPOCHS}",
    "train.batch_s=15",
    "augment.speed_min=0.9",
    "augment.speed_max=1.1",
    "model.factored_output=false",
)
SAMPLING = "+sampling"
SHARE = 0.1  # of piece sampling, as the guide advises for byte pairs


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of English sentences by a speech synthesizer.")
    parser.add_argument("--units", nargs="+", default=["characters", "bpe:300"], metavar="UNITS")
    parser.add_argument("--seeds", type=int, default=3, help="number of runs; their seeds are 1, 2, ...")
    parser.add_argument("--lm", nargs="+", default=[], choices=["pieces", "words"])
    parser.add_argument("--out", type=Path, default=Path("runs/english"), help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    corpus = spoken_corpus(out / "corpus")
    for units in arguments.units:
        manifests = prepared(corpus, out / f"data-{units.removesuffix(SAMPLING).replace(':', '-')}", units)
        runs = [
            trained(out / f"{units.replace(':', '-')}-seed-{seed}", manifests, units, seed, arguments.set)
            for seed in range(1, arguments.seeds + 1)
        ]
        rows = {"minutes of training": ", ".join(f"{run.metrics()[-1].train_s / 60:.1f}" for run in runs)}
        found = [error_rates(run.directory / "report.json", "") for run in runs]
        for over in arguments.lm if "bpe" in units else ():
            for run, rates in zip(runs, found, strict=True):
                rates |= with_language_model(run, manifests, over)
        rows |= {name: spread_text([rates[name] for rates in found]) for name in found[0]}
        show(f"{units}, seeds: {len(runs)}", rows)


def clauses() -> list[str]:
    """Return different clauses of Python's help that are words alone, in the order of the help."""
    text = "\n\n".join(pydoc_data.topics.topics.values())
    running = [part for part in text.split("\n\n") if not part.startswith("   ")]  # the rest is code
    found = (" ".join(clause.lower().split()) for part in running for clause in re.split('[.!?;:,()"]', part))
    words = re.compile("[a-z' ]+")
    return [
        one for one in dict.fromkeys(found) if words.fullmatch(one) and len(one.split()) in WORDS_PER_CLAUSE
    ]


def spoken_corpus(folder: Path) -> Path:
    """Say the clauses, unless that was done, and return the table that lists them."""
    table = folder / "list.csv"
    if table.exists():
        return table
    folder.mkdir(parents=True, exist_ok=True)
    synthesizer, draw, texts = Voice("en-us"), random.Random(1), clauses()
    draw.shuffle(texts)
    splits = ["dev"] * NUM_DEV + ["test"] * NUM_TEST + ["train"] * NUM_TRAIN
    rows = [("path", "text", "speaker", "split")]
    for number, (text, split) in enumerate(zip(texts, splits, strict=False)):
        voice = draw.choice(VOICES[split])
        speech = synthesizer.say_text(text, draw.randint(*RATES_WPM), draw.randint(*DRAWN_PITCHES), voice)
        write_wav(folder / f"{number:04}.wav", speech)
        rows.append((f"{number:04}.wav", text, voice, split))
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return table


def prepared(table: Path, manifests: Path, units: str) -> Path:
    """Prepare the corpus with units, unless that was done, and return the folder of the manifests."""
    if not (manifests / "train.jsonl").exists():
        chosen = ["--units", units.removesuffix(SAMPLING)]
        run_command(["-m", "asr", "prepare", "table", str(table), str(manifests), *chosen])
    return manifests


def trained(directory: Path, manifests: Path, units: str, seed: int, changes: Sequence[str]) -> Run:
    """Return a finished run, trained now if there is none."""
    run = Run(directory)
    if run.exists and read_state(directory).state == "finished":
        return run
    settings = [f"data.{split}={manifests}/{split}.jsonl" for split in VOICES]
    settings += [f"train.runs_dir={directory.parent}", f"train.seed={seed}", *SETTINGS]
    settings += [f"augment.piece_sampling={SHARE}"] if units.endswith(SAMPLING) else []
    new = ["base", "--name", directory.name, "--set", *settings, *changes]
    run_command([str(TRAIN), *([str(directory), "--resume"] if run.exists else new)])
    return run


def with_language_model(run: Run, manifests: Path, over: str) -> dict[str, float]:
    """Return the errors with a language model over pieces or words, tuned on dev."""
    lm, report = manifests / f"lm-{over}", run.directory / f"report-{manifests.name}-test-{over}.json"
    if not lm.exists():
        kept = {u.text for split in ("dev", "test") for u in read_manifest(manifests / f"{split}.jsonl")}
        text = manifests / "clauses.txt"
        text.write_text("".join(f"{one}\n" for one in clauses() if one not in kept), encoding="utf-8")
        units = ["--units", over, "--pieces", str(manifests / "units.model")]
        run_command(["-m", "asr", "lm", "train", str(text), *units, "--out", str(lm)])
    if not report.exists():
        run.decoder_path.unlink(missing_ok=True)
        run_command(
            ["-m", "asr", "tune-decoder", str(run.directory), f"{manifests}/dev.jsonl", "--lm", str(lm)]
        )
        run_command(["-m", "asr", "evaluate", str(run.directory), f"{manifests}/test.jsonl", "--name", over])
    return error_rates(report, f", language model over {over}")


if __name__ == "__main__":
    main()
