"""Build a lattice of several hypotheses, so that the parts they share are converted once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Syllables: TypeAlias = tuple[str, ...]
EPSILON = ""  # the syllable of the edge of an empty hypothesis


class Edge(NamedTuple):
    """A syllable between two nodes.

    Attributes:
        start: id of the start node.
        end: id of the end node, larger than the start.
        syllable: toned syllable; empty on the edge of an empty hypothesis.
        score: natural log score of the edge.
    """

    start: int
    end: int
    syllable: str
    score: float


class Lattice(NamedTuple):
    """Edges sorted by start node; each path from node 0 to the last node is a hypothesis."""

    edges: tuple[Edge, ...]
    num_nodes: int


def chain_lattice(syllables: Sequence[str]) -> Lattice:
    """Return a lattice of one hypothesis."""
    if not syllables:
        return lattice_from_nbest([((), 0.0)])
    edges = tuple(Edge(index, index + 1, syllable, 0.0) for index, syllable in enumerate(syllables))
    return Lattice(edges, len(syllables) + 1)


def lattice_from_nbest(alternatives: Sequence[tuple[Sequence[str], float]]) -> Lattice:
    """Return the lattice whose paths are the hypotheses of an N-best list with their scores.

    Hypotheses share their common first syllables and their common last syllables; the edge at which a
    hypothesis becomes unique has its score.

    Args:
        alternatives: tokens and natural log score of each; of equal tokens, the best score counts.
    """
    assert alternatives, "an N-best list has at least one hypothesis"
    scores: dict[Syllables, float] = {}
    for tokens, score in alternatives:
        scores[tuple(tokens)] = max(score, scores.get(tuple(tokens), score))
    num_users: dict[Syllables, int] = {}
    for tokens in scores:
        for length in range(len(tokens)):
            num_users[tokens[:length]] = num_users.get(tokens[:length], 0) + 1
    named = set()
    for tokens, score in scores.items():
        named.update(_path(tokens, score, num_users))
    # a path leads from short beginnings to long ones, then from long endings to short ones
    order = {node: index for index, node in enumerate(sorted({n for a, b, _, _ in named for n in (a, b)}))}
    edges = sorted(Edge(order[start], order[end], syllable, score) for start, end, syllable, score in named)
    return Lattice(tuple(edges), len(order))


# a shared beginning is (0, its length, its syllables), a shared ending (1, minus its length, its syllables)
_Node: TypeAlias = tuple[int, int, Syllables]


def _path(
    tokens: Syllables, score: float, num_users: dict[Syllables, int]
) -> list[tuple[_Node, _Node, str, float]]:
    """Return the edges of one hypothesis."""
    if not tokens:
        return [(_beginning(()), _ending(()), EPSILON, score)]
    shared = 0  # number of first syllables that another, longer hypothesis has, too
    while shared < len(tokens) - 1 and num_users.get(tokens[: shared + 1], 0) > 1:
        shared += 1
    nodes = [_beginning(tokens[:length]) for length in range(shared + 1)]
    nodes += [_ending(tokens[length:]) for length in range(shared + 1, len(tokens) + 1)]
    return [
        (nodes[index], nodes[index + 1], syllable, score if index == shared else 0.0)
        for index, syllable in enumerate(tokens)
    ]


def _beginning(tokens: Syllables) -> _Node:
    return 0, len(tokens), tokens


def _ending(tokens: Syllables) -> _Node:
    return 1, -len(tokens), tokens
