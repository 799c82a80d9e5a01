from __future__ import annotations

import math
import unicodedata

import pytest

from asr.base.text.wording import duration, file_size, percent, short_number, short_percent, visible


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.0, "0.0%"), (0.0891, "8.9%"), (0.0033, "0.33%"), (1.5, "150.0%"), (math.inf, "∞")],
)
def test_percent_has_two_decimals_below_one_percent(rate: float, text: str) -> None:
    assert percent(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.7, "1 min 00 s"), (312, "5 min 12 s"), (3599.6, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_duration_is_in_seconds_minutes_and_hours(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_of_an_axis_have_three_significant_digits() -> None:
    assert [short_number(value) for value in (0.0005, 10.268, 12345.6)] == ["0.0005", "10.3", "12,346"]
    assert [short_percent(rate) for rate in (0.07, 0.0765, 2.0)] == ["7%", "7.65%", "200%"]


def test_invisible_characters_are_escaped() -> None:
    assert visible("a\x1b[0m\n\ufeff你\udcff") == "a\\x1b[0m\\n\\ufeff你\\udcff"
    assert visible(unicodedata.normalize("NFC", "naïve café 你好")) == "naïve café 你好"


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0.00B"), (150_000, "150kB"), (15_640_000_000, "15.6GB"), (999_700, "1.00MB"), (2e18, "2.00EB")],
)
def test_a_file_size_has_three_digits_and_a_decimal_unit(num_bytes: int, text: str) -> None:
    assert file_size(num_bytes) == text
