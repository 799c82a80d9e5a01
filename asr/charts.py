"""Line charts over epochs, as inline SVG with their values as tooltips; their style is in `asr/page.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element

from asr.page import element

HEIGHT = 240
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 24, 36  # margins around the plot, in pixels
LOG_ABOVE = 5.0  # a wider range than this is drawn on a logarithmic scale
MAX_LOG_RANGE = 1000.0  # smaller values lie on the lower edge of a logarithmic scale


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        name: in the legend.
        kind: class in the style sheet.
        values: one an epoch; those not finite are left out.
    """

    name: str
    kind: Literal["train", "dev", "rate"]
    values: Sequence[float]


@dataclass(frozen=True)
class Axis:
    """From values to the share of the axis below them."""

    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the low end, 1 at the high end."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def line_chart(
    title: str,
    quantity: str,
    epochs: Sequence[int],
    lines: Sequence[Line],
    *,
    show: Callable[[float], str],
    best_epoch: int | None = None,
    width: int = 400,
    may_be_logarithmic: bool = True,
    x_label: str = "epoch",
) -> Element:
    """A figure: curves over epochs, with axes, a legend and, on the last line, a mark at the best epoch.

    Args:
        title: above the chart.
        quantity: what the vertical axis measures.
        epochs: of the values, ascending, at least one.
        lines: the curves.
        show: a value as text.
        best_epoch: one of `epochs`, or None for no mark.
        width: in pixels; the figure shrinks with its column.
        may_be_logarithmic: where the values' range is wide.
        x_label: what the horizontal axis counts.
    """
    y_axis = axis_over([value for line in lines for value in line.values], may_be_logarithmic)
    x_axis = Axis(epochs[0] - 0.5, epochs[0] + 0.5, epochs) if len(epochs) == 1 else epoch_axis(epochs)
    plot = Plot(width, x_axis, y_axis, show, x_label)
    scale = ", log scale" if y_axis.logarithmic else ""
    svg = element("svg", viewBox=f"0 0 {width} {HEIGHT}", role="img", aria_label=title)
    svg.append(element("text", f"{quantity}{scale}", class_="label", x=4, y=12))
    svg.extend(plot.grid())
    svg.extend(part for line in lines for part in plot.curve(epochs, line))
    if best_epoch is not None and len(epochs) > 1:
        svg.extend(plot.best_mark(best_epoch, lines[-1].values[list(epochs).index(best_epoch)]))
    svg.extend(plot.tooltips(epochs, lines))
    legend = [element("span", line.name, class_=f"key {line.kind}") for line in lines]
    caption = element("figcaption", element("strong", title), *(legend if len(lines) > 1 else []))
    return element("figure", caption, svg, style=f"--width:{width}")


@dataclass(frozen=True)
class Plot:
    """The area between the axes."""

    width: int
    x_axis: Axis
    y_axis: Axis
    show: Callable[[float], str]
    x_label: str

    def x(self, epoch: float) -> float:
        """Pixels from the left."""
        return round(LEFT + self.x_axis.share(epoch) * (self.width - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return round(HEIGHT - BOTTOM - self.y_axis.share(value) * (HEIGHT - TOP - BOTTOM), 1)

    def grid(self) -> list[Element]:
        """Both axes with their ticks."""
        right, floor = self.width - RIGHT, HEIGHT - BOTTOM
        parts = []
        for value in self.y_axis.ticks:
            y = self.y(value)
            parts.append(element("line", class_="grid", x1=LEFT, x2=right, y1=y, y2=y))
            parts.append(element("text", self.show(value), x=LEFT - 6, y=y + 4, text_anchor="end"))
        for epoch in self.x_axis.ticks:
            x = self.x(epoch)
            parts.append(element("line", class_="axis", x1=x, x2=x, y1=floor, y2=floor + 4))
            parts.append(element("text", f"{epoch:g}", x=x, y=floor + 17, text_anchor="middle"))
        parts.append(element("line", class_="axis", x1=LEFT, x2=right, y1=floor, y2=floor))
        middle = (LEFT + right) / 2
        parts.append(
            element("text", self.x_label, class_="label", x=middle, y=HEIGHT - 3, text_anchor="middle")
        )
        return parts

    def curve(self, epochs: Sequence[int], line: Line) -> list[Element]:
        """A line through its values; where there is only one, a dot."""
        known = [(e, v) for e, v in zip(epochs, line.values, strict=True) if math.isfinite(v)]
        if len(known) == 1:
            epoch, value = known[0]
            return [element("circle", class_=line.kind, cx=self.x(epoch), cy=self.y(value), r=4)]
        points = " ".join(f"{self.x(epoch)},{self.y(value)}" for epoch, value in known)
        return [element("polyline", class_=line.kind, points=points)]

    def best_mark(self, epoch: int, value: float) -> list[Element]:
        """A vertical line at the best epoch, named, and a ring around its value."""
        x = self.x(epoch)
        on_left = self.x_axis.share(epoch) > 0.5
        label_x, anchor = (x - 6, "end") if on_left else (x + 6, "start")
        label = f"best: epoch {epoch}, {self.show(value)}"
        parts = [
            element("line", class_="best", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM),
            element("text", label, class_="best", x=label_x, y=TOP + 12, text_anchor=anchor),
        ]
        if math.isfinite(value):
            parts.append(element("circle", class_="best", cx=x, cy=self.y(value), r=5))
        return parts

    def tooltips(self, epochs: Sequence[int], lines: Sequence[Line]) -> list[Element]:
        """An invisible band for each epoch that tells its values when pointed at."""
        band = (self.width - LEFT - RIGHT) / max(1, len(epochs) - 1)
        parts = []
        for place, epoch in enumerate(epochs):
            values = "".join(f"\n{line.name} {self.show(line.values[place])}" for line in lines)
            area = {"x": round(self.x(epoch) - band / 2, 1), "width": round(band, 1)}
            tooltip = element("title", f"{self.x_label} {epoch}{values}")
            parts.append(element("rect", tooltip, class_="tip", y=TOP, height=HEIGHT - TOP - BOTTOM, **area))
        return parts


def axis_over(values: Sequence[float], may_be_logarithmic: bool = True) -> Axis:
    """An axis for values from 0 up; logarithmic where a few high ones would press the rest flat."""
    known = [value for value in values if math.isfinite(value)]
    high = max(known, default=0.0)
    if high <= 0:
        return Axis(0.0, 1.0, [0.0, 1.0])
    low = max(min(value for value in known if value > 0), high / MAX_LOG_RANGE)
    if high / low <= LOG_ABOVE or not may_be_logarithmic:
        step = round_up(high / 5)
        count = math.ceil(high / step - 1e-9)
        return Axis(0.0, count * step, [index * step for index in range(count + 1)])
    ticks = [10.0**exponent * m for exponent in range(-12, 12) for m in (1, 2, 5)]
    first = max(index for index, tick in enumerate(ticks) if tick <= low or index == 0)
    last = min(index for index, tick in enumerate(ticks) if tick >= high or index == len(ticks) - 1)
    return Axis(ticks[first], ticks[last], ticks[first : last + 1], logarithmic=True)


def epoch_axis(epochs: Sequence[int]) -> Axis:
    """From the first epoch to the last, a handful of ticks between."""
    step = max(1, int(round_up((epochs[-1] - epochs[0]) / 8)))
    between = [tick for tick in range(0, epochs[-1] + 1, step) if tick > epochs[0] + step / 2]
    return Axis(epochs[0], epochs[-1], [epochs[0], *between])


def round_up(value: float) -> float:
    """The next of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ..."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= value * (1 - 1e-9))
