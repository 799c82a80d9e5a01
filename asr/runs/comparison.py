"""Compare runs: the settings in which they differ, and their results.

runs = read_runs([Path("runs/a"), Path("runs/b")])
differing(settings_of(runs))  # {"train.epochs": ("40", "60")}
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.text.wording import duration, percent, short_paths
from asr.runs.origin import Origin, read_origin
from asr.runs.progress import EpochError, EpochMetrics, chosen_error, lowest_error, throughput
from asr.runs.run import Run

Rows = Mapping[str, tuple[str, ...]]
"""Maps the name of a setting or of a result to its value in each run."""


@dataclass(frozen=True)
class ComparedRun:
    """One of the compared runs.

    Attributes:
        letter: names the run in tables and charts.
        name: the shortest name that distinguishes it from the others.
        directory: directory of the run.
        config: its settings; keys that are missing in an old run have their defaults.
        metrics: metrics of its epochs so far.
        origin: where the weights are from; None for a run that was trained.
        token: what its errors are of, see `Run.token_name`.
        start_error: dev error before training, of a run that starts from the weights of another.
    """

    letter: str
    name: str
    directory: Path
    config: Config
    metrics: Sequence[EpochMetrics]
    origin: Origin | None = None
    token: str = "token"
    start_error: float | None = None

    @property
    def best(self) -> EpochError | None:
        """Return the lowest dev error."""
        return lowest_error(self.metrics, self.start_error)

    @property
    def chosen(self) -> EpochError | None:
        """Return the dev error of the weights to decode with."""
        return chosen_error(self.metrics, self.start_error)

    @property
    def dev_error(self) -> float | None:
        """Return the lowest dev error rate; None before the first epoch."""
        if self.origin:
            return self.origin.dev_error
        return self.best.dev_error if self.best else None


def read_runs(directories: Sequence[Path]) -> list[ComparedRun]:
    """Read the runs to be compared, in their order.

    Raises:
        UserError: there are fewer than 2 or more than 26; one is given twice, is not a run, or is damaged.
    """
    if not 2 <= len(directories) <= len(ascii_uppercase):
        raise UserError(
            f"expected 2 to {len(ascii_uppercase)} runs to compare, received {len(directories)}; "
            "name their directories, such as runs/a runs/b"
        )
    seen: dict[Path, Path] = {}
    for directory in directories:
        first = seen.setdefault(directory.resolve(), directory)
        if first is not directory:
            same = f"the same run as {first}" if first != directory else "given twice"
            raise UserError(f"{directory}: {same}; name each run once")
    names = short_paths([directory.resolve() for directory in directories])
    runs = []
    for letter, name, directory in zip(ascii_uppercase, names, directories, strict=False):
        run = Run.open(directory)
        runs.append(
            ComparedRun(
                letter,
                name,
                directory,
                run.config(),
                run.metrics(),
                read_origin(run.directory),
                run.token_name(),
                run.start_error(),
            )
        )
    return runs


def settings_of(runs: Sequence[ComparedRun]) -> Rows:
    """Return every setting as `section.key`, with its value in each run."""
    return {
        f"{section.name}.{key.name}": tuple(
            format_setting(getattr(getattr(run.config, section.name), key.name)) for run in runs
        )
        for section in dataclasses.fields(Config)
        for key in dataclasses.fields(getattr(runs[0].config, section.name))
    }


def format_setting(value: object) -> str:
    """Format a setting's value as TOML, a word without its quotes."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def differing(rows: Rows) -> Rows:
    """Return the rows whose values differ between runs."""
    return {name: values for name, values in rows.items() if len(set(values)) > 1}


def results_of(runs: Sequence[ComparedRun]) -> Rows:
    """Return the results of each run so far; empty text for a run without epochs."""
    columns = [results_of_run(run) for run in runs]
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: tuple(column.get(name, "") for column in columns) for name in names}


def results_of_run(run: ComparedRun) -> dict[str, str]:
    """Return the results of a run by name."""
    if run.origin:
        results = {"epochs": run.origin.summary()}
    else:
        results = {"epochs": f"{len(run.metrics)} of {run.config.train.epochs}"}
    if run.dev_error is not None:
        results["errors of"] = f"{run.token}s"
        results["best dev error"] = percent(run.dev_error)
    if not run.metrics:
        return results
    last = run.metrics[-1]
    return results | {
        "at epoch": str(run.best.epoch) if run.best else "",
        "chosen epoch": str(run.chosen.epoch) if run.chosen else "",
        "its dev error": percent(run.chosen.dev_error) if run.chosen else "",
        "last training error": percent(last.train_error),
        "last training loss": f"{last.loss:.3f}",
        "last dev loss": f"{last.dev_loss:.3f}",
        "throughput": f"{throughput(run.metrics):,.0f} s/s",
        "training time": duration(last.train_s),
        "skipped batches": f"{sum(epoch.skipped for epoch in run.metrics):,}",
    }


def best_runs(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Return the runs with the lowest dev error: several if equal, none before the first epoch."""
    errors = [math.inf if run.dev_error is None else run.dev_error for run in runs]
    return [run for run, error in zip(runs, errors, strict=True) if error == min(errors) < math.inf]
