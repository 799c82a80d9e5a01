"""Runs side by side as one HTML page: best figures, curves over one another, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element

from asr.base.files import whole_file
from asr.base.version import __version__
from asr.base.wording import short_number, short_percent
from asr.pages.charts import Line, line_chart
from asr.pages.page import element, folded, page, section
from asr.runs.comparison import ComparedRun, Rows, differing, leaders, results_of, results_of_run, settings_of
from asr.runs.progress import EpochMetrics

NUM_COLOURS = (
    6  # of the style sheet; runs from the seventh on share them, and are told apart by their letters
)


def write_compare_page(path: Path, runs: Sequence[ComparedRun], written: datetime | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file; its folder is made.
        runs: at least two.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    title = ", ".join(run.name for run in runs[:-1]) + f" and {runs[-1].name}"
    cards = element("div", *(run_card(run, run in leaders(runs)) for run in runs), class_="runs")
    date = f"Written by Polyphone {__version__} on {written or datetime.now():%Y-%m-%d at %H:%M}."
    sections = [
        element("header", element("h1", f"{title}, side by side"), cards),
        *curves(runs),
        section("Results", "", side_by_side(runs, results_of(runs))),
        settings_section(runs),
        element("footer", date),
    ]
    with whole_file(path, "page") as file:
        file.write(page(f"{title} · side by side", sections).encode(errors="xmlcharrefreplace"))


def colour(run: ComparedRun) -> str:
    """The run's class in the style sheet."""
    return f"run r{(ord(run.letter) - ord('A')) % NUM_COLOURS + 1}"


def badge(run: ComparedRun) -> Element:
    """Its letter in its colour."""
    return element("b", run.letter, class_=f"badge {colour(run)}")


def run_card(run: ComparedRun, leads: bool) -> Element:
    """A run's name and its best figure."""
    figures = results_of_run(run)
    about = f"{figures['epochs']} epochs"
    if run.dev_error is not None:
        at_epoch = f", at epoch {run.best.epoch}" if run.best else ""
        about = f"{'the lowest ' if leads else ''}dev error{at_epoch}; {about}"
    return element(
        "article",
        element("h3", badge(run), run.name),
        element("p", element("strong", figures.get("best dev error", "\N{EM DASH}"))),
        element("small", about),
        class_=colour(run),
    )


def curves(runs: Sequence[ComparedRun]) -> list[Element]:
    """Of all runs over one another; those that have not begun draw none."""
    last = max((run.metrics[-1].epoch for run in runs if run.metrics), default=0)
    if not last:
        return []
    epochs = range(1, last + 1)

    def chart(
        title: str,
        quantity: str,
        value: Callable[[EpochMetrics], float],
        show: Callable[[float], str],
        *,
        ringed: bool = False,
        may_be_logarithmic: bool = True,
    ) -> Element:
        lines = [
            Line(
                f"{run.letter} {run.name}:",
                colour(run),
                over_epochs(run, epochs, value),
                label=run.letter,
                ring_epoch=run.best.epoch if ringed and run.best else None,
            )
            for run in runs
            if run.metrics
        ]
        return line_chart(
            title, quantity, epochs, lines, show=show, may_be_logarithmic=may_be_logarithmic, width=480
        )

    charts = [
        chart("Dev error", "errors per token", lambda m: m.dev_error, short_percent, ringed=True),
        chart("Training error", "errors per token", lambda m: m.train_error, short_percent),
        chart("Dev loss", "CTC loss per utterance", lambda m: m.dev_loss, short_number),
        chart(
            "Learning rate",
            "at the end of an epoch",
            lambda m: m.learning_rate,
            short_number,
            may_be_logarithmic=False,
        ),
    ]
    note = "A ring marks the best epoch of a run; point at an epoch to read it."
    return [section("Curves", note, element("div", *charts, class_="charts"))]


def over_epochs(
    run: ComparedRun, epochs: Sequence[int], value: Callable[[EpochMetrics], float]
) -> list[float]:
    """A value for each epoch; not a number where the run has not come so far."""
    known = {epoch.epoch: value(epoch) for epoch in run.metrics}
    return [known.get(epoch, math.nan) for epoch in epochs]


def settings_section(runs: Sequence[ComparedRun]) -> Element:
    """The settings that differ, and all of them folded."""
    settings = settings_of(runs)
    differ = differing(settings)
    shown = side_by_side(runs, differ) if differ else element("p", "All settings are the same.")
    every = side_by_side(runs, settings, marked=set(differ))
    note = f"{len(differ)} of {len(settings)} differ." if differ else ""
    return section("Settings", note, shown, folded("Every setting", every))


def side_by_side(runs: Sequence[ComparedRun], rows: Rows, marked: set[str] | None = None) -> Element:
    """A table with a column for each run."""
    names = [element("th", badge(run), run.name, scope="col") for run in runs]
    body = [
        element(
            "tr",
            element("th", name, scope="row"),
            *(element("td", value) for value in values),
            class_="differs" if name in (marked or ()) else "same",
        )
        for name, values in rows.items()
    ]
    head = element("thead", element("tr", element("th", scope="col"), *names))
    return element("div", element("table", head, element("tbody", *body)), class_="scroll words beside")
