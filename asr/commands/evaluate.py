"""`asr evaluate`: measure a trained model on a manifest."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.commands import EXIT_MISTAKE
from asr.commands.devices import start_devices
from asr.types import UserError

if TYPE_CHECKING:
    from asr.evaluate import Evaluation
    from asr.run import Run
    from asr.vocabulary import Vocabulary
    from data_pipeline.dataset import Dataset

EVALUATION_BATCH_S = 120.0


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument("manifest", type=Path, help="JSON Lines, such as data/mandarin_demo/test.jsonl")


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Evaluate on one manifest and write a report; returns the exit status."""
    from asr.run import Run

    run = Run.open(arguments.run)

    start_devices()
    from asr.evaluate import Evaluator
    from asr.recognizer import Recognizer

    recognizer = Recognizer.load(arguments.run)
    data, num_left_out = evaluation_data(arguments.manifest, recognizer.vocabulary)
    evaluation = Evaluator(recognizer.model, recognizer.vocabulary).evaluate(data)
    report(evaluation, run, arguments.manifest, _report_path(run, arguments.manifest))
    return EXIT_MISTAKE if num_left_out else 0


def evaluation_data(manifest: Path, vocabulary: Vocabulary) -> tuple[Dataset, int]:
    """What can be heard of a manifest, and how many recordings cannot. Unknown labels count as errors."""
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_audio, tell_left_out
    from data_pipeline.manifest import read_manifest

    utterances = read_manifest(manifest)
    problems = check_audio(utterances)
    sound = [u for u, problem in zip(utterances, problems, strict=True) if not problem]
    tell_left_out([problem for problem in problems if problem], len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no recording can be read; the reasons stand above")
    if not any(utterance.tokens for utterance in sound):
        raise UserError(f"{manifest}: no utterance has tokens to compare with; give them labels")
    unknown = [u.id for u in sound if any(token not in vocabulary for token in u.tokens)]
    if unknown:
        print(
            f"{manifest}: {len(unknown)} utterances hold tokens that the model cannot write, "
            f"which count as errors: {', '.join(unknown[:3])}{', ...' if len(unknown) > 3 else ''}"
        )
    return Dataset(sound, vocabulary, EVALUATION_BATCH_S), len(utterances) - len(sound)


def report(evaluation: Evaluation, run: Run, manifest: Path, path: Path) -> None:
    """Write the report of an evaluation and tell its figures."""
    from asr import console
    from asr.config import dump_config
    from asr.report import write_report

    write_report(
        path,
        run_name=run.directory.name,
        set_name=manifest.stem,
        evaluation=evaluation,
        metrics=run.metrics(),
        token_counts=run.token_counts(),
        config_toml=dump_config(run.config()),
    )
    console.tell_evaluation(evaluation, manifest)
    print(f"\nReport: {path}")


def _report_path(run: Run, manifest: Path) -> Path:
    """Named by manifest and folder: many a corpus has its `test.jsonl`."""
    return run.directory / f"report-{manifest.resolve().parent.name}-{manifest.stem}.html"
