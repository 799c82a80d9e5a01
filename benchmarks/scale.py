"""Measures how reading and planning grow with a corpus: 8,000,000 synthetic utterances, 10,000 hours.

    python -m benchmarks.scale [--utterances 8000000] [--doctor]

One process reads the manifest, makes the labels, and plans an epoch with changed speeds and pauses. It is
started for each number of utterances; its memory is the peak of that process, TensorFlow included. `--doctor`
times the checks before training (headers and labels, no decoding) of manifests of 100,000 and 1,000,000 lines
that name the demo's recordings again and again, and all that `asr doctor` does but decoding on synthetic
manifests of as many lines, of which each hundredth is a dev set.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from asr.base.config import AugmentConfig, load_config
from asr.base.text.pinyin import mandarin_syllables
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from asr.ctc.forced_alignment import frames_needed
from benchmarks.common import show
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.batches.dataset import Dataset
from data_pipeline.doctor.checkup import Checkup, Checkups
from data_pipeline.doctor.contents import read_contents
from data_pipeline.doctor.diagnosis import diagnose
from data_pipeline.doctor.findings import sources_of
from data_pipeline.doctor.label_checks import LabelRules
from data_pipeline.doctor.page import write_doctor_page
from data_pipeline.doctor.quick import check_utterances
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.preparation.prepare import prepare_corpus

NUM_UTTERANCES = 8_000_000
PER_SPEAKER = 400
DOCTOR_SIZES = (100_000, 1_000_000)
BATCH_S = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--utterances", type=int, default=NUM_UTTERANCES)
    parser.add_argument("--doctor", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)  # what the process of its own measures
    arguments = parser.parse_args()
    if arguments.measure:
        kind, manifest = arguments.measure
        print(json.dumps({"plan": planned, "check": checked, "examine": examined}[kind](Path(manifest))))
        return
    with tempfile.TemporaryDirectory() as name:
        for number in dict.fromkeys([arguments.utterances // 8, arguments.utterances]):
            path = Path(name) / "train.jsonl"
            write_synthetic(path, number)
            size = f"{path.stat().st_size / 1e6:,.0f} MB"
            show(f"planning {number:,} utterances, a manifest of {size}", measured("plan", path))
        for number in DOCTOR_SIZES if arguments.doctor else ():
            path = Path(name) / "demo.jsonl"
            write_manifest(path, demo_again(number))
            show(f"headers and labels of {number:,} utterances", measured("check", path))
            write_synthetic(Path(name) / "train.jsonl", number)
            write_synthetic(Path(name) / "dev.jsonl", number // 100)
            kind = f"`asr doctor` without decoding, {number:,} utterances"
            show(kind, measured("examine", Path(name) / "train.jsonl"))


def measured(kind: str, manifest: Path) -> dict[str, str]:
    """Return what a process of its own measures."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", kind, str(manifest)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows: dict[str, str] = json.loads(output.splitlines()[-1])
    return rows


def planned(manifest: Path) -> dict[str, str]:
    """Read a manifest and plan an epoch; return seconds and memory of each step."""
    model = model_of_demo()
    steps = Steps()
    utterances = read_manifest(manifest)
    steps.end("read, each line checked")
    config = AugmentConfig(speed_min=0.9, speed_max=1.1, pauses=0.5)
    data = Dataset(utterances, Vocabulary(mandarin_syllables()), BATCH_S, Augmenter.load(config, 1))
    assert len(data.labels) == len(utterances)
    steps.end("labels")
    for epoch, name in enumerate(("an epoch", "the next epoch")):
        plan, batches = data.epoch(epoch, 1, model.fits)
        assert sum(plan.lengths) == len(utterances)
        steps.end(f"plan of {name}, {len(plan):,} batches")
        del plan, batches  # as in training, where one epoch ends before the next one is planned
    assert data.checksum
    steps.end("checksum, once per start of a training")
    return steps.rows


