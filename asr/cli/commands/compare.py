"""`asr compare`: in what settings runs differ and what came of it, as text and as a page of curves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError

if TYPE_CHECKING:
    from asr.runs.comparison import ComparedRun, Rows


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run directories, such as runs/demo"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="the page with curves (default: compare-A-B.html beside run A, by the names of the runs)",
    )


def compare_command(arguments: argparse.Namespace) -> int:
    """Print tables of settings and results and write a page; returns the exit status."""
    from asr.report.run_comparison_page import write_compare_page
    from asr.runs.comparison import differing, read_runs, results_of, settings_of

    runs = read_runs(arguments.runs)
    path = arguments.html or _default_path(runs)
    # a slip of the hand must not cost a run its metrics or its report
    if path.suffix != ".html" or path.resolve().parent in {run.directory.resolve() for run in runs}:
        raise UserError(f"--html {path}: expected an .html file outside the runs; name another")
    settings = differing(settings_of(runs))
    for run in runs:
        print(f"{run.letter}  {run.directory}")
    _tell("settings that differ", runs, settings)
    if not settings:
        print("  none")
    _tell("results", runs, results_of(runs))
    write_compare_page(path, runs)
    print(f"\nPage: {path}")
    return 0


def _default_path(runs: Sequence[ComparedRun]) -> Path:
    names = "-".join(run.directory.resolve().name for run in runs)
    first = runs[0].directory
    return (first if first.name else first.resolve()).parent / f"compare-{names}.html"


def _tell(title: str, runs: Sequence[ComparedRun], rows: Rows) -> None:
    from asr.base.columns import in_columns

    print(f"\n{title}")
    if not rows:
        return
    table = [("", *(run.letter for run in runs)), *((name, *values) for name, values in rows.items())]
    for line in in_columns(table):
        print(f"  {line}")
