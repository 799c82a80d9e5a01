"""Draw line charts over epochs as inline SVG with tooltips, styled by `templates/style.css`.

A chart takes a few kilobytes without scripts or fonts, gets its colours from the page's stylesheet in light
and dark mode, and has a tooltip for each epoch. matplotlib's SVG has fixed colours and no tooltips; Vega and
Plotly need megabytes of JavaScript.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from asr.pages.svg import drawing, element

WIDTH, HEIGHT = 400, 240  # in pixels; a figure shrinks with its column
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 28, 40  # margins around the plot, in pixels
LABEL_PX = 15  # height of a line's label, and maximum width of a character
LOG_ABOVE = 5.0  # a wider range (highest / lowest value) gets a logarithmic scale
MAX_LOG_RANGE = 1000.0  # values below highest / MAX_LOG_RANGE are drawn at the lower edge


@dataclass(frozen=True)
class ChartLine:
    """One curve of a chart.

    Attributes:
        name: text in the legend and in tooltips.
        kind: class in the stylesheet: train, dev, rate, "run r1" to "run r6"; of layers: device, waiting,
            evaluation.
        values: one for each epoch; values that are not finite are left out.
        label: a letter or two at the end of the line, instead of an entry in the legend.
        ring_epoch: epoch whose value is marked by a ring.
        chosen_epoch: epoch whose value is marked by a dot on a line across the chart.
    """

    name: str
    kind: str
    values: Sequence[float]
    label: str = ""
    ring_epoch: int | None = None
    chosen_epoch: int | None = None


@dataclass(frozen=True)
class Quantity:
    """What a vertical axis measures.

    Attributes:
        name: text above the axis.
        show: formats a value as text.
        may_be_logarithmic: whether a wide range of values gets a logarithmic scale.
    """

    name: str
    show: Callable[[float], str]
    may_be_logarithmic: bool = True


@dataclass(frozen=True)
class Chart:
    """A drawing with its title and legend, which the macro `figure` of `templates/parts.html` shows.

    Attributes:
        title: text above the drawing.
        width: in pixels; the figure shrinks with its column.
        svg: the drawing.
        legend: the lines named in the legend.
    """

    title: str
    width: int
    svg: Element
    legend: Sequence[ChartLine] = ()


@dataclass(frozen=True)
class Axis:
    """The positions of values on an axis."""

    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value: 0 at the low end, 1 at the high end."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def line_chart(
    title: str,
    quantity: Quantity,
    epochs: Sequence[int],
    lines: Sequence[ChartLine],
    *,
    width: int = WIDTH,
    x_label: str = "epoch",
) -> Chart:
    """Draw curves over epochs, with axes and a legend.

    Args:
        title: text above the chart.
        quantity: what the vertical axis measures.
        epochs: epochs of the values, ascending, at least one.
        lines: the curves.
        width: in pixels; the figure shrinks with its column.
        x_label: what the horizontal axis counts.
    """
    y_axis = axis_over([value for line in lines for value in line.values], quantity.may_be_logarithmic)
    x_axis = Axis(epochs[0] - 0.5, epochs[0] + 0.5, epochs) if len(epochs) == 1 else epoch_axis(epochs)
    right = RIGHT + LABEL_PX * max(len(line.label) for line in lines)
    plot = Plot(width, x_axis, y_axis, quantity.show, x_label, right)
    scale = ", log scale" if y_axis.logarithmic else ""
    svg = drawing(title, width, HEIGHT)
    svg.append(element("text", f"{quantity.name}{scale}", class_="label", x=4, y=14))
    svg.extend(plot.grid())
    svg.extend(part for line in lines for part in plot.curve(epochs, line))
    svg.extend(plot.labels(epochs, lines))
    for line in lines:
        if line.chosen_epoch is not None and len(epochs) > 1:
            chosen = line.values[list(epochs).index(line.chosen_epoch)]
            svg.extend(plot.chosen_mark(line.chosen_epoch, chosen))
    svg.extend(plot.tooltips(epochs, lines))
    unlabelled = [line for line in lines if not line.label] if len(lines) > 1 else []
    return Chart(title, width, svg, unlabelled)


def stacked_chart(
    title: str, quantity: Quantity, epochs: Sequence[int], layers: Sequence[ChartLine]
) -> Chart:
    """Draw shares of a whole over epochs, stacked on one another.

    Args:
        title: text above the chart.
        quantity: what the vertical axis measures.
        epochs: epochs of the values, ascending, at least one.
        layers: the shares, which add up to 1 at each epoch, from bottom to top.
    """
    x_axis = Axis(epochs[0] - 0.5, epochs[-1] + 0.5, epoch_axis(epochs).ticks if len(epochs) > 1 else epochs)
    plot = Plot(WIDTH, x_axis, Axis(0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]), quantity.show, "epoch")
    svg = drawing(title, WIDTH, HEIGHT)
    svg.append(element("text", quantity.name, class_="label", x=4, y=14))
    floor = [0.0] * len(epochs)
    for layer in layers:
        top = [min(1.0, low + value) for low, value in zip(floor, layer.values, strict=True)]
        svg.append(plot.band(epochs, floor, top, layer.kind))
        floor = top
    svg.extend(plot.grid())
    svg.extend(plot.tooltips(epochs, layers))
    return Chart(title, WIDTH, svg, layers)


@dataclass(frozen=True)
class Plot:
    """The area between the axes."""

    width: int
    x_axis: Axis
    y_axis: Axis
    show: Callable[[float], str]
    x_label: str
    right: int = RIGHT

    def x(self, epoch: float) -> float:
        """Return the x coordinate of an epoch in pixels."""
        return round(LEFT + self.x_axis.share(epoch) * (self.width - LEFT - self.right), 1)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value in pixels."""
        return round(HEIGHT - BOTTOM - self.y_axis.share(value) * (HEIGHT - TOP - BOTTOM), 1)

    def grid(self) -> list[Element]:
        """Draw both axes with their ticks."""
        right, floor = self.width - self.right, HEIGHT - BOTTOM
        parts = []
        for value in self.y_axis.ticks:
            y = self.y(value)
            parts.append(element("line", class_="grid", x1=LEFT, x2=right, y1=y, y2=y))
            parts.append(element("text", self.show(value), x=LEFT - 6, y=y + 5, text_anchor="end"))
        for epoch in self.x_axis.ticks:
            x = self.x(epoch)
            parts.append(element("line", class_="axis", x1=x, x2=x, y1=floor, y2=floor + 4))
            parts.append(element("text", f"{epoch:g}", x=x, y=floor + 18, text_anchor="middle"))
        parts.append(element("line", class_="axis", x1=LEFT, x2=right, y1=floor, y2=floor))
        middle = (LEFT + right) / 2
        parts.append(
            element("text", self.x_label, class_="label", x=middle, y=HEIGHT - 3, text_anchor="middle")
        )
        return parts

    def curve(self, epochs: Sequence[int], line: ChartLine) -> list[Element]:
        """Draw a line through its values, or a dot for a single value."""
        known = known_points(epochs, line)
        if len(known) == 1:
            epoch, value = known[0]
            return [element("circle", class_=line.kind, cx=self.x(epoch), cy=self.y(value), r=4)]
        points = " ".join(f"{self.x(epoch)},{self.y(value)}" for epoch, value in known)
        rings = [
            element("circle", class_=f"ring {line.kind}", cx=self.x(epoch), cy=self.y(value), r=4)
            for epoch, value in known
            if epoch == line.ring_epoch
        ]
        return [element("polyline", class_=line.kind, points=points), *rings]

    def labels(self, epochs: Sequence[int], lines: Sequence[ChartLine]) -> list[Element]:
        """Draw each line's label at its end, shifted vertically where labels would overlap."""
        ends = [(known_points(epochs, line), line) for line in lines if line.label]
        places = [(self.x(known[-1][0]), self.y(known[-1][1]), line) for known, line in ends if known]
        places.sort(key=lambda place: place[1])
        heights = spread_out([y for _, y, _ in places], LABEL_PX, HEIGHT - BOTTOM)
        return [
            element("text", line.label, class_=f"end {line.kind}", x=x + 7, y=round(y + 4, 1))
            for y, (x, _, line) in zip(heights, places, strict=True)
        ]

    def band(self, epochs: Sequence[int], low: Sequence[float], high: Sequence[float], kind: str) -> Element:
        """Draw the area between two step curves, with one step for each epoch."""
        edges = [(self.x(epoch - 0.5), self.x(epoch + 0.5)) for epoch in epochs]
        upper = [(x, self.y(y)) for pair, y in zip(edges, high, strict=True) for x in pair]
        lower = [(x, self.y(y)) for pair, y in zip(edges, low, strict=True) for x in pair]
        points = " ".join(f"{x},{y}" for x, y in [*upper, *reversed(lower)])
        return element("polygon", class_=kind, points=points)

    def chosen_mark(self, epoch: int, value: float) -> list[Element]:
        """Draw a labelled vertical line at the chosen epoch, and a ring around its value."""
        x = self.x(epoch)
        on_left = self.x_axis.share(epoch) > 0.5
        label_x, anchor = (x - 6, "end") if on_left else (x + 6, "start")
        label = f"chosen: epoch {epoch}, {self.show(value)}"
        parts = [
            element("line", class_="chosen", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM),
            element("text", label, class_="chosen", x=label_x, y=TOP + 13, text_anchor=anchor),
        ]
        if math.isfinite(value):
            parts.append(element("circle", class_="chosen", cx=x, cy=self.y(value), r=5))
        return parts

    def tooltips(self, epochs: Sequence[int], lines: Sequence[ChartLine]) -> list[Element]:
        """Draw an invisible band for each epoch, with the values as its tooltip."""
        spacing = (epochs[-1] - epochs[0]) / max(1, len(epochs) - 1) or 1.0
        band = (self.width - LEFT - self.right) * spacing / (self.x_axis.high - self.x_axis.low)
        parts = []
        for index, epoch in enumerate(epochs):
            values = "".join(
                f"\n{line.name} {self.show(line.values[index])}"
                for line in lines
                if not math.isnan(line.values[index])
            )
            area = {"x": round(self.x(epoch) - band / 2, 1), "width": round(band, 1)}
            tooltip = element("title", f"{self.x_label} {epoch}{values}")
            parts.append(element("rect", tooltip, class_="tip", y=TOP, height=HEIGHT - TOP - BOTTOM, **area))
        return parts


def known_points(epochs: Sequence[int], line: ChartLine) -> list[tuple[int, float]]:
    """Return (epoch, value) of each finite value."""
    return [(e, v) for e, v in zip(epochs, line.values, strict=True) if math.isfinite(v)]


def spread_out(heights: Sequence[float], apart: float, highest: float) -> list[float]:
    """Shift ascending positions as little as possible to keep a minimum distance and a maximum position."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + apart) if moved else height)
    for index in range(len(moved) - 1, -1, -1):
        limit = moved[index + 1] - apart if index + 1 < len(moved) else highest
        moved[index] = min(moved[index], limit)
    return moved


def axis_over(values: Sequence[float], may_be_logarithmic: bool = True) -> Axis:
    """Return an axis from 0 for values; logarithmic where a few high values would flatten the rest."""
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
    """Return an axis from the first epoch to the last, with a few ticks."""
    step = max(1, int(round_up((epochs[-1] - epochs[0]) / 8)))
    between = [tick for tick in range(0, epochs[-1] + 1, step) if tick > epochs[0] + step / 2]
    return Axis(epochs[0], epochs[-1], [epochs[0], *between])


def round_up(value: float) -> float:
    """Round up to the next of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ..."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= value * (1 - 1e-9))
