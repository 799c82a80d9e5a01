"""Measures sentences with an English word each by a speech synthesizer, with mixed units.

    python train.py  # prepares the demo
    python -m benchmarks.accuracy.espeak.mixed data/mandarin_demo

In the demo's sentences, an English word takes the place of a noun: 200 sentences of test are said by two
voices of espeak that training does not have, and again as they were, without the word. Words of test occur in
training, in other sentences. espeak says the labels, so that both agree. The nouns themselves, of which
training has few, are left out of the last rate. Runs are in the folder of `--out`
(`runs/mixed`): one that is finished is not trained again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

import rjieba

from asr.audio.recording import write_wav
from asr.base.text.units import WORD_BOUNDARY
from asr.runs.run import Run
from asr.runs.state import read_state
from benchmarks.accuracy.accuracy import TRAIN, error_rates, run_command, spread_text
from benchmarks.accuracy.espeak.voice import Voice
from benchmarks.common import show
from data_pipeline.labels.from_text import label
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.recordings.synthesis import DRAWN_PITCHES, VOICE

# spoken ones first; then those that are spelt. The letter A alone is an article to espeak
WORDS = """
iPhone wifi Facebook Google Python Windows email karaoke Photoshop YouTube Twitter Linux Docker Zoom Netflix
Tesla Starbucks Adidas Nike Uber Bluetooth cosplay model logo blog sofa pizza hotel show style party game
coffee team boss Kindle iPad Mac Android Java video radio Sony Nokia Disney Lego Gucci Visa Amazon Excel
Office PowerPoint Instagram Spotify Airbnb Skype Oracle Intel Nvidia Samsung Honda Ford Lexus Porsche
Ferrari Boeing Airbus hamburger salad sandwich cookie chocolate cheese vitamin guitar piano bikini jacket
hoodie sneaker camera printer keyboard monitor router server browser password project budget report meeting
deadline schedule manager partner customer market channel summer winter Christmas Halloween marathon yoga
tennis golf CCTV CEO KTV DVD SUV GPS USB VIP PPT CBD IBM BBC LED HTTP
"""
VOICES = {"train": ("m1", "m2", "m3", "m4", "f1", "f2", "f3"), "dev": ("m6", "f4"), "test": ("m7", "f5")}
NUM_DEV, NUM_TEST = 100, 200
RATES_WPM = (130, 200)
UNITS = "mixed:200"
EPOCHS = 30
WITH, WITHOUT = "with", "without"


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of sentences with an English word each.")
    parser.add_argument("folder", type=Path, help="with the demo's train.jsonl, dev.jsonl and test.jsonl")
    parser.add_argument("--seeds", type=int, default=3, help="number of runs; their seeds are 1, 2, ...")
    parser.add_argument("--out", type=Path, default=Path("runs/mixed"), help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    if not (out / WITHOUT / "list.csv").exists():
        say_all(texts_of(arguments.folder), out)
    prepare(out / WITH, UNITS)
    prepare(out / WITHOUT, f"mixed:{out / WITH / 'data' / 'units.model'}")
    found = [measured(out, seed, arguments.set) for seed in range(1, arguments.seeds + 1)]
    rows = {name: spread_text([rates[name] for rates in found]) for name in found[0]}
    show(f"{UNITS}, seeds: {len(found)}", rows)


def texts_of(folder: Path) -> list[str]:
    """Return the different sentences of a folder's manifests, in an order that is always the same."""
    manifests = (read_manifest(folder / f"{split}.jsonl") for split in VOICES)
    texts = sorted({utterance.text for manifest in manifests for utterance in manifest})
    random.Random(1).shuffle(texts)
    return texts


