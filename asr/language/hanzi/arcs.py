"""Find every word in a lattice of syllables, by walking lattice and dictionary together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable
from asr.language.hanzi.dictionary import ANY_TONE, Trie
from asr.language.ngram.model import UNKNOWN_ID

Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]

NONE = -1  # no step


class Edges(NamedTuple):
    """The syllables between the nodes of a lattice, sorted by start node.

    Attributes:
        first: (nodes + 1,) first edge from each node; its edges end before the next node's first.
        ends: (E,) end node, larger than the start node.
        scores: (E,) natural log scores.
        sounds: (E, 4) see `Sound`.
    """

    first: Int32
    ends: Int32
    scores: Float64
    sounds: Int32


class Arcs(NamedTuple):
    """The words between nodes, sorted by end node.

    Attributes:
        first: (nodes + 1,) first arc to each node; its arcs end before the next node's first.
        starts: (A,) start node.
        entries: (A,) entry of the dictionary, `AS_IS` or `NO_WORD`.
        words: (A,) id of the word; `UNKNOWN_ID` for what is not in the dictionary.
        scores: (A,) natural log score without the language model.
        steps: (A,) last step through the lattice.
        step_edges: (S,) edge of each step.
        step_before: (S,) preceding step, `NONE` for the first of a word.
    """

    first: Int32
    starts: Int32
    entries: Int32
    words: Int32
    scores: Float64
    steps: Int32
    step_edges: Int32
    step_before: Int32


@compilable
def word_arcs(edges: Edges, trie: Trie, tone_cost: float) -> Arcs:
    """Return every word in the lattice."""
    steps = all_steps(edges, trie, tone_cost)
    first = np.zeros(len(edges.first) + 1, np.int32)
    for _, end, branch, _, _, _ in steps[1:]:
        first[end + 2] += num_entries(trie, branch)
    for node in range(1, len(first)):
        first[node] += first[node - 1]
    num_arcs = first[-1]
    starts, entries = np.empty(num_arcs, np.int32), np.empty(num_arcs, np.int32)
    words = np.full(num_arcs, UNKNOWN_ID, np.int32)
    scores, last_steps = np.empty(num_arcs, np.float64), np.empty(num_arcs, np.int32)
    step_edges, step_before = np.empty(len(steps), np.int32), np.empty(len(steps), np.int32)
    for step in range(1, len(steps)):
        start, end, branch, edge, before, score = steps[step]
        step_edges[step], step_before[step] = edge, before
        for index in range(num_entries(trie, branch)):
            arc = first[end + 1]
            first[end + 1] += 1
            entry = branch if branch < 0 else trie.first_entry[branch] + index
            starts[arc], entries[arc], last_steps[arc] = start, entry, step
            scores[arc] = score
            if branch >= 0:
                words[arc] = trie.entry_words[entry]
                scores[arc] += trie.entry_log_probs[entry]
    return Arcs(first[:-1], starts, entries, words, scores, last_steps, step_edges, step_before)


@compilable
def num_entries(trie: Trie, branch: int) -> int:
    """Return the number of words that end at a node of the trie; 1 for a syllable left as it is."""
    return 1 if branch < 0 else trie.first_entry[branch + 1] - trie.first_entry[branch]


@compilable
def all_steps(edges: Edges, trie: Trie, tone_cost: float) -> list[tuple[int, int, int, int, int, float]]:
    """Return every simultaneous step through lattice and trie, starting from every node.

    Returns:
        an empty step, then for each step: start node of the word, node reached, node of the trie (or `AS_IS`,
        or `NO_WORD`), edge, preceding step, score so far.
    """
    steps = [(0, 0, 0, 0, NONE, 0.0)]
    for start in range(len(edges.first) - 1):
        step = len(steps)
        follow(edges, trie, tone_cost, steps, NONE, (start, start, 0, 0, NONE, 0.0))
        while step < len(steps):
            if steps[step][2] > 0:
                follow(edges, trie, tone_cost, steps, step, steps[step])
            step += 1
    return steps


@compilable
def follow(
    edges: Edges,
    trie: Trie,
    tone_cost: float,
    steps: list[tuple[int, int, int, int, int, float]],
    place: int,
    step: tuple[int, int, int, int, int, float],
) -> None:
    """Append every possible next step after a step."""
    start, node, branch, _, _, so_far = step
    first, last = trie.first_child[branch], trie.first_child[branch + 1]
    for edge in range(edges.first[node], edges.first[node + 1]):
        score, end_node = so_far + edges.scores[edge], edges.ends[edge]
        begin, end, own, instead = edges.sounds[edge]
        if branch == 0 and instead:
            steps.append((start, end_node, instead, edge, place, score))
        child = first_child_from(trie, first, last, begin)
        while child < last and trie.syllables[child] < end:
            if own == ANY_TONE or trie.syllables[child] == own:
                steps.append((start, end_node, child, edge, place, score))
            elif tone_cost < np.inf:
                steps.append((start, end_node, child, edge, place, score - tone_cost))
            child += 1


@compilable
def first_child_from(trie: Trie, first: int, last: int, syllable: int) -> int:
    """Return the first child whose syllable is at least the given one; the end if there is none."""
    while first < last:
        middle = (first + last) // 2
        if trie.syllables[middle] < syllable:
            first = middle + 1
        else:
            last = middle
    return first
