"""Tests that a number of stages is cut where time and memory are most even."""

import pytest

from multigpu.stages.balance import even_stages
from multigpu.stages.measure import LayerCost


def costs(*pairs):
    return [LayerCost([f"layer{place}"], seconds, 0, memory) for place, (seconds, memory) in enumerate(pairs)]


def sizes(stages):
    return [len(stage) for stage in stages]


def test_stages_are_as_even_as_possible_in_time_and_in_memory():
    assert sizes(even_stages(costs((4, 0), (1, 0), (1, 0), (1, 0), (1, 0)), 2)) == [1, 4]
    assert sizes(even_stages(costs((1, 1), (1, 1), (1, 1), (1, 9)), 2)) == [3, 1]
    assert sizes(even_stages(costs(*[(1, 1)] * 7), 3)) in ([2, 2, 3], [2, 3, 2], [3, 2, 2])
    with pytest.raises(ValueError, match=r"expected 1 to 2, .*received 3"):
        even_stages(costs((1, 1), (1, 1)), 3)