def checked(manifest: Path) -> dict[str, str]:
    """Check the headers and labels of a manifest as training does before it begins."""
    model, vocabulary = model_of_demo(), Vocabulary(mandarin_syllables())
    steps = Steps()
    utterances = read_manifest(manifest)
    steps.end("read, each line checked")
    for time_of in ("first", "second"):
        sound, _ = check_utterances(utterances, vocabulary, model.fits, manifest=manifest)
        assert len(sound) == len(utterances)
        steps.end(f"checked for the {time_of} time")
    return steps.rows


def examined(manifest: Path) -> dict[str, str]:
    """Examine a manifest and the dev set beside it as the doctor does, with made-up measurements of audio."""
    model, vocabulary = model_of_demo(), Vocabulary(mandarin_syllables())
    steps = Steps()
    contents = read_contents(sources_of([manifest, manifest.with_name("dev.jsonl")]))
    steps.end("read, each line checked")
    checkups = Checkups(len(contents.entries))
    for index, duration_s in enumerate(contents.entries.columns.durations_s.tolist()):
        digest = index.to_bytes(16, "big")
        checkups[index] = Checkup("", "", 48_000, 1, True, duration_s, 0.5, -20.0, digest=digest)
    steps.end("measurements made up")
    rules = LabelRules(vocabulary, frames_needed, model.num_output_frames, "the model")
    diagnosis = diagnose(contents, checkups, rules)
    steps.end(f"examined, {len(diagnosis.findings):,} findings")
    write_doctor_page(manifest.with_name("doctor.html"), diagnosis)
    steps.end("page")
    return steps.rows


class Steps:
    """Seconds and peak memory of one step after the other."""

    def __init__(self) -> None:
        self.rows = {"before": f"{peak_mb():,.0f} MB"}
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()

    def end(self, name: str) -> None:
        now_s, cpu_s = time.perf_counter(), time.process_time()
        self.rows[name] = (
            f"{now_s - self._began_s:7.1f} s ({cpu_s - self._began_cpu_s:.1f} s of processor time), "
            f"{peak_mb():,.0f} MB at most until then"
        )
        self._began_s, self._began_cpu_s = now_s, cpu_s


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def model_of_demo():
    from asr.model.acoustic_model import make_acoustic_model

    return make_acoustic_model(load_config("demo"), Vocabulary(mandarin_syllables()))


def write_synthetic(path: Path, number: int) -> None:
    """Write a manifest of clips of 1 to 8 seconds, 4.5 on average, with 12 syllables and hanzi each."""
    rng = np.random.default_rng(1)
    syllables = np.array(mandarin_syllables())
    with path.open("w", encoding="utf-8") as file:
        for begin in range(0, number, PER_SPEAKER):
            size = min(PER_SPEAKER, number - begin)
            labels = syllables[rng.integers(0, len(syllables), (size, 12))].tolist()
            hanzi = "".join(map(chr, rng.integers(0x4E00, 0x5A00, size * 12).tolist()))
            durations_s = np.round(rng.uniform(1, 8, size), 4).tolist()
            speaker = f"S{begin // PER_SPEAKER:06d}"
            file.writelines(
                f'{{"id": "corpus-{speaker}-{index:03d}", "audio": "audio/{speaker}/{index:03d}.wav", '
                f'"duration_s": {duration_s}, "text": "{hanzi[12 * index : 12 * index + 12]}", '
                f'"tokens": "{" ".join(tokens)}", "speaker": "{speaker}"}}\n'
                for index, (tokens, duration_s) in enumerate(zip(labels, durations_s, strict=True))
            )


def demo_again(number: int) -> Iterator[Utterance]:
    """Yield the utterances of the demo's training set again and again, with ids of their own."""
    corpus = prepare_corpus("mandarin_demo", "", Path("data/mandarin_demo"))
    utterances = list(read_manifest(corpus.manifests["train"]))
    for index in range(number):
        yield dataclasses.replace(utterances[index % len(utterances)], id=f"demo-{index:07d}")


if __name__ == "__main__":
    main()
