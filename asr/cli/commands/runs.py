"""`asr runs`: which runs there are, how far each has come, and how to go on with it."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.types import UserError

if TYPE_CHECKING:
    from asr.runs.listing import RunSummary

RUNS_DIR = Path("runs")
HEADINGS = ("run", "state", "epoch", "best dev error", "trained for", "last worked on")
COLUMNS = 100  # of the terminal


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="a folder that runs are made in, or a run itself (default: runs)",
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects, for programs")


def runs_command(arguments: argparse.Namespace) -> int:
    """Print the runs of some folders; returns the exit status."""
    from asr.runs.listing import list_runs

    for folder in arguments.folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; name one that `asr train` has made runs in")
    folders = arguments.folders or [RUNS_DIR]
    runs = list_runs(folders)
    if arguments.json:
        print(json.dumps([_record(run) for run in runs], indent=2))
    elif runs:
        _tell(runs)
    else:
        from asr.runs.resume_command import asr_command

        print(f"{', '.join(map(str, folders))}: no runs here; make one by\n    {asr_command()} train demo")
    return 0


def _tell(runs: Sequence[RunSummary]) -> None:
    """A table, and below it what there is to say and to do about single runs."""
    for line in _table([HEADINGS, *map(_row, runs)]):
        print(line)
    for run in runs:
        if run.reason or run.command:
            print("\n" + "\n".join(_wrapped(_remark(run))))
        if run.command:
            print(f"    {run.command}")


def _remark(run: RunSummary) -> str:
    from asr.base.wording import visible
    from asr.cli.commands.train import add_train_arguments
    from asr.cli.errors import as_typed

    said = run.state
    if run.reason:
        of_train = argparse.ArgumentParser()  # what ended a run was raised there
        add_train_arguments(of_train)
        reason = visible(as_typed(run.reason, of_train))
        said += f"{' ' if run.state == 'average' else ': '}{reason}"
    go_on = ". Go on by" if run.reason else "; go on by"
    return f"{_name(run)}: {said}{go_on if run.command else ''}"


def _row(run: RunSummary) -> tuple[str, ...]:
    from asr.base.wording import duration

    epochs = f"{_or_unknown(run.epochs_done)} of {_or_unknown(run.num_epochs)}"
    error = "" if run.best_dev_error is None else f"{run.best_dev_error:.2%}"
    at = "" if run.best_epoch is None else f" (epoch {run.best_epoch})"
    return (
        _name(run),
        run.state,
        "" if run.state == "average" else epochs,
        error + at,
        duration(run.train_s) if run.train_s else "",
        f"{datetime.fromtimestamp(run.worked_on_s):%Y-%m-%d %H:%M}",
    )


def _record(run: RunSummary) -> dict[str, Any]:
    error = run.best_dev_error
    return {
        "run": str(run.directory),
        "state": run.state,
        "reason": run.reason,
        "epochs_done": run.epochs_done,
        "num_epochs": run.num_epochs,
        # JSON knows no infinity
        "best_dev_error": None if error is None or not math.isfinite(error) else error,
        "best_epoch": run.best_epoch,
        "train_s": run.train_s,
        "last_worked_on": datetime.fromtimestamp(run.worked_on_s).astimezone().isoformat(timespec="seconds"),
        "command": run.command,
    }


def _name(run: RunSummary) -> str:
    from asr.base.wording import visible

    return visible(str(run.directory if run.directory.name else run.directory.resolve()))


def _or_unknown(number: int | None) -> str:
    return "?" if number is None else str(number)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows under each other; a name that is too wide for its column stands above its row."""
    from asr.base.columns import GAP, join_cells, width_of

    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], COLUMNS - sum(widths[1:]) - GAP * len(widths[1:]))
    lines = []
    for name, *cells in rows:
        if width_of(name) > widths[0]:
            lines.append(name)
            name = ""
        lines.append(join_cells([name, *cells], widths))
    return lines


def _wrapped(text: str) -> list[str]:
    """A text cut between its words into lines of the terminal."""
    from asr.base.columns import width_of

    lines = [""]
    for word in text.split():
        if lines[-1] and width_of(f"{lines[-1]} {word}") > COLUMNS:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
