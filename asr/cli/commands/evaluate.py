"""`asr evaluate`: measure a trained model on a manifest, and compare it with an earlier evaluation."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError
from asr.cli.commands import EXIT_MISTAKE
from asr.cli.options.decoder import add_decoder_arguments, decoder_of
from asr.cli.progress_bars import ProgressBars
from asr.model.devices import start_devices
from asr.recognition.decoder_choice import DecoderChoice

if TYPE_CHECKING:
    from asr.base.vocabulary import Vocabulary
    from asr.evaluation.evaluator import Evaluation
    from asr.evaluation.scores import EvaluationRecord, Settings
    from asr.runs.run import Run
    from data_pipeline.dataset import Dataset


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument("manifest", type=Path, help="JSON Lines, such as data/mandarin_demo/test.jsonl")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="OTHER",
        help="set this evaluation (B) beside an earlier one (A) of the same utterances: the JSON file which "
        "that one wrote, or a run directory that was evaluated on the manifest",
    )
    parser.add_argument(
        "--name",
        help="what to add to the names of the files that are written (default: the kind of decoder, such as "
        "beam16-lm; nothing for greedy decoding)",
    )
    add_decoder_arguments(parser)


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Evaluate on one manifest and write a report; returns the exit status."""
    from asr.runs.run import Run

    run = Run.open(arguments.run)
    choice = decoder_of(arguments, run)
    decoder = choice.described()
    path = _report_path(run, arguments.manifest, _suffix(arguments.name, decoder))
    data_path = path.with_suffix(".json")
    _refuse_others(data_path, arguments.manifest, decoder)
    earlier = None
    if arguments.compare:  # before it may be written anew
        earlier = _earlier(arguments.compare, arguments.manifest, decoder, data_path)

    start_devices()
    from asr.evaluation.comparison import hypotheses_for
    from asr.evaluation.evaluator import Evaluator
    from asr.recognition.recognizer import Recognizer

    recognizer = Recognizer.of_choice(run, choice)
    data, num_left_out = evaluation_data(arguments.manifest, recognizer.vocabulary)
    if earlier:
        hypotheses_for(data.utterances, earlier[1], str(earlier[0]))  # before an hour of listening
    evaluator = Evaluator(recognizer.listener, recognizer.vocabulary, recognizer.decoder)
    evaluation = evaluator.evaluate(data)
    record = report(evaluation, run, arguments.manifest, path, decoder)
    if earlier:
        _compare(*earlier, record, path)
    return EXIT_MISTAKE if num_left_out else 0


def evaluation_data(manifest: Path, vocabulary: Vocabulary) -> tuple[Dataset, int]:
    """What can be heard of a manifest, and how many recordings cannot. Unknown labels count as errors."""
    from asr.model.listener import BATCH_S
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_audio, log_left_out
    from data_pipeline.manifest import read_manifest

    utterances = read_manifest(manifest)
    with ProgressBars() as bars:
        problems = check_audio(utterances, on_progress=bars)
    sound = [u for u, problem in zip(utterances, problems, strict=True) if not problem]
    log_left_out([problem for problem in problems if problem], len(utterances), str(manifest))
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
    return Dataset(sound, vocabulary, BATCH_S), len(utterances) - len(sound)


def report(
    evaluation: Evaluation, run: Run, manifest: Path, path: Path, decoder: Settings | None = None
) -> EvaluationRecord:
    """Tell the figures of an evaluation; write its report, data and labels to review beside it.

    Args:
        evaluation: of the run's best checkpoint.
        run: whose model it is.
        manifest: of the set.
        path: of the HTML file.
        decoder: its settings; None for those of the run.
    """
    from asr.base.config import dump_config
    from asr.base.wording import counted
    from asr.cli import console
    from asr.evaluation.label_review import review_candidates, write_review_of
    from asr.evaluation.scores import EvaluationRecord, scores_of, write_csv, write_json
    from asr.report.evaluation_page import write_report

    scores, doubtful = scores_of(evaluation.utterances, evaluation.hypotheses), review_candidates(evaluation)
    write_report(
        path,
        run_name=run.directory.name,
        set_name=manifest.stem,
        evaluation=evaluation,
        scores=scores,
        doubtful=doubtful,
        metrics=run.metrics(),
        token_counts=run.token_counts(),
        config_toml=dump_config(run.config()),
    )
    if decoder is None:
        decoder = DecoderChoice(run.decoder_settings()).described()
    record = EvaluationRecord.of(evaluation, run.directory.resolve().name, manifest, decoder)
    write_json(path.with_suffix(".json"), record, scores)
    write_csv(path.with_suffix(".csv"), record, scores)
    console.tell_evaluation(record, scores)
    print(f"\nReport: {path}\nas data: {path.with_suffix('.json').name}, {path.with_suffix('.csv').name}")
    review = path.with_name(path.name.replace("report", "review", 1)).with_suffix(".csv")
    if count := write_review_of(doubtful, evaluation.utterances, review):
        print(
            f"{counted(count, 'label')} may be wrong: {review}; mark those to accept, then: asr labels apply"
        )
    return record


