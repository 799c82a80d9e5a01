"""Writes the comparison of runs as one HTML page: best figures, curves in one chart, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.text.wording import percent, short_number, short_percent
from asr.pages.charts import Chart, ChartLine, Quantity, line_chart
from asr.pages.page import write_page
from asr.runs.comparison import ComparedRun, best_runs, differing, results_of, results_of_run, settings_of
from asr.runs.origin import ImportOrigin, ModelFileOrigin
from asr.runs.progress import EpochMetrics

NUM_COLOURS = 6  # of the stylesheet; runs from the seventh on share them, and differ by their letters


def write_run_comparison(path: Path, runs: Sequence[ComparedRun]) -> None:
    """Write the comparison of runs as an HTML page, atomically.

    Args:
        path: of the HTML file; its folder is created.
        runs: at least two.

    Raises:
        UserError: the file cannot be written.
    """
    settings = settings_of(runs)
    write_page(
        path,
        "asr.report",
        "run_comparison.html",
        runs=runs,
        cards=[_card(run, run in best_runs(runs)) for run in runs],
        colours={run.letter: colour(run) for run in runs},
        charts=_charts(runs),
        results=results_of(runs),
        settings=settings,
        differing=differing(settings),
    )


def colour(run: ComparedRun) -> str:
    """Return the run's class in the stylesheet."""
    return f"run r{(ord(run.letter) - ord('A')) % NUM_COLOURS + 1}"


@dataclass(frozen=True)
class _Card:
    """A run's best figure."""

    run: ComparedRun
    dev_error: str
    about: str


def _card(run: ComparedRun, leads: bool) -> _Card:
    figures = results_of_run(run)
    is_foreign = isinstance(run.origin, ImportOrigin | ModelFileOrigin)
    about = figures["epochs"] if is_foreign else f"{figures['epochs']} epochs"
    if run.dev_error is not None:
        epochs = f", at epoch {run.best.epoch}" if run.best else ""
        if run.chosen and run.chosen != run.best:
            epochs += f"; chosen: epoch {run.chosen.epoch}, {percent(run.chosen.dev_error)}"
        lead = ", the lowest of these runs" if leads else ""
        about = f"best dev {run.token} error rate{lead}{epochs}; {about}"
    return _Card(run, figures.get("best dev error", "\N{EM DASH}"), about)


def _charts(runs: Sequence[ComparedRun]) -> list[Chart]:
    """Draw the curves of all runs in one chart; runs that have not begun have none."""
    last = max((run.metrics[-1].epoch for run in runs if run.metrics), default=0)
    if not last:
        return []
    epochs = range(1, last + 1)

    def chart(
        title: str, quantity: Quantity, value: Callable[[EpochMetrics], float], *, ringed: bool = False
    ) -> Chart:
        lines = [
            ChartLine(
                f"{run.letter} {run.name}:",
                colour(run),
                over_epochs(run, epochs, value),
                label=run.letter,
                ring_epoch=(run.chosen.epoch or None) if ringed and run.chosen else None,
            )
            for run in runs
            if run.metrics
        ]
        return line_chart(title, quantity, epochs, lines)

    error = Quantity("errors per token", short_percent)
    loss = Quantity("CTC loss per utterance", short_number)
    rate = Quantity("at the end of an epoch", short_number, may_be_logarithmic=False)
    return [
        chart("Dev error", error, lambda m: m.dev_error, ringed=True),
        chart("Training error", error, lambda m: m.train_error),
        chart("Dev loss", loss, lambda m: m.dev_loss),
        chart("Learning rate", rate, lambda m: m.learning_rate),
    ]


def over_epochs(
    run: ComparedRun, epochs: Sequence[int], value: Callable[[EpochMetrics], float]
) -> list[float]:
    """Return a value for each epoch; NaN for epochs that the run has not reached."""
    known = {epoch.epoch: value(epoch) for epoch in run.metrics}
    return [known.get(epoch, math.nan) for epoch in epochs]
