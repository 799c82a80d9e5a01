"""The best words for a lattice of syllables: exact Viterbi over the language model's contexts, or a beam.

Each node of the lattice keeps the best way to it for every context that the language model tells apart; where
there are more than the beam holds, the worst are dropped. A lattice without the alternatives of an N-best
list is a chain, and the search is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compiled
from asr.language.hanzi.arcs import NONE, Arcs, Edges, word_arcs
from asr.language.hanzi.dictionary import NOTHING, Trie
from asr.language.ngram.model import Tables, advance, chained

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


class Ways(NamedTuple):
    """Ways from the first node to another, one for each context of the language model.

    The arrays hold the ways to one node, (W, ...), or to every node, (nodes, beam, ...), best first.

    Attributes:
        scores: natural logarithm.
        arcs: the last arc.
        before: the place of the way before it among those to the arc's start.
        words: (..., order - 1) context of the language model, see `Context`, as are the next two.
        backoffs: (..., order - 1)
        lengths: of the context.
    """

    scores: Float64
    arcs: Int32
    before: Int32
    words: Int32
    backoffs: Float32
    lengths: Int32


@compiled
def best_words(
    edges: Edges,
    trie: Trie,
    tables: Tables,
    begin_words: Int32,
    begin_backoffs: Float32,
    begin_length: int,
    end_word: int,
    unknown_word: int,
    tone_cost: float,
    beam: int,
    margin: float,
) -> tuple[float, Int32, Int32, Int32]:
    """The best sequence of words from the first node to the last.

    Args:
        edges: of the lattice; every node but the last has one, and a way leads from it to the last.
        trie: the dictionary.
        tables: the language model.
        begin_words: (order - 1,) its context at the beginning of a sentence, as are the next two.
        begin_backoffs: (order - 1,)
        begin_length: of that context.
        end_word: id of the end of a sentence.
        unknown_word: id that stands for syllables which are no word.
        tone_cost: natural logarithm, taken off for each tone that differs; infinite to forbid it.
        beam: how many contexts a node keeps at most.
        margin: natural logarithm; how much worse than the best at its node a way may be.

    Returns:
        natural log score; (W,) entry of each word, `AS_IT_IS` or `NOTHING`; (P,) edges of the way; (W,) how
        many of them each word takes.
    """
    arcs = word_arcs(edges, trie, tone_cost)
    num_nodes = len(edges.first) - 1
    context_size = len(begin_words)
    kept = Ways(
        np.zeros((num_nodes, beam), np.float64),
        np.zeros((num_nodes, beam), np.int32),
        np.zeros((num_nodes, beam), np.int32),
        np.zeros((num_nodes, beam, context_size), np.int32),
        np.zeros((num_nodes, beam, context_size), np.float32),
        np.zeros((num_nodes, beam), np.int32),
    )
    counts = np.zeros(num_nodes, np.int32)
    counts[0] = 1
    kept.words[0, 0], kept.backoffs[0, 0], kept.lengths[0, 0] = begin_words, begin_backoffs, begin_length
    for node in range(1, num_nodes):
        counts[node] = extend_to(node, arcs, kept, counts, trie, tables, unknown_word, margin)
    score, place = best_end(kept, counts[-1], tables, end_word)
    entries, way, lengths = traced(arcs, kept, num_nodes - 1, place)
    return score, entries, way, lengths


@compiled
def extend_to(
    node: int,
    arcs: Arcs,
    kept: Ways,
    counts: Int32,
    trie: Trie,
    tables: Tables,
    unknown_word: int,
    margin: float,
) -> int:
    """Keep the best ways to a node, one for each context of the language model; returns how many."""
    most = 0
    for arc in range(arcs.first[node], arcs.first[node + 1]):
        most += counts[arcs.starts[arc]]
    found = empty_ways(most + 1, kept.words.shape[2])
    slots = np.full(1 << int(np.log2(most + 1) + 2), NONE, np.int32)  # of a hash table over contexts
    count, best = 0, -np.inf
    for arc in range(arcs.first[node], arcs.first[node + 1]):
        start, entry = arcs.starts[arc], arcs.entries[arc]
        word = trie.entry_words[entry] if entry >= 0 else unknown_word
        for place in range(counts[start]):
            score = kept.scores[start, place] + arcs.scores[arc]
            if score < best - margin:
                break  # those after it are worse, and the language model makes nothing better
            # the context after the word is made where it stays if it is new
            if entry == NOTHING:
                length = kept.lengths[start, place]
                for index in range(length):
                    found.words[count, index] = kept.words[start, place, index]
                    found.backoffs[count, index] = kept.backoffs[start, place, index]
            else:
                log_prob, length = advance(
                    tables,
                    kept.words[start, place],
                    kept.backoffs[start, place],
                    kept.lengths[start, place],
                    word,
                    found.words[count],
                    found.backoffs[count],
                )
                score += log_prob
            slot = slot_of(slots, found, count, length)
            way = slots[slot]
            if way == NONE:
                way = slots[slot] = count
                found.lengths[way] = length
                count += 1
            elif found.scores[way] >= score:
                continue
            found.scores[way], found.arcs[way], found.before[way] = score, arc, place
            best = max(best, score)
    num_kept: int = keep(node, kept, found, count, best - margin)
    return num_kept


@compiled
def empty_ways(num_ways: int, context_size: int) -> Ways:
    """Room for so many ways."""
    return Ways(
        np.empty(num_ways, np.float64),
        np.empty(num_ways, np.int32),
        np.empty(num_ways, np.int32),
        np.empty((num_ways, context_size), np.int32),
        np.empty((num_ways, context_size), np.float32),
        np.empty(num_ways, np.int32),
    )


@compiled
def slot_of(slots: Int32, ways: Ways, place: int, length: int) -> np.int64:
    """The slot of the way whose context equals that at a place, or an empty one."""
    context = ways.words[place]
    key = np.uint64(length)
    for index in range(length):
        key = chained(key, context[index])
    mask = np.uint64(len(slots) - 1)
    slot = np.int64((key ^ (key >> np.uint64(32))) & mask)
    while slots[slot] != NONE:
        other = slots[slot]
        same = ways.lengths[other] == length
        for index in range(length):
            same = same and ways.words[other, index] == context[index]
        if same:
            break
        slot = (slot + np.int64(1)) & np.int64(mask)
    return slot


@compiled
def keep(node: int, kept: Ways, found: Ways, count: int, least: float) -> int:
    """Keep the best of the ways found to a node, best first; returns how many."""
    beam = kept.scores.shape[1]
    order = np.empty(beam, np.int32)
    num_kept = 0
    for way in range(count):
        score = found.scores[way]
        if score < least or (num_kept == beam and score <= found.scores[order[beam - 1]]):
            continue
        num_kept = min(num_kept + 1, beam)
        place = num_kept - 1
        while place and found.scores[order[place - 1]] < score:
            order[place] = order[place - 1]
            place -= 1
        order[place] = way
    for place in range(num_kept):
        way = order[place]
        kept.scores[node, place], kept.lengths[node, place] = found.scores[way], found.lengths[way]
        kept.arcs[node, place], kept.before[node, place] = found.arcs[way], found.before[way]
        for index in range(found.lengths[way]):
            kept.words[node, place, index] = found.words[way, index]
            kept.backoffs[node, place, index] = found.backoffs[way, index]
    return num_kept


@compiled
def best_end(kept: Ways, count: int, tables: Tables, end_word: int) -> tuple[float, int]:
    """Score and place of the best way to the last node, where the sentence ends."""
    best, best_place = -np.inf, 0
    words, backoffs = np.empty_like(kept.words[0, 0]), np.empty_like(kept.backoffs[0, 0])
    for place in range(count):
        log_prob, _ = advance(
            tables,
            kept.words[-1, place],
            kept.backoffs[-1, place],
            kept.lengths[-1, place],
            end_word,
            words,
            backoffs,
        )
        if kept.scores[-1, place] + log_prob > best:
            best, best_place = kept.scores[-1, place] + log_prob, place
    return best, best_place


@compiled
def traced(arcs: Arcs, kept: Ways, node: int, place: int) -> tuple[Int32, Int32, Int32]:
    """Entries, edges, and edges of each word, of the way that ends at a place."""
    entries, way, lengths = [np.int32(0)], [np.int32(0)], [np.int32(0)]
    while node:
        arc = kept.arcs[node, place]
        step, length = arcs.steps[arc], np.int32(0)
        while step != NONE:
            way.append(arcs.step_edges[step])
            length += np.int32(1)
            step = arcs.step_before[step]
        entries.append(arcs.entries[arc])
        lengths.append(length)
        node, place = arcs.starts[arc], kept.before[node, place]
    return np.array(entries)[:0:-1], np.array(way)[:0:-1], np.array(lengths)[:0:-1]
