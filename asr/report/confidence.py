"""The report's section on confidences: whether what is said to be 90 % sure is right nine times of ten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree.ElementTree import Element

import numpy as np

from asr.base.wording import percent, short_percent
from asr.pages.charts import Line, line_chart
from asr.pages.page import element, section, table
from asr.recognition.decoding.confidence import calibration
from asr.report.utterances import Scored

NUM_BINS = 10


def confidence_section(scored: Sequence[Scored]) -> list[Element]:
    """A reliability diagram; nothing where the decoder tells no confidences."""
    told = [s for s in scored if s.hypothesis.confidences]
    confidences = [confidence for s in told for confidence in s.hypothesis.confidences]
    right = [pair.edit == "equal" for s in told for pair in s.pairs if pair.edit != "deletion"]
    if not confidences:
        return []
    measured = calibration(confidences, right, NUM_BINS)
    bias = float(np.mean(confidences)) - float(np.mean(right))
    verdict = "surer than it should be" if bias > 0 else "less sure than it could be"
    note = (
        f"Of {len(right):,} tokens heard, {percent(float(np.mean(right)))} are right; their confidences say "
        f"{percent(float(np.mean(confidences)))} on average: the model is {verdict}. Expected calibration "
        f"error: {percent(measured.error)}."
    )
    middles = [round(100 * (place + 0.5) / NUM_BINS) for place in range(NUM_BINS)]
    accuracies = {round(50 * (one.low + one.high)): one.accuracy for one in measured.bins}
    chart = line_chart(
        "Is it as sure as it is right?",
        "tokens right",
        middles,
        [
            Line("as sure as right", "rate", [middle / 100 for middle in middles]),
            Line("tokens right", "dev", [accuracies.get(middle, math.nan) for middle in middles]),
        ],
        show=short_percent,
        may_be_logarithmic=False,
        x_label="confidence in percent",
    )
    rows: list[list[str | float]] = [
        [f"{one.low:.0%} to {one.high:.0%}", one.accuracy, percent(one.confidence), f"{one.num_tokens:,}"]
        for one in reversed(measured.bins)
    ]
    shown = table(("confidence", "tokens right", "mean confidence", "tokens"), rows)
    return [section("Confidences", note, element("div", chart, shown, class_="columns"))]
