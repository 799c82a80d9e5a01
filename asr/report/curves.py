"""Draws the report's curves over epochs: errors, loss, learning rate, throughput and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr.base.text.wording import duration, percent, short_number, short_percent
from asr.pages.charts import Chart, ChartLine, Quantity, line_chart, stacked_chart
from asr.pages.page import Table
from asr.runs.progress import EpochMetrics, best_first, chosen_epoch

NARROW = 240


@dataclass(frozen=True)
class Curves:
    """The charts of a run's epochs.

    Attributes:
        learning: charts of errors, loss and learning rate.
        table: the figures of every epoch.
        course: charts of time, throughput and gradients, without those that an old run did not measure.
        total_s: duration of the whole run; 0 if times were not measured.
        time_parts_s: seconds of each part of the duration, by name.
    """

    learning: Sequence[Chart]
    table: Table
    course: Sequence[Chart]
    total_s: float
    time_parts_s: Mapping[str, float]


def curves(metrics: Sequence[EpochMetrics], unit: str) -> Curves | None:
    """Draw the curves over epochs, errors per unit; return None if there are no epochs."""
    if not metrics:
        return None
    course = []
    parts_s: dict[str, float] = {}
    if any(m.dev_s for m in metrics):
        chart, parts_s = where_the_time_went(metrics)
        course.append(chart)
    speeds = [m.audio_s_per_s for m in metrics]
    course.append(small_chart("Throughput", "audio s per s of training", metrics, speeds))
    norms, skipped = [m.gradient_norm for m in metrics], [float(m.skipped) for m in metrics]
    if any(norms):
        course.append(small_chart("Gradient norm", "mean, before clipping", metrics, norms))
    if any(skipped):
        course.append(small_chart("Skipped batches", "loss or gradients infinite", metrics, skipped))
    return Curves(
        learning_charts(metrics, unit), epoch_table(metrics, unit), course, sum(parts_s.values()), parts_s
    )


def learning_charts(metrics: Sequence[EpochMetrics], unit: str) -> list[Chart]:
    """Draw errors, loss and learning rate over epochs."""
    epochs, chosen = [m.epoch for m in metrics], chosen_epoch(metrics) or None
    errors = [
        ChartLine("training", "train", [m.train_error for m in metrics]),
        ChartLine("dev", "dev", [m.dev_error for m in metrics], chosen_epoch=chosen),
    ]
    losses = [
        ChartLine("training", "train", [m.loss for m in metrics]),
        ChartLine("dev", "dev", [m.dev_loss for m in metrics], chosen_epoch=chosen),
    ]
    return [
        line_chart(
            f"{unit.capitalize()} error rate",
            Quantity(f"errors per {unit}", short_percent),
            epochs,
            errors,
        ),
        line_chart("Loss", Quantity("CTC loss per utterance", short_number), epochs, losses),
        small_chart("Learning rate", "at the end of an epoch", metrics, [m.learning_rate for m in metrics]),
    ]


def where_the_time_went(metrics: Sequence[EpochMetrics]) -> tuple[Chart, dict[str, float]]:
    """Draw the parts of each epoch's time, and return them with the whole run's seconds by part."""
    befores_s = [0.0, *(m.train_s for m in metrics)][: len(metrics)]
    parts = [time_parts(before_s, m) for before_s, m in zip(befores_s, metrics, strict=True)]
    names = {"device": "on the device", "waiting": "waiting for data", "evaluation": "evaluation"}
    layers = [
        ChartLine(name, kind, [epoch_s[index] / max(sum(epoch_s), 1e-9) for epoch_s in parts])
        for index, (kind, name) in enumerate(names.items())
    ]
    epochs = [m.epoch for m in metrics]
    chart = stacked_chart("Where the time went", Quantity("share of an epoch", short_percent), epochs, layers)
    return chart, dict(zip(names.values(), map(sum, zip(*parts, strict=True)), strict=True))


def time_parts(before_s: float, epoch: EpochMetrics) -> tuple[float, float, float]:
    """Return the seconds of an epoch: on the device, waiting for data, evaluation."""
    train_s = epoch.train_s - before_s
    waiting_s = train_s * epoch.waiting_share
    return train_s - waiting_s, waiting_s, epoch.dev_s


def small_chart(title: str, quantity: str, metrics: Sequence[EpochMetrics], values: Sequence[float]) -> Chart:
    """Draw one quantity over epochs."""
    line = ChartLine(title.lower(), "rate", values)
    epochs = [m.epoch for m in metrics]
    shown = Quantity(quantity, short_number, may_be_logarithmic=False)
    return line_chart(title, shown, epochs, [line], width=NARROW)


def epoch_table(metrics: Sequence[EpochMetrics], unit: str) -> Table:
    """Return a table of the figures that the curves draw."""
    marks = {best_first(metrics)[0].epoch: ["best"]}
    marks.setdefault(chosen_epoch(metrics), []).append("chosen")
    headings = (
        "epoch",
        f"training {unit} errors",
        f"dev {unit} errors",
        "training loss",
        "dev loss",
        "learning rate",
    )
    rows = [
        [
            f"{m.epoch} ({', '.join(marks[m.epoch])})" if m.epoch in marks else str(m.epoch),
            *map(percent, (m.train_error, m.dev_error)),
            *(f"{loss:.3f}" for loss in (m.loss, m.dev_loss)),
            f"{m.learning_rate:.2e}",
            f"{m.audio_s_per_s:,.0f}",
            duration(m.train_s),
        ]
        for m in metrics
    ]
    return Table([*headings, "audio s/s", "trained for"], rows)
