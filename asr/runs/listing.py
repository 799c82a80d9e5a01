"""List runs, with how far each has come and the command that resumes it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from asr.base.config import Config
from asr.base.errors import UserError
from asr.runs.origin import ORIGINS, read_origin
from asr.runs.progress import EpochMetrics, chosen_error, lowest_error
from asr.runs.resume_command import resume_command
from asr.runs.run import Run
from asr.runs.state import RunState, read_state

T = TypeVar("T")

DEPTH = 2  # runs are in the folder, or in its subfolders
RESUMABLE = ("interrupted", "failed", "killed", "unknown")
FILES_OF_ACTIVITY = ("config.toml", "metrics.jsonl", "state.json", "checkpoints/*")


@dataclass(frozen=True)
class RunSummary:
    """A run in one row.

    Attributes:
        directory: directory of the run.
        state: see `asr.runs.state.RunState`; or "damaged"; or "average" or "imported" for weights
            that were not trained there, see `asr.runs.origin`.
        reason: reason for the state, if there is one.
        epochs_done: number of finished epochs; None where it cannot be read.
        num_epochs: number of epochs to train; None where it cannot be read.
        best_dev_error: lowest dev error; None before the first epoch.
        best_epoch: the epoch with this error; None for an average.
        chosen_epoch: the epoch whose weights to decode with, 0 for those that training began from; None for
            an average.
        token: what the errors are of, see `Run.token_name`.
        train_s: seconds of training.
        last_modified_s: time of the last change, in seconds since 1970.
        command: shell command that resumes the run; empty where nothing is left to train.
    """

    directory: Path
    state: str
    reason: str
    epochs_done: int | None
    num_epochs: int | None
    best_dev_error: float | None
    best_epoch: int | None
    chosen_epoch: int | None
    token: str
    train_s: float
    last_modified_s: float
    command: str

    @property
    def is_trained_here(self) -> bool:
        """Return whether the run trains: the weights of others are from elsewhere."""
        return self.state not in (kind.STATE for kind in ORIGINS)


def list_runs(folders: Iterable[Path]) -> list[RunSummary]:
    """Return the runs in some folders, which may also be runs themselves; the last modified one is last."""
    found = {directory.resolve(): directory for folder in folders for directory in _find(folder)}
    runs = [summarize(directory) for directory in found.values()]
    return sorted(runs, key=lambda run: (run.last_modified_s, str(run.directory)))


def summarize(directory: Path) -> RunSummary:
    """Summarize a run in one row, even if it is damaged."""
    run, recorded = Run(directory), read_state(directory)
    config, config_trouble = _read_or_reason(run.config)
    metrics, metrics_trouble = _read_or_reason(lambda: _metrics(run))
    origin, origin_trouble = _read_or_reason(lambda: read_origin(directory))
    start_error, start_trouble = _read_or_reason(run.start_error)
    troubles = [*filter(None, (config_trouble, metrics_trouble, origin_trouble, start_trouble))]
    state: str = recorded.state
    reason = recorded.reason
    if troubles:
        state, reason = "damaged", ". ".join(troubles)
    elif origin:
        state, reason = origin.STATE, origin.describe()
    best, chosen = lowest_error(metrics or (), start_error), chosen_error(metrics or (), start_error)
    return RunSummary(
        directory=directory,
        state=state,
        reason=reason,
        epochs_done=None if metrics is None else len(metrics),
        num_epochs=config.train.epochs if config else None,
        best_dev_error=best.dev_error if best else origin.dev_error if origin else None,
        best_epoch=best.epoch if best else None,
        chosen_epoch=chosen.epoch if chosen else None,
        token=run.token_name(),
        train_s=metrics[-1].train_s if metrics else 0.0,
        last_modified_s=_last_modified_s(directory),
        command=_command(run, recorded, config, len(metrics or ())) if state in RESUMABLE and config else "",
    )


def _find(folder: Path) -> list[Path]:
    """Return the directories of runs, without hidden ones."""
    if Run(folder).exists:
        return [folder]
    patterns = ["/".join(["*"] * depth + ["config.toml"]) for depth in range(1, DEPTH + 1)]
    found = (path.parent for pattern in patterns for path in folder.glob(pattern))
    return [run for run in found if not any(part.startswith(".") for part in run.relative_to(folder).parts)]


def _read_or_reason(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return what a function reads, or an error message why it cannot be read."""
    try:
        return read(), ""
    except UserError as error:
        return None, str(error)
    except RecursionError:  # JSON that is nested too deeply
        return None, "nested too deeply"


def _metrics(run: Run) -> list[EpochMetrics]:
    metrics = run.metrics()
    for line, epoch in enumerate(metrics, 1):
        if not all(isinstance(value, int | float) for value in (epoch.epoch, epoch.dev_error, epoch.train_s)):
            path = run.directory / "metrics.jsonl"
            raise UserError(f"{path}: damaged (line {line}: expected numbers); repair or remove it")
    return metrics


def _command(run: Run, recorded: RunState, config: Config, epochs_done: int) -> str:
    """Return the shell command that resumes a run, with a change of directory if needed."""
    if recorded.command and recorded.directory == str(run.directory.resolve()):
        is_here = recorded.folder == str(Path.cwd())
        return recorded.command if is_here else f"cd {shlex.quote(recorded.folder)} && {recorded.command}"
    if recorded.state == "unknown" and epochs_done >= config.train.epochs:
        return ""
    return resume_command(run.directory.resolve())


def _last_modified_s(directory: Path) -> float:
    times_s = [0.0]
    for path in (path for pattern in FILES_OF_ACTIVITY for path in directory.glob(pattern)):
        with contextlib.suppress(OSError):  # a checkpoint may be removed at any time
            times_s.append(path.stat().st_mtime)
    return max(times_s)
