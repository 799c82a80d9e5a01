"""Several readings of the same speech as one graph, so that what they share is converted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Syllables: TypeAlias = tuple[str, ...]
PAST = ""  # the syllable of the edge past an empty hypothesis


class Edge(NamedTuple):
    """A syllable between two nodes.

    Attributes:
        start: node.
        end: node, larger than the start.
        syllable: toned; empty on the edge that stands for an empty hypothesis.
        score: natural logarithm.
    """

    start: int
    end: int
    syllable: str
    score: float


class Lattice(NamedTuple):
    """Edges sorted by where they start; each way from node 0 to the last node is a hypothesis."""

    edges: tuple[Edge, ...]
    num_nodes: int


def chain_of(syllables: Sequence[str]) -> Lattice:
    """A lattice of one hypothesis."""
    if not syllables:
        return lattice_of([((), 0.0)])
    edges = tuple(Edge(place, place + 1, syllable, 0.0) for place, syllable in enumerate(syllables))
    return Lattice(edges, len(syllables) + 1)


def lattice_of(alternatives: Sequence[tuple[Sequence[str], float]]) -> Lattice:
    """The lattice whose ways are the hypotheses of an N-best list, with exactly their scores.

    Hypotheses share their first syllables, and their last ones from where each has gone its own way: there
    its score stands.

    Args:
        alternatives: tokens and natural log score of each; where some say the same, the best of them counts.
    """
    assert alternatives, "an N-best list holds at least one hypothesis"
    scores: dict[Syllables, float] = {}
    for tokens, score in alternatives:
        scores[tuple(tokens)] = max(score, scores.get(tuple(tokens), score))
    num_users: dict[Syllables, int] = {}
    for tokens in scores:
        for length in range(len(tokens)):
            num_users[tokens[:length]] = num_users.get(tokens[:length], 0) + 1
    named = set()
    for tokens, score in scores.items():
        named.update(_way(tokens, score, num_users))
    # a way leads from short beginnings to long ones, from long endings to short ones
    order = {node: place for place, node in enumerate(sorted({n for a, b, _, _ in named for n in (a, b)}))}
    edges = sorted(Edge(order[start], order[end], syllable, score) for start, end, syllable, score in named)
    return Lattice(tuple(edges), len(order))


# a beginning that hypotheses share: (0, its length, it); an ending: (1, less its length, it)
_Node: TypeAlias = tuple[int, int, Syllables]


def _way(
    tokens: Syllables, score: float, num_users: dict[Syllables, int]
) -> list[tuple[_Node, _Node, str, float]]:
    """Edges of one hypothesis."""
    if not tokens:
        return [(_beginning(()), _ending(()), PAST, score)]
    shared = 0  # syllables at the beginning that lead where another hypothesis goes on, too
    while shared < len(tokens) - 1 and num_users.get(tokens[: shared + 1], 0) > 1:
        shared += 1
    nodes = [_beginning(tokens[:length]) for length in range(shared + 1)]
    nodes += [_ending(tokens[length:]) for length in range(shared + 1, len(tokens) + 1)]
    return [
        (nodes[place], nodes[place + 1], syllable, score if place == shared else 0.0)
        for place, syllable in enumerate(tokens)
    ]


def _beginning(tokens: Syllables) -> _Node:
    return 0, len(tokens), tokens


def _ending(tokens: Syllables) -> _Node:
    return 1, -len(tokens), tokens