def _report_path(run: Run, manifest: Path, suffix: str) -> Path:
    """Named by manifest, folder and decoder: many a corpus has its `test.jsonl`."""
    name = f"report-{manifest.resolve().parent.name}-{manifest.stem}"
    return run.directory / f"{name}{suffix}.html"


def _suffix(name: str | None, decoder: Settings) -> str:
    from asr.evaluation.scores import decoder_name

    if name is not None and not re.fullmatch(r"[\w.+-]+", name):
        raise UserError(f"--name {name!r}: expected letters, digits and . _ + -, such as beam64")
    name = name or decoder_name(decoder)
    return f"-{name}" if name else ""


def _refuse_others(path: Path, manifest: Path, decoder: Settings) -> None:
    """Raise a UserError where a file holds the evaluation of another set or decoder."""
    from asr.evaluation.scores import read_json

    try:
        there = read_json(path)
    except UserError:
        return  # nothing that could still be compared
    settings = sorted(
        key for key in there.decoder.keys() | decoder.keys() if there.decoder.get(key) != decoder.get(key)
    )
    if settings:
        what = f"an evaluation with another decoder ({', '.join(settings)})"
    elif there.manifest != str(manifest.resolve()):
        what = f"an evaluation of {there.manifest}"
    else:
        return
    raise UserError(f"{path}: {what} is there already; keep both by --name NAME, or remove it")


def _earlier(other: Path, manifest: Path, decoder: Settings, own: Path) -> tuple[Path, EvaluationRecord]:
    """The evaluation to compare with, and where it is: of a run, preferably one with the same decoder.

    What cannot be read in a run is passed over, and named only where nothing is left.
    """
    from asr.evaluation.scores import read_json
    from asr.runs.run import Run

    if not other.is_dir():
        return other, read_json(other)
    run = Run.open(other)
    paths = [path for path in run.directory.glob("report*.json") if path.resolve() != own.resolve()]
    found, mistakes = [], []
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        try:
            record = read_json(path)
        except UserError as error:
            mistakes.append(f"; {error}")
            continue
        if record.manifest == str(manifest.resolve()):
            found.append((path, record))
    if not found:
        command = f"asr evaluate {shlex.quote(str(other))} {shlex.quote(str(manifest))}"
        another = "another " if own.parent.resolve() == run.directory.resolve() else ""
        raise UserError(
            f"--compare {other}: {another}evaluation of {manifest} expected there; `{command}` makes one"
            + "".join(mistakes)
        )
    same = [pair for pair in found if pair[1].decoder == decoder]
    return (same or found)[-1]  # the newest


def _compare(earlier_path: Path, earlier: EvaluationRecord, record: EvaluationRecord, path: Path) -> None:
    """Tell how an evaluation differs from an earlier one, and write a page."""
    from asr.cli import console
    from asr.evaluation.comparison import compare_records
    from asr.report.evaluation_comparison_page import write_comparison

    comparison = compare_records(earlier, record, str(earlier_path))
    console.tell_comparison(comparison)
    other = earlier_path.stem.removeprefix("report").removeprefix("-")
    parts = ["compare", path.stem.removeprefix("report-"), "with", earlier.run, other]
    page = path.with_name("-".join(filter(None, parts)) + ".html")
    write_comparison(page, comparison)
    print(f"\nComparison: {page}")
