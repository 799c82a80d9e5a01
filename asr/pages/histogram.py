"""Draw histograms as inline SVG, with the counts as tooltips.

NumPy's bin edges are not round numbers; `asr/pages/charts.py` says why the SVG is drawn here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from asr.base.text.wording import counted
from asr.pages.charts import Chart, round_up
from asr.pages.svg import drawing, element

Values: TypeAlias = Sequence[float] | npt.NDArray[np.float64]

WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 12, 12, 42, 40  # margins around the bars, in pixels
MAX_BARS = 40
NUM_TICKS = 6
MIN_BAR_PX = 1.5  # keeps a bar of one clip among a hundred thousand visible
FENCE = 4.0  # interquartile ranges beside the quartiles; what is beyond would flatten the rest
MAX_BEYOND = 0.02  # a larger share is part of the distribution, and shown


def histogram(
    title: str,
    quantity: str,
    values: Values,
    *,
    show: Callable[[float], str],
    noun: str,
) -> Chart:
    """Draw a bar for the number of values in each range; a few far from all others are stated in words.

    Args:
        title: text above the chart.
        quantity: what the horizontal axis measures.
        values: the values; those that are not finite are left out.
        show: formats a value as text.
        noun: what is counted, such as "clip".
    """
    near, beyond = without_outliers(values)
    edges, counts = bins(near)
    svg = drawing(title, WIDTH, HEIGHT)
    floor, highest = HEIGHT - BOTTOM, max(counts, default=0)
    step = (WIDTH - LEFT - RIGHT) / max(1, len(counts))
    for index, count in enumerate(counts):
        x = round(LEFT + index * step, 1)
        height = max(MIN_BAR_PX, (floor - TOP) * count / highest) if count else 0.0
        bar = {"x": x + 0.5, "width": round(step - 1, 1), "y": round(floor - height, 1)}
        svg.append(element("rect", height=round(height, 1), style="fill:var(--dev)", **bar))
        reach = f"{show(edges[index])} to {show(edges[index + 1])}: {counted(count, noun)}"
        tip = {"x": x, "width": round(step, 1), "y": TOP, "height": floor - TOP}
        svg.append(element("rect", element("title", reach), class_="tip", **tip))
    for index in range(0, len(edges), max(1, math.ceil(len(counts) / NUM_TICKS))):
        x = round(LEFT + index * step, 1)
        svg.append(element("line", class_="axis", x1=x, x2=x, y1=floor, y2=floor + 4))
        svg.append(element("text", show(edges[index]), x=x, y=floor + 18, text_anchor="middle"))
    svg.append(element("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=floor, y2=floor))
    label = {"x": WIDTH / 2, "y": HEIGHT - 3, "text_anchor": "middle"}
    svg.append(element("text", quantity, class_="label", **label))
    svg.append(element("text", f"highest: {counted(highest, noun)}", class_="label", x=4, y=14))
    if len(beyond):
        reach = " to ".join(show(value) for value in sorted({float(beyond[0]), float(beyond[-1])}))
        note = f"not drawn: {counted(len(beyond), noun)} at {reach}"
        svg.append(element("text", note, class_="label", x=4, y=32))
    return Chart(title, WIDTH, svg)


def without_outliers(values: Values) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the values to draw, and those far from all others, sorted (Tukey's fences, at 4 ranges).

    Values that are not finite are left out.
    """
    known = np.asarray(values, np.float64)
    known = np.sort(known[np.isfinite(known)])
    if not len(known):
        return known, known
    low, high = np.percentile(known, [25, 75])
    reach = FENCE * ((high - low) or max(abs(high), 1.0) / 10)
    is_near = (known >= low - reach) & (known <= high + reach)
    if np.count_nonzero(~is_near) > max(1, MAX_BEYOND * len(known)):
        return known, known[:0]
    return known[is_near], known[~is_near]


def bins(values: Values) -> tuple[list[float], list[int]]:
    """Return round edges of equal ranges, and the number of values in each range."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return [0.0, 1.0], [0]
    low, high = float(known.min()), float(known.max())
    size = round_up((high - low) / MAX_BARS) if high > low else max(abs(low), 1.0) / 10
    first = math.floor(low / size)
    num_bars = math.floor(high / size) - first + 1
    indices = np.clip(np.floor(known / size).astype(int) - first, 0, num_bars - 1)
    counts = np.bincount(indices, minlength=num_bars)
    return [round((first + index) * size, 10) for index in range(num_bars + 1)], counts.tolist()
