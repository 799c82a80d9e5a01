"""Which runs there are, how far each has come, and how to go on with it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from asr.base.config import Config
from asr.base.types import UserError
from asr.runs.average import read_origin
from asr.runs.progress import EpochMetrics, best_first
from asr.runs.resume_command import resume_command
from asr.runs.run import Run
from asr.runs.state import RunState, read_state

T = TypeVar("T")

DEPTH = 2  # runs stand in a folder, or in the folders below it
CAN_GO_ON = ("interrupted", "failed", "killed", "unknown")
WORKED_ON = ("config.toml", "metrics.jsonl", "state.json", "checkpoints/*")


@dataclass(frozen=True)
class RunSummary:
    """A run in a line.

    Attributes:
        directory: of the run.
        state: of `asr.runs.state.RunState`; or "damaged", or "average" for what `asr average` made.
        reason: for the state, where there is one.
        epochs_done: None where that cannot be read.
        num_epochs: to train; None where that cannot be read.
        best_dev_error: the lowest; None before the first.
        best_epoch: the one that has it; None for an average.
        train_s: seconds of training.
        worked_on_s: when something changed last, since 1970.
        command: goes on with the run; empty where there is nothing to go on with.
    """

    directory: Path
    state: str
    reason: str
    epochs_done: int | None
    num_epochs: int | None
    best_dev_error: float | None
    best_epoch: int | None
    train_s: float
    worked_on_s: float
    command: str


def list_runs(folders: Iterable[Path]) -> list[RunSummary]:
    """The runs of some folders, each of which may be a run itself; the last worked on comes last."""
    found = {directory.resolve(): directory for folder in folders for directory in _find(folder)}
    runs = [summarize(directory) for directory in found.values()]
    return sorted(runs, key=lambda run: (run.worked_on_s, str(run.directory)))


def summarize(directory: Path) -> RunSummary:
    """A run in a line, in whatever condition it is."""
    run, said = Run(directory), read_state(directory)
    config, config_trouble = _readable(run.config)
    metrics, metrics_trouble = _readable(lambda: _metrics(run))
    origin, origin_trouble = _readable(lambda: read_origin(directory))
    troubles = [*filter(None, (config_trouble, metrics_trouble, origin_trouble))]
    state: str = said.state
    reason = said.reason
    if troubles:
        state, reason = "damaged", ". ".join(troubles)
    elif origin:
        state, reason = "average", origin.in_words()
    best = next(iter(best_first(metrics or ())), None)
    return RunSummary(
        directory=directory,
        state=state,
        reason=reason,
        epochs_done=None if metrics is None else len(metrics),
        num_epochs=config.train.epochs if config else None,
        best_dev_error=best.dev_error if best else origin.dev_error if origin else None,
        best_epoch=best.epoch if best else None,
        train_s=metrics[-1].train_s if metrics else 0.0,
        worked_on_s=_worked_on_s(directory),
        command=_command(run, said, config, len(metrics or ())) if state in CAN_GO_ON and config else "",
    )


def _find(folder: Path) -> list[Path]:
    """Directories of runs, hidden ones left aside."""
    if Run(folder).is_there:
        return [folder]
    patterns = ["/".join(["*"] * depth + ["config.toml"]) for depth in range(1, DEPTH + 1)]
    found = (path.parent for pattern in patterns for path in folder.glob(pattern))
    return [run for run in found if not any(part.startswith(".") for part in run.relative_to(folder).parts)]


def _readable(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return what is read, or why it cannot be."""
    try:
        return read(), ""
    except UserError as error:
        return None, str(error)
    except RecursionError:  # of JSON that is nested without end
        return None, "nested too deeply"


def _metrics(run: Run) -> list[EpochMetrics]:
    metrics = run.metrics()
    for line, epoch in enumerate(metrics, 1):
        if not all(isinstance(value, int | float) for value in (epoch.epoch, epoch.dev_error, epoch.train_s)):
            path = run.directory / "metrics.jsonl"
            raise UserError(f"{path}: damaged (line {line}: expected numbers); mend or remove it")
    return metrics


def _command(run: Run, said: RunState, config: Config, epochs_done: int) -> str:
    """What to type to go on with a run, and where."""
    if said.command and said.directory == str(run.directory.resolve()):
        is_here = said.folder == str(Path.cwd())
        return said.command if is_here else f"cd {shlex.quote(said.folder)} && {said.command}"
    if said.state == "unknown" and epochs_done >= config.train.epochs:
        return ""
    return resume_command(run.directory.resolve())


def _worked_on_s(directory: Path) -> float:
    times_s = [0.0]
    for path in (path for pattern in WORKED_ON for path in directory.glob(pattern)):
        with contextlib.suppress(OSError):  # a checkpoint may go at any time
            times_s.append(path.stat().st_mtime)
    return max(times_s)
