"""`asr compare` shows in which settings runs differ, and their results, as text and as a page of curves."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.base.system.files import LONGEST_NAME

if TYPE_CHECKING:
    from asr.runs.comparison import ComparedRun, Rows


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run directories, such as runs/demo"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="the page of curves (default: compare-A-B.html beside run A, with the names of the runs)",
    )


def compare_command(arguments: argparse.Namespace) -> int:
    """Print tables of settings and results, write a page, and return the exit status."""
    from asr.report.run_comparison_page import write_run_comparison
    from asr.runs.comparison import differing, read_runs, results_of, settings_of

    runs = read_runs(arguments.runs)
    first = runs[0].directory
    folder = (first if first.name else first.resolve()).parent
    path = arguments.html or folder / _page_name([run.directory.resolve().name for run in runs])
    # a typing error must not overwrite a run's metrics or its report
    if path.suffix != ".html" or path.resolve().parent in {run.directory.resolve() for run in runs}:
        raise UserError(
            f"--html {path}: expected an .html file outside the run directories; choose another file"
        )
    settings = differing(settings_of(runs))
    for run in runs:
        print(f"{run.letter}  {run.directory}")
    _print_rows("settings that differ", runs, settings)
    if not settings:
        print("  none")
    _print_rows("results", runs, results_of(runs))
    write_run_comparison(path, runs)
    print(f"\nPage: {path}")
    return 0


def _page_name(names: Sequence[str]) -> str:
    name = f"compare-{'-'.join(names)}.html"
    if len(os.fsencode(name)) <= LONGEST_NAME:
        return name
    return f"compare-{names[0]}-and-{len(names) - 1}-more.html"


def _print_rows(title: str, runs: Sequence[ComparedRun], rows: Rows) -> None:
    from asr.base.text.terminal_table import align_columns

    print(f"\n{title}")
    if not rows:
        return
    table = [("", *(run.letter for run in runs)), *((name, *values) for name, values in rows.items())]
    for line in align_columns(table):
        print(f"  {line}")
