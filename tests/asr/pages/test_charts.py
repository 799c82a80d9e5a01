from __future__ import annotations

import math

import pytest

from asr.pages.charts import (
    BOTTOM,
    HEIGHT,
    LABEL_PX,
    TOP,
    Chart,
    ChartLine,
    Quantity,
    axis_over,
    epoch_axis,
    line_chart,
    spread_out,
    stacked_chart,
)


def chart(*values: float, width: int = 400) -> Chart:
    return line_chart(
        "t", Quantity("q", str), range(1, len(values) + 1), [ChartLine("dev", "dev", values)], width=width
    )


def points_of(chart: Chart) -> list[tuple[float, float]]:
    line = chart.svg.find(".//polyline")
    assert line is not None
    pairs = [point.split(",") for point in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_lower_values_are_drawn_lower_and_later_epochs_further_right() -> None:
    (x1, y1), (x2, y2), (x3, y3) = points_of(chart(0.9, 0.5, 0.7))
    assert x1 < x2 < x3
    assert y1 < y3 < y2  # pixels count from the top


def test_a_high_first_value_does_not_flatten_the_rest() -> None:
    axis = axis_over([2.0, 0.9, 0.5, 0.2, 0.1, 0.09])
    assert axis.logarithmic
    assert axis.share(0.2) - axis.share(0.1) > 0.15


def test_an_axis_of_a_narrow_range_starts_at_zero() -> None:
    axis = axis_over([0.9, 0.5, 0.3])
    assert not axis.logarithmic
    assert axis.ticks[0] == axis.low == 0
    assert axis.high >= 0.9
    assert axis.share(0.45) == pytest.approx(0.45 / axis.high)


@pytest.mark.parametrize("top", [1e-6, 0.037, 0.5, 1.0, 7.3, 105.0, 99_999.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 40.0, 1e9])
def test_ticks_ascend_over_the_whole_axis_and_are_few(top: float, ratio: float) -> None:
    axis = axis_over([top, top / ratio])
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert axis.share(axis.ticks[0]) == 0
    assert axis.share(axis.ticks[-1]) == pytest.approx(1)
    assert 3 <= len(axis.ticks) <= 12
    assert axis.low <= top <= axis.high * (1 + 1e-9)


def test_zero_is_drawn_at_the_bottom_of_a_logarithmic_axis() -> None:
    points = points_of(chart(1.2, 0.1, 0.0))
    assert points[2][1] == max(y for _, y in points)
    assert points[2][1] < HEIGHT


def test_infinite_and_missing_values_are_not_drawn() -> None:
    assert len(points_of(chart(math.inf, 3.0, math.nan, 2.0))) == 2
    assert chart(math.nan, math.inf).svg.find(".//polyline") is not None
    assert points_of(chart(math.nan, math.inf)) == []


def test_all_points_of_a_chart_are_within_the_picture() -> None:
    for x, y in points_of(chart(1000.0, 3.0, 0.0, 1e-9, 5.0, width=240)):
        assert 0 <= x <= 240
        assert 0 <= y <= HEIGHT


@pytest.mark.parametrize("last", [2, 3, 8, 9, 44, 100, 1000])
def test_epoch_ticks_are_a_few_integers_from_the_first_epoch_on(last: int) -> None:
    ticks = epoch_axis(range(1, last + 1)).ticks
    assert ticks[0] == 1
    assert all(tick == int(tick) and 1 <= tick <= last for tick in ticks)
    assert 2 <= len(ticks) <= 10


def test_tooltip_of_an_epoch_shows_its_values() -> None:
    tips = [tip.text for tip in chart(0.5, 0.25).svg.iterfind(".//rect/title")]
    assert tips == ["epoch 1\ndev 0.5", "epoch 2\ndev 0.25"]


def test_tooltip_leaves_out_lines_without_a_value() -> None:
    lines = [ChartLine("a", "run r1", [0.5, math.nan]), ChartLine("b", "run r2", [0.4, 0.3])]
    tips = [
        tip.text for tip in line_chart("t", Quantity("q", str), [1, 2], lines).svg.iterfind(".//rect/title")
    ]
    assert tips == ["epoch 1\na 0.5\nb 0.4", "epoch 2\nb 0.3"]


def test_a_label_is_at_the_end_of_its_line_and_replaces_the_legend() -> None:
    lines = [
        ChartLine("short", "run r1", [0.9, 0.2, math.nan], label="A"),
        ChartLine("long", "run r2", [0.9, 0.8, 0.7], label="B", ring_epoch=2),
        ChartLine("none", "run r3", [math.nan] * 3, label="C"),
    ]
    drawn = line_chart("t", Quantity("q", str), [1, 2, 3], lines, width=400)
    labels = {label.text: label for label in drawn.svg.iterfind(".//text") if "end" in label.get("class", "")}
    assert list(labels) == ["B", "A"]  # from the top
    ends = [line.attrib["points"].split() for line in drawn.svg.iter("polyline") if line.attrib["points"]]
    for text, points in zip("AB", ends, strict=True):
        x, y = map(float, points[-1].split(","))
        assert float(labels[text].attrib["x"]) == pytest.approx(x + 7)
        assert float(labels[text].attrib["y"]) == pytest.approx(y + 4)
    assert float(labels["B"].attrib["x"]) + LABEL_PX <= 400
    ring = drawn.svg.find(".//circle")
    assert ring is not None
    assert f"{ring.attrib['cx']},{ring.attrib['cy']}" == ends[1][1]
    assert drawn.legend == []


@pytest.mark.parametrize(
    ("heights", "moved"),
    [
        ([10.0, 50.0], [10.0, 50.0]),
        ([10.0, 12.0, 14.0], [10.0, 23.0, 36.0]),
        ([99.0, 100.0, 100.0], [74.0, 87.0, 100.0]),
        ([], []),
    ],
)
def test_overlapping_labels_are_moved_apart(heights: list[float], moved: list[float]) -> None:
    assert spread_out(heights, apart=13, highest=100) == moved


@pytest.mark.parametrize("num_epochs", [1, 2, 50])
def test_stacked_shares_fill_the_plot_without_gaps(num_epochs: int) -> None:
    layers = [
        ChartLine("low", "device", [0.5] * num_epochs),
        ChartLine("middle", "waiting", [0.25] * num_epochs),
        ChartLine("high", "evaluation", [0.25] * num_epochs),
    ]
    drawn = stacked_chart("t", Quantity("q", str), range(1, num_epochs + 1), layers)
    heights = []
    for layer in drawn.svg.iter("polygon"):
        points = [tuple(map(float, point.split(","))) for point in layer.attrib["points"].split()]
        assert len(points) == 4 * num_epochs
        heights.append((max(y for _, y in points), min(y for _, y in points)))
    floor, top = HEIGHT - BOTTOM, TOP
    assert heights == [
        (floor, floor - (floor - top) / 2),
        (floor - (floor - top) / 2, floor - (floor - top) * 3 / 4),
        (floor - (floor - top) * 3 / 4, top),
    ]
    assert [line.name for line in drawn.legend] == ["low", "middle", "high"]
    tip = drawn.svg.find(".//rect/title")
    assert tip is not None
    assert tip.text == "epoch 1\nlow 0.5\nmiddle 0.25\nhigh 0.25"
