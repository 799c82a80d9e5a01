"""The plan of an epoch: a pure function of the clips' lengths, a seed and the epoch's number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def plan_epoch(num_samples: Sequence[int], budget_samples: int, seed: int, epoch: int) -> list[list[int]]:
    """Cut clips into batches of similar length and shuffle the batches.

    Every clip stands in one batch. A batch holds as many clips as fit its budget, each counted at the
    longest one's length; a clip above the budget has a batch of its own. Clips of about the same length
    meet others in every epoch.

    Args:
        num_samples: samples of each clip.
        budget_samples: samples of a batch, padding counted.
        seed: of the run.
        epoch: from 0.

    Returns:
        Batches of places in `num_samples`.
    """
    rng = np.random.default_rng((seed, epoch))
    lengths = np.asarray(num_samples)
    order = np.argsort(lengths * rng.uniform(0.97, 1.03, len(lengths)), kind="stable")
    batches: list[list[int]] = []
    current: list[int] = []
    longest = 0
    for place in order.tolist():
        longest_with = max(longest, int(lengths[place]))
        if current and longest_with * (len(current) + 1) > budget_samples:
            batches.append(current)
            current, longest_with = [], int(lengths[place])
        current.append(place)
        longest = longest_with
    if current:
        batches.append(current)
    return [batches[index] for index in rng.permutation(len(batches))]


def plan_in_order(num_samples: Sequence[int], budget_samples: int) -> list[list[int]]:
    """Batches for evaluation: the shortest clips first, no chance in it."""
    order = sorted(range(len(num_samples)), key=lambda place: num_samples[place])
    batches: list[list[int]] = []
    for place in order:
        if batches and num_samples[place] * (len(batches[-1]) + 1) <= budget_samples:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def padding_share(num_samples: Sequence[int], batches: Sequence[Sequence[int]]) -> float:
    """Share of all batches' samples that is padding."""
    padded = sum(max(num_samples[place] for place in batch) * len(batch) for batch in batches)
    return 1 - sum(num_samples[place] for batch in batches for place in batch) / padded
