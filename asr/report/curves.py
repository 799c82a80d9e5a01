"""The report's curves over epochs: errors, loss, learning rate, throughput, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from asr.base.wording import duration, percent, short_number, short_percent
from asr.pages.charts import Line, line_chart, stacked_chart
from asr.pages.page import element, folded, section, table
from asr.runs.progress import EpochMetrics, best_epoch

NARROW = 240


def learning_curves(metrics: Sequence[EpochMetrics]) -> list[Element]:
    """Errors, loss and learning rate over epochs, and the same as a table."""
    if not metrics:
        return []
    epochs, best = [m.epoch for m in metrics], best_epoch(metrics) or None
    errors = [
        Line("training", "train", [m.train_error for m in metrics]),
        Line("dev", "dev", [m.dev_error for m in metrics]),
    ]
    losses = [
        Line("training", "train", [m.loss for m in metrics]),
        Line("dev", "dev", [m.dev_loss for m in metrics]),
    ]
    charts = [
        line_chart("Error rate", "errors per token", epochs, errors, show=short_percent, best_epoch=best),
        line_chart("Loss", "CTC loss per utterance", epochs, losses, show=short_number, best_epoch=best),
        small_chart("Learning rate", "at the end of an epoch", metrics, [m.learning_rate for m in metrics]),
    ]
    note = "Training figures are met in training, augmentation and dropout on; point at an epoch to read it."
    drawn = element("div", *charts, class_="charts")
    return [section("Learning curves", note, drawn, folded("Every epoch", epoch_table(metrics)))]


def course_of_training(metrics: Sequence[EpochMetrics]) -> list[Element]:
    """Time, throughput and gradients over epochs; what an old run did not measure is left out."""
    if not metrics:
        return []
    note, charts = "", []
    if any(m.dev_s for m in metrics):
        chart, note = where_the_time_went(metrics)
        charts.append(chart)
    speeds = [m.audio_s_per_s for m in metrics]
    charts.append(small_chart("Throughput", "audio s per s of training", metrics, speeds))
    norms, skipped = [m.gradient_norm for m in metrics], [float(m.skipped) for m in metrics]
    if any(norms):
        charts.append(small_chart("Gradient norm", "mean, before clipping", metrics, norms))
    if any(skipped):
        charts.append(small_chart("Skipped batches", "loss or gradients infinite", metrics, skipped))
    return [section("Course of training", note, element("div", *charts, class_="charts"))]


def where_the_time_went(metrics: Sequence[EpochMetrics]) -> tuple[Element, str]:
    """How each epoch's time was shared, as a chart, and the whole run's in words."""
    parts = [time_parts(before_s, m) for before_s, m in zip(seconds_before(metrics), metrics, strict=True)]
    names = {"device": "on the device", "waiting": "waiting for data", "evaluation": "evaluation"}
    layers = [
        Line(name, kind, [epoch_s[place] / max(sum(epoch_s), 1e-9) for epoch_s in parts])
        for place, (kind, name) in enumerate(names.items())
    ]
    epochs = [m.epoch for m in metrics]
    chart = stacked_chart("Where the time went", "share of an epoch", epochs, layers, show=short_percent)
    in_all_s = [sum(part_s) for part_s in zip(*parts, strict=True)]
    facts = [
        f"{percent(part_s / max(sum(in_all_s), 1e-9))} {name} ({duration(part_s)})"
        for part_s, name in zip(in_all_s, names.values(), strict=True)
    ]
    return chart, f"Of {duration(sum(in_all_s))}: {', '.join(facts)}."


def seconds_before(metrics: Sequence[EpochMetrics]) -> list[float]:
    """Of training, before each epoch."""
    return [0.0, *(m.train_s for m in metrics)][: len(metrics)]


def time_parts(before_s: float, epoch: EpochMetrics) -> tuple[float, float, float]:
    """Seconds of an epoch: training, waiting for data, evaluation."""
    train_s = epoch.train_s - before_s
    waiting_s = train_s * epoch.waiting_share
    return train_s - waiting_s, waiting_s, epoch.dev_s


def small_chart(
    title: str, quantity: str, metrics: Sequence[EpochMetrics], values: Sequence[float]
) -> Element:
    """One quantity over epochs."""
    line = Line(title.lower(), "rate", values)
    epochs = [m.epoch for m in metrics]
    return line_chart(
        title, quantity, epochs, [line], show=short_number, width=NARROW, may_be_logarithmic=False
    )


def epoch_table(metrics: Sequence[EpochMetrics]) -> Element:
    """What the curves draw, in figures."""
    best = best_epoch(metrics)
    headings = ("epoch", "training errors", "dev errors", "training loss", "dev loss", "learning rate")
    rows = [
        [
            f"{m.epoch} (best)" if m.epoch == best else str(m.epoch),
            *map(percent, (m.train_error, m.dev_error)),
            *(f"{loss:.3f}" for loss in (m.loss, m.dev_loss)),
            f"{m.learning_rate:.2e}",
            f"{m.audio_s_per_s:,.0f}",
            duration(m.train_s),
        ]
        for m in metrics
    ]
    return table([*headings, "audio s/s", "trained for"], rows)
