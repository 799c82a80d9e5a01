from __future__ import annotations

import math
from xml.etree.ElementTree import tostring

import pytest

from asr.base.wording import duration, percent, short_number, short_percent
from asr.pages.page import element, table


def test_element_keeps_text_and_children_in_order_and_escapes_text() -> None:
    node = element("p", "a < b ", element("b", "&"), " then ", "more", class_="x", text_anchor='"')
    html = tostring(node, encoding="unicode", method="html")
    assert html == '<p class="x" text-anchor="&quot;">a &lt; b <b>&amp;</b> then more</p>'


def test_bars_are_as_wide_as_their_rates() -> None:
    rows: list[list[str | float]] = [["a", 0.4], ["b", 0.2], ["c", math.inf], ["none", 0.0]]
    bars = [
        float(bar.attrib["style"].removeprefix("width:").removesuffix("em"))
        for bar in table(["name", "rate"], rows).iter("i")
    ]
    assert bars[2] > bars[0] == pytest.approx(2 * bars[1], abs=0.01)
    assert bars[3] == 0


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.0, "0.0%"), (0.0891, "8.9%"), (0.0033, "0.33%"), (1.5, "150.0%"), (math.inf, "∞")],
)
def test_percent(rate: float, text: str) -> None:
    assert percent(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.7, "1 min 00 s"), (312, "5 min 12 s"), (3599.6, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_axis_numbers_are_short() -> None:
    assert [short_number(value) for value in (0.0005, 10.268, 12345.6)] == ["0.0005", "10.3", "12,346"]
    assert [short_percent(rate) for rate in (0.07, 0.0765, 2.0)] == ["7%", "7.65%", "200%"]
