from __future__ import annotations

import math
from xml.etree.ElementTree import Element

import pytest

from asr.charts import HEIGHT, Line, axis_over, epoch_axis, line_chart


def chart(*values: float, width: int = 400) -> Element:
    return line_chart(
        "t", "q", range(1, len(values) + 1), [Line("dev", "dev", values)], show=str, width=width
    )


def points_of(figure: Element) -> list[tuple[float, float]]:
    line = figure.find(".//polyline")
    assert line is not None
    pairs = [point.split(",") for point in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_lower_values_lie_lower_and_later_epochs_further_right() -> None:
    (x1, y1), (x2, y2), (x3, y3) = points_of(chart(0.9, 0.5, 0.7))
    assert x1 < x2 < x3
    assert y1 < y3 < y2  # pixels count from the top


def test_high_first_epoch_leaves_the_end_readable() -> None:
    axis = axis_over([2.0, 0.9, 0.5, 0.2, 0.1, 0.09])
    assert axis.logarithmic
    assert axis.share(0.2) - axis.share(0.1) > 0.15


def test_narrow_range_starts_at_zero() -> None:
    axis = axis_over([0.9, 0.5, 0.3])
    assert not axis.logarithmic
    assert axis.ticks[0] == axis.low == 0
    assert axis.high >= 0.9
    assert axis.share(0.45) == pytest.approx(0.45 / axis.high)


@pytest.mark.parametrize("top", [1e-6, 0.037, 0.5, 1.0, 7.3, 105.0, 99_999.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 40.0, 1e9])
def test_ticks_ascend_from_end_to_end_and_stay_few(top: float, ratio: float) -> None:
    axis = axis_over([top, top / ratio])
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert axis.share(axis.ticks[0]) == 0
    assert axis.share(axis.ticks[-1]) == pytest.approx(1)
    assert 3 <= len(axis.ticks) <= 12
    assert axis.low <= top <= axis.high * (1 + 1e-9)


def test_error_that_reaches_zero_is_drawn_on_the_floor() -> None:
    points = points_of(chart(1.2, 0.1, 0.0))
    assert points[2][1] == max(y for _, y in points)
    assert points[2][1] < HEIGHT


def test_infinite_and_missing_values_are_left_out() -> None:
    assert len(points_of(chart(math.inf, 3.0, math.nan, 2.0))) == 2
    assert chart(math.nan, math.inf).find(".//polyline") is not None
    assert points_of(chart(math.nan, math.inf)) == []


def test_all_points_lie_within_the_picture() -> None:
    for x, y in points_of(chart(1000.0, 3.0, 0.0, 1e-9, 5.0, width=240)):
        assert 0 <= x <= 240
        assert 0 <= y <= HEIGHT


@pytest.mark.parametrize("last", [2, 3, 8, 9, 44, 100, 1000])
def test_epoch_ticks_are_whole_from_the_first_epoch_and_few(last: int) -> None:
    ticks = epoch_axis(range(1, last + 1)).ticks
    assert ticks[0] == 1
    assert all(tick == int(tick) and 1 <= tick <= last for tick in ticks)
    assert 2 <= len(ticks) <= 10


def test_pointing_at_an_epoch_tells_its_values() -> None:
    tips = [tip.text for tip in chart(0.5, 0.25).iterfind(".//rect/title")]
    assert tips == ["epoch 1\ndev 0.5", "epoch 2\ndev 0.25"]
