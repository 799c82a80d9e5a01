"""Order texts so that reading the first minutes of them covers as much as possible."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# what the second, third, ... occurrence of a syllable is worth, as a share of the one before
REPEATED = 0.3


@dataclass(frozen=True)
class CandidateText:
    """A text that could be read.

    Attributes:
        features: what it teaches, such as its syllables; as often as they occur.
        duration_s: of reading it.
    """

    features: Counter[str]
    duration_s: float


def teaching_order(candidates: Sequence[CandidateText], weights: Mapping[str, float]) -> list[int]:
    """Return the indices of all candidates, each next one with the highest gain per second of reading.

    The gain of a feature's first occurrence is its weight. Each further one is worth less, so rare features
    come up once the frequent ones have been read a few times. Of equal gains the earlier candidate is first.
    """
    worth = dict(weights)  # of the next occurrence

    def gain_per_s(candidate: CandidateText) -> float:
        gains = (
            worth.get(feature, 0.0) * (1 - REPEATED**count) / (1 - REPEATED)
            for feature, count in candidate.features.items()
        )
        return sum(gains) / candidate.duration_s

    # gains only fall: a candidate that is first with its new gain is first of all (Minoux, 1978)
    queue = [(-gain_per_s(candidate), index) for index, candidate in enumerate(candidates)]
    heapq.heapify(queue)
    order = []
    while queue:
        _, index = heapq.heappop(queue)
        candidate = candidates[index]
        entry = (-gain_per_s(candidate), index)
        if queue and entry > queue[0]:
            heapq.heappush(queue, entry)
            continue
        order.append(index)
        for feature, count in candidate.features.items():
            if feature in worth:
                worth[feature] *= REPEATED**count
    return order


def use_of(features: Iterable[Counter[str]]) -> dict[str, float]:
    """Return the share of each feature in all texts."""
    counts: Counter[str] = Counter()
    for one in features:
        counts.update(one)
    return {feature: count / counts.total() for feature, count in counts.items()}


def letters_and_pairs(text: str) -> Counter[str]:
    """Return the characters of a text and its pairs of characters, in lower case; a space separates words."""
    plain = " ".join("".join(char if char.isalnum() else " " for char in text.lower()).split())
    pairs = (plain[at : at + 2] for at in range(len(plain) - 1))
    return Counter([*(char for char in plain if char != " "), *(pair for pair in pairs if " " not in pair)])
