"""Chooses where to cut a model such that measured time and memory are most even over the stages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from multigpu.stages.measure import LayerCost


def even_stages(costs: Sequence[LayerCost], num_stages: int) -> list[list[str]]:
    """Return the names of each stage's layers such that the costliest stage costs as little as possible.

    A stage's cost is its share of the time or of the memory, whichever is larger.

    Raises:
        ValueError: there are fewer layers than stages.
    """
    if not 1 <= num_stages <= len(costs):
        raise ValueError(
            f"`stages`: expected 1 to {len(costs)}, the number of layers that can be cut apart, received "
            f"{num_stages}"
        )
    seconds = [0.0, *itertools.accumulate(cost.seconds for cost in costs)]
    memory = [0, *itertools.accumulate(cost.memory_bytes for cost in costs)]

    def cost_of(start: int, stop: int) -> float:
        time_share = (seconds[stop] - seconds[start]) / (seconds[-1] or 1)
        return max(time_share, (memory[stop] - memory[start]) / (memory[-1] or 1))

    # best[stop]: cost of the costliest stage, and the cuts, with the first `stop` layers in some stages
    best = {stop: (cost_of(0, stop), [0, stop]) for stop in range(1, len(costs) + 1)}
    for stage in range(2, num_stages + 1):
        best = {
            stop: min(
                (max(best[cut][0], cost_of(cut, stop)), [*best[cut][1], stop])
                for cut in range(stage - 1, stop)
            )
            for stop in range(stage, len(costs) + 1)
        }
    cuts = best[len(costs)][1]
    return [
        [name for cost in costs[start:stop] for name in cost.names]
        for start, stop in itertools.pairwise(cuts)
    ]
