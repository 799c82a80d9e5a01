"""`asr runs` lists runs, the state of each, and the commands that resume them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.errors import UserError

if TYPE_CHECKING:
    from asr.runs.listing import RunSummary

RUNS_DIR = Path("runs")
HEADINGS = ("run", "state", "epoch", "best dev error", "chosen", "trained for", "last active")
COLUMNS = 100  # of the terminal


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="a folder of runs, or a run itself (default: runs)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects")


def runs_command(arguments: argparse.Namespace) -> int:
    """Print the runs in some folders, and return the exit status."""
    from asr.runs.listing import list_runs

    for folder in arguments.folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; expected one in which `asr train` has made runs")
    folders = arguments.folders or [RUNS_DIR]
    runs = list_runs(folders)
    if arguments.json:
        print(json.dumps([_record(run) for run in runs], indent=2))
    elif runs:
        _print_runs(runs)
    else:
        from asr.runs.resume_command import asr_command

        print(f"{', '.join(map(str, folders))}: no runs; start one with\n    {asr_command()} train demo")
    return 0


def _print_runs(runs: Sequence[RunSummary]) -> None:
    """Print a table of runs, and below it why runs ended and how to resume them."""
    for line in _table([HEADINGS, *map(_row, runs)]):
        print(line)
    for run in runs:
        if run.reason or run.command:
            print("\n" + "\n".join(_wrapped(_remark(run))))
        if run.command:
            print(f"    {run.command}")


def _remark(run: RunSummary) -> str:
    from asr.base.text.wording import visible
    from asr.cli.commands.training.train import add_train_arguments
    from asr.cli.errors import with_options

    remark = run.state
    if run.reason:
        train_parser = argparse.ArgumentParser()  # `asr train` raised what ended the run
        add_train_arguments(train_parser)
        reason = visible(with_options(run.reason, train_parser))
        remark += f"{': ' if run.is_trained_here else ' '}{reason}"
    resume = ". Resume with" if run.reason else "; resume with"
    return f"{_name(run)}: {remark}{resume if run.command else ''}"


def _row(run: RunSummary) -> tuple[str, ...]:
    from asr.base.text.wording import duration

    epochs = f"{_or_unknown(run.epochs_done)} of {_or_unknown(run.num_epochs)}"
    error = "" if run.best_dev_error is None else f"{run.best_dev_error:.2%} of {run.token}s"
    at = "" if run.best_epoch is None else f" (epoch {run.best_epoch})"
    return (
        _name(run),
        run.state,
        epochs if run.is_trained_here else "",
        error + at,
        "" if run.chosen_epoch is None else f"epoch {run.chosen_epoch}",
        duration(run.train_s) if run.train_s else "",
        f"{datetime.fromtimestamp(run.last_modified_s):%Y-%m-%d %H:%M}",
    )


def _record(run: RunSummary) -> dict[str, Any]:
    error = run.best_dev_error
    return {
        "run": str(run.directory),
        "state": run.state,
        "reason": run.reason,
        "epochs_done": run.epochs_done,
        "num_epochs": run.num_epochs,
        # JSON has no infinity
        "best_dev_error": None if error is None or not math.isfinite(error) else error,
        "best_epoch": run.best_epoch,
        "chosen_epoch": run.chosen_epoch,
        "unit": run.token,
        "train_s": run.train_s,
        "last_worked_on": datetime.fromtimestamp(run.last_modified_s)
        .astimezone()
        .isoformat(timespec="seconds"),
        "command": run.command,
    }


def _name(run: RunSummary) -> str:
    from asr.base.text.wording import visible

    return visible(str(run.directory if run.directory.name else run.directory.resolve()))


def _or_unknown(number: int | None) -> str:
    return "?" if number is None else str(number)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; a name that is too wide for its column is put on a line above its row."""
    from asr.base.text.terminal_table import GAP, display_width, join_cells

    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], COLUMNS - sum(widths[1:]) - GAP * len(widths[1:]))
    lines = []
    for name, *cells in rows:
        if display_width(name) > widths[0]:
            lines.append(name)
            name = ""
        lines.append(join_cells([name, *cells], widths))
    return lines


def _wrapped(text: str) -> list[str]:
    """Return a text as lines of at most `COLUMNS` columns, broken between words."""
    from asr.base.text.terminal_table import display_width

    lines = [""]
    for word in text.split():
        if lines[-1] and display_width(f"{lines[-1]} {word}") > COLUMNS:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
