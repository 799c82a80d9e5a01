import numpy as np
import pytest

from asr.metrics import align, count_edits, part_errors, total_edits, without_tones
from asr.types import EditCounts


def levenshtein(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = range(len(a) + 1), range(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    return table[-1, -1]


def test_edits_are_the_levenshtein_distance():
    rng = np.random.default_rng(0)
    for _ in range(200):
        reference = [str(t) for t in rng.integers(4, size=rng.integers(0, 9))]
        hypothesis = [str(t) for t in rng.integers(4, size=rng.integers(0, 9))]
        counts = count_edits(reference, hypothesis)
        assert counts.errors == levenshtein(reference, hypothesis)
        assert counts.reference_length == len(reference)
        assert counts.insertions - counts.deletions == len(hypothesis) - len(reference)


def test_distance_is_not_the_one_of_difflib():
    # difflib keeps the longest common block and finds more edits than there are
    assert count_edits(list("abxcd"), list("bacdx")).errors == levenshtein("abxcd", "bacdx")


def test_rate_is_not_capped_at_one():
    assert count_edits(["a"], ["b", "c", "d"]).rate == 3.0


@pytest.mark.parametrize(("counts", "rate"), [(EditCounts(), 0.0), (EditCounts(insertions=1), float("inf"))])
def test_rate_of_an_empty_reference(counts, rate):
    assert counts.rate == rate


def test_totals_are_weighted_by_length():
    total = total_edits([(["a"], ["b"]), (["a"] * 9, ["a"] * 9)])
    assert total.rate == pytest.approx(0.1)


def test_alignment_spells_both_sides():
    reference, hypothesis = ["ni3", "hao3", "shi4", "jie4", "ma5"], ["ni3", "shi4", "jie4", "a5", "ma1"]
    pairs = align(reference, hypothesis)
    assert [p.reference for p in pairs if p.reference] == reference
    assert [p.hypothesis for p in pairs if p.hypothesis] == hypothesis
    assert [p.edit for p in pairs].count("equal") == 3


def test_wrong_parts_of_syllables_are_told_apart():
    pairs = align(["zhong1", "lv4", "ma1"], ["zong1", "lu4", "ma3"])
    assert part_errors(pairs) == (1, 1, 1)


def test_tones_can_be_left_aside():
    assert without_tones(["ma3", "er2", "seven", "B2B"]) == ["ma", "er", "seven", "B2B"]