def say_all(texts: Sequence[str], out: Path) -> None:
    """Say sentences with a word and without, and write a table of each; dev and test come first."""
    voice, draw = Voice(VOICE), random.Random(1)
    tables = {WITH: [("path", "text", "speaker", "split")], WITHOUT: [("path", "text", "speaker", "split")]}
    words = WORDS.split()
    splits = iter(["dev"] * NUM_DEV + ["test"] * NUM_TEST)
    for number, text in enumerate(texts):
        mixed = with_word(text, draw.choice(words))
        split = next(splits, "train") if mixed else "train"
        how = draw.randint(*RATES_WPM), draw.randint(*DRAWN_PITCHES), draw.choice(VOICES[split])
        both = {WITH: mixed or text} | ({WITHOUT: text} if split == "test" else {})
        for name, said in both.items():
            path = out / name / f"{number:04}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_wav(path, voice.say_text(spelled(label(said, "mixed"), voice), *how))
            tables[name].append((path.name, said, how[-1], split))
    for name, rows in tables.items():
        with (out / name / "list.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)


def spelled(labels: Sequence[str], voice: Voice) -> str:
    """Return syllables, letters and words as the Mandarin voice reads them, Latin ones in English."""
    return " ".join(
        voice.spelled(one) if one[-1].isdigit() else one.removeprefix(WORD_BOUNDARY) for one in labels
    )


def with_word(text: str, word: str) -> str | None:
    """Return a sentence with a Latin word for its first noun of two hanzi; None if it has no such noun."""
    parts = rjieba.tag(text, True)
    nouns = [index for index, (part, kind) in enumerate(parts) if kind == "n" and len(part) == 2]
    if not nouns:
        return None
    return "".join(word if index == nouns[0] else part for index, (part, _) in enumerate(parts))


def prepare(folder: Path, units: str) -> None:
    """Prepare a table that `say_all` wrote, unless that was done."""
    if not (folder / "data" / "test.jsonl").exists():
        paths = [str(folder / "list.csv"), str(folder / "data")]
        run_command(["-m", "asr", "prepare", "table", *paths, "--units", units])


def measured(out: Path, seed: int, changes: Sequence[str]) -> dict[str, float]:
    """Train a seed unless that was done, and return its error rates with and without a word."""
    run, data = Run(out / f"seed-{seed}"), out / WITH / "data"
    if not run.exists or read_state(run.directory).state != "finished":
        settings = [f"data.{split}={data}/{split}.jsonl" for split in VOICES]
        settings += ["data.corpus=", f"train.runs_dir={out}", f"train.seed={seed}", f"train.epochs={EPOCHS}"]
        new = ["demo", "--name", run.directory.name, "--set", *settings, *changes]
        run_command([str(TRAIN), *([str(run.directory), "--resume"] if run.exists else new)])
    report = run.directory / f"report-data-test-{WITHOUT}.json"
    if not report.exists():
        test = str(out / WITHOUT / "data" / "test.jsonl")
        run_command(["-m", "asr", "evaluate", str(run.directory), test, "--name", WITHOUT])
    rates = error_rates(run.directory / "report.json", ", with a word") | error_rates(report, ", without")
    return rates | {"Mandarin syllable besides the noun, without": rate_besides_noun(report, out)}


def rate_besides_noun(report: Path, out: Path) -> float:
    """Return the error rate of sentences without a word, but for the noun whose place the word takes."""
    texts = [texts_in(out / name) for name in (WITH, WITHOUT)]
    num_wrong = num_syllables = 0
    for row in json.loads(report.read_text(encoding="utf-8"))["utterances"]:
        mixed, whole = (by_id[row["id"]] for by_id in texts)
        first, last = num_equal(mixed, whole), len(whole) - num_equal(mixed[::-1], whole[::-1])
        place = -1
        for reference, hypothesis in row["aligned"]:
            place += bool(reference)
            if not reference or not first <= place < last:
                num_wrong += reference != hypothesis
                num_syllables += bool(reference)
    return num_wrong / num_syllables


def num_equal(text: str, other: str) -> int:
    """Return the length of the longest common beginning."""
    return sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False))
    )


def texts_in(folder: Path) -> dict[str, str]:
    """Return the text of each recording of a table that `say_all` wrote."""
    with (folder / "list.csv").open(encoding="utf-8", newline="") as file:
        return {Path(row["path"]).stem: row["text"] for row in csv.DictReader(file)}


if __name__ == "__main__":
    main()
