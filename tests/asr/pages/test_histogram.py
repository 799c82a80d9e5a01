import math
from xml.etree.ElementTree import tostring

import pytest

from asr.pages.histogram import bins, histogram, without_outliers


def test_every_value_is_counted_in_its_range():
    values = [0.0, 0.1, 0.19999, 0.2, 1.0, 1.0, 3.7]
    edges, counts = bins(values)
    assert sum(counts) == len(values)
    assert len(edges) == len(counts) + 1
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        assert count == sum(low - 1e-9 <= value < high - 1e-9 for value in values)


@pytest.mark.parametrize("values", [[], [math.nan], [2.0], [-30.0, -30.0], [0.0], [1e-9, 1e9], [-60.5, -3.2]])
def test_histograms_of_unusual_distributions_are_drawn(values):
    edges, counts = bins(values)
    assert sum(counts) == sum(map(math.isfinite, values))
    assert edges == sorted(edges)
    assert len(counts) <= 50
    tostring(histogram("<&>", "s", values, show=str, noun="clip").svg)


def test_bar_heights_and_tooltips_show_the_counts():
    svg = histogram("Durations", "seconds", [1.0] * 10 + [2.0] * 5, show=lambda s: f"{s:g}", noun="clip").svg
    bars = [rect for rect in svg.iter("rect") if "style" in rect.attrib]
    heights = [float(bar.attrib["height"]) for bar in bars if float(bar.attrib["height"])]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    tips = [title.text for title in svg.iter("title")]
    assert tips[0].endswith(": 10 clips")
    assert tips[-1].endswith(": 5 clips")


def test_one_outlier_does_not_flatten_the_others_and_is_stated():
    durations = [1.0 + place / 50 for place in range(100)]
    svg = histogram("Durations", "seconds", [*durations, 3600.0], show=lambda s: f"{s:g}", noun="clip").svg
    bars = [rect for rect in svg.iter("rect") if "style" in rect.attrib]
    assert sum(float(bar.attrib["height"]) > 0 for bar in bars) > 15
    assert "not drawn: 1 clip at 3600" in [text.text for text in svg.iter("text")]
    assert sum(bins(without_outliers([*durations, 3600.0])[0])[1]) == 100


def test_outliers_are_those_few_values_that_are_far_from_all_others():
    many = [1.0 + place / 50 for place in range(1000)]
    assert near_and_beyond(many) == (many, [])
    assert near_and_beyond([*many, 1e4, -1e4]) == (many, [-1e4, 1e4])
    second_group = [500.0] * 100
    assert near_and_beyond([*many, *second_group]) == ([*many, *second_group], [])
    assert near_and_beyond([2.0] * 50 + [9.0]) == ([2.0] * 50, [9.0])
    assert near_and_beyond([math.nan]) == ([], [])


def near_and_beyond(values):
    return tuple(part.tolist() for part in without_outliers(values))
