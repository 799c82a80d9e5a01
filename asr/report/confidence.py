"""Makes the report's section on confidences: whether tokens of confidence 0.9 are right 9 times out of 10."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asr.base.text.wording import percent, short_percent
from asr.ctc.confidence import calibration
from asr.pages.charts import Chart, ChartLine, Quantity, line_chart
from asr.pages.page import Table
from asr.report.utterances import Scored

NUM_BINS = 10


@dataclass(frozen=True)
class Reliability:
    """How well confidences predict which tokens are right.

    Attributes:
        num_tokens: that were recognized.
        right: share of the tokens that are right.
        confidence: mean confidence.
        error: expected calibration error.
        chart: share of right tokens over confidence.
        table: the figures of the chart.
    """

    num_tokens: int
    right: float
    confidence: float
    error: float
    chart: Chart
    table: Table


def reliability(scored: Sequence[Scored]) -> Reliability | None:
    """Measure how well confidences predict right tokens; return None if the decoder gives no confidences."""
    with_confidences = [s for s in scored if s.hypothesis.confidences]
    confidences = [confidence for s in with_confidences for confidence in s.hypothesis.confidences]
    right = [pair.edit == "equal" for s in with_confidences for pair in s.pairs if pair.edit != "deletion"]
    if not confidences:
        return None
    measured = calibration(confidences, right, NUM_BINS)
    middles = [round(100 * (index + 0.5) / NUM_BINS) for index in range(NUM_BINS)]
    accuracies = {round(50 * (one.low + one.high)): one.accuracy for one in measured.bins}
    chart = line_chart(
        "Reliability",
        Quantity("tokens right", short_percent, may_be_logarithmic=False),
        middles,
        [
            ChartLine("perfect calibration", "rate", [middle / 100 for middle in middles]),
            ChartLine("tokens right", "dev", [accuracies.get(middle, math.nan) for middle in middles]),
        ],
        x_label="confidence in percent",
    )
    rows: list[list[str | float]] = [
        [f"{one.low:.0%} to {one.high:.0%}", one.accuracy, percent(one.confidence), f"{one.num_tokens:,}"]
        for one in reversed(measured.bins)
    ]
    table = Table(("confidence", "tokens right", "mean confidence", "tokens"), rows)
    return Reliability(
        len(right), float(np.mean(right)), float(np.mean(confidences)), measured.error, chart, table
    )
