"""`asr evaluate` measures a trained model on a manifest, and compares it with an earlier evaluation."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.cli.commands import EXIT_MISTAKE
from asr.cli.options.decoder import add_decoder_arguments, decoder_choice


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", help="a run directory, such as runs/demo, a model file, or its address")
    parser.add_argument(
        "manifest",
        type=Path,
        help="JSON Lines, such as data/mandarin_demo/test.jsonl; 'test-*.jsonl', in quotes, for one in "
        "several files",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="OTHER",
        help="compare this evaluation (B) with an earlier one (A) of the same utterances: the JSON file that "
        "it wrote, or a run directory that was evaluated on the manifest",
    )
    parser.add_argument(
        "--name",
        help="suffix for the names of the files that are written (default: the kind of decoder, such as "
        "beam16-lm; none for greedy decoding)",
    )
    add_decoder_arguments(parser)


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Evaluate on one manifest, write a report, and return the exit status."""
    from asr.cli import console
    from asr.cli.progress_bars import ProgressBars
    from asr.evaluation.comparison import compare_records
    from asr.evaluation.record_files import (
        comparison_path,
        earlier_evaluation,
        refuse_other_evaluation,
        report_path,
    )
    from asr.evaluation.run_evaluation import evaluate
    from asr.report.evaluation_comparison_page import write_evaluation_comparison
    from asr.report.files import report_files, write_report_files
    from asr.runs.run import Run

    run, manifest = Run.open(arguments.run), arguments.manifest
    choice = decoder_choice(arguments, run)
    decoder = choice.as_record()
    page = report_path(run, manifest, decoder, arguments.name)
    record_path = report_files(page).record
    refuse_other_evaluation(record_path, manifest, decoder)
    earlier = None
    if arguments.compare:  # before it may be overwritten
        earlier = earlier_evaluation(arguments.compare, manifest, decoder, record_path)
    with ProgressBars() as bars:
        evaluated = evaluate(run.directory, manifest, choice=choice, compared_with=earlier, on_progress=bars)
    # before any file is written: a full disk would lose the results
    console.print_evaluation(evaluated.record, evaluated.scores)
    if earlier is not None:
        comparison = compare_records(earlier.record, evaluated.record, str(earlier.path), str(record_path))
        console.print_comparison(comparison)
    console.print_report_files(write_report_files(evaluated, page))
    if earlier is not None:
        comparison_page = comparison_path(page, earlier)
        write_evaluation_comparison(comparison_page, comparison)
        print(f"\nComparison: {comparison_page}")
    return EXIT_MISTAKE if evaluated.num_left_out else 0
