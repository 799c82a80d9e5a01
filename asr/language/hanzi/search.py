"""Find the best words for a lattice of syllables, by Viterbi or beam search over language model contexts.

Each node of the lattice keeps the best path to it for every context that the language model distinguishes;
where there are more than the beam allows, the worst are dropped. A single hypothesis is a lattice without
branches, and the search is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, copy_into
from asr.language.hanzi.arcs import NONE, Arcs, Edges, word_arcs
from asr.language.hanzi.dictionary import NO_WORD, Trie
from asr.language.hanzi.mixture import Mixture, SentenceBegin, with_own
from asr.language.ngram.model import UNKNOWN_ID, advance, extend_key

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


class Paths(NamedTuple):
    """Paths from the first node to another, one for each context of the language model.

    The arrays hold the paths to one node, (P, ...), or to every node, (nodes, beam, ...), best first.

    Attributes:
        scores: natural logarithm.
        arcs: index of the last arc.
        before: index of the preceding path among those to the arc's start node.
        words: (..., C) words of the language models' context, see `Mixture`.
        backoffs: (..., C) backoffs of the context.
        lengths: length of the context in the general model.
        own_lengths: length of the context in the own model.
    """

    scores: Float64
    arcs: Int32
    before: Int32
    words: Int32
    backoffs: Float32
    lengths: Int64
    own_lengths: Int64


class SearchLimits(NamedTuple):
    """What a search leaves out.

    Attributes:
        tone_cost: natural logarithm subtracted for each tone that differs; infinite to forbid it.
        beam: maximum number of contexts at a node.
        margin: natural logarithm; how much worse than the best at its node a path may be.
    """

    tone_cost: float
    beam: int
    margin: float


@compilable
def best_words(
    edges: Edges, trie: Trie, mixture: Mixture, begin: SentenceBegin, end_word: int, limits: SearchLimits
) -> tuple[float, Int32, Int32, Int32]:
    """Return the best sequence of words from the first node to the last.

    Args:
        edges: edges of the lattice; a path leads from every node to the last.
        trie: the dictionary.
        mixture: the language models.
        begin: their context at the beginning of a sentence.
        end_word: id of the sentence end.
        limits: what is left out.

    Returns:
        natural log score; (W,) entry of each word, `AS_IS` or `NO_WORD`; (P,) edges of the path; (W,) number
        of edges of each word.
    """
    arcs = word_arcs(edges, trie, limits.tone_cost)
    num_nodes, beam, context_size = len(edges.first) - 1, limits.beam, len(begin.words)
    kept = Paths(
        np.zeros((num_nodes, beam), np.float64),
        np.zeros((num_nodes, beam), np.int32),
        np.zeros((num_nodes, beam), np.int32),
        np.zeros((num_nodes, beam, context_size), np.int32),
        np.zeros((num_nodes, beam, context_size), np.float32),
        np.zeros((num_nodes, beam), np.int64),
        np.zeros((num_nodes, beam), np.int64),
    )
    counts = np.zeros(num_nodes, np.int32)
    counts[0] = 1
    copy_into(kept.words[0, 0], begin.words)
    copy_into(kept.backoffs[0, 0], begin.backoffs)
    kept.lengths[0, 0], kept.own_lengths[0, 0] = begin.length, begin.own_length
    for node in range(1, num_nodes):
        counts[node] = extend_to(node, arcs, kept, counts, mixture, limits.margin)
    score, rank = best_end(kept, counts[-1], mixture, end_word)
    entries, path, lengths = backtrace(arcs, kept, num_nodes - 1, rank)
    return score, entries, path, lengths


@compilable
def extend_to(node: int, arcs: Arcs, kept: Paths, counts: Int32, mixture: Mixture, margin: float) -> int:
    """Keep the best paths to a node, one for each language model context; return their number."""
    most = 0
    for arc in range(arcs.first[node], arcs.first[node + 1]):
        most += counts[arcs.starts[arc]]
    found = empty_paths(most + 1, kept.words.shape[2])
    slots = np.full(1 << int(np.log2(most + 1) + 2), NONE, np.int32)  # hash table over contexts
    count, best = 0, -np.inf
    has_own = len(mixture.shares) > 0
    for arc in range(arcs.first[node], arcs.first[node + 1]):
        start, entry, word = arcs.starts[arc], arcs.entries[arc], arcs.words[arc]
        for rank in range(counts[start]):
            score = kept.scores[start, rank] + arcs.scores[arc]
            if score < best - margin:
                break  # later paths are worse, and the language model never improves a score
            # the context after the word is written where it remains if it is new
            if entry == NO_WORD:
                copy_into(found.words[count], kept.words[start, rank])
                copy_into(found.backoffs[count], kept.backoffs[start, rank])
                length, own_length = kept.lengths[start, rank], kept.own_lengths[start, rank]
            else:
                log_prob, length, _ = advance(
                    mixture.general,
                    kept.words[start, rank],
                    kept.backoffs[start, rank],
                    kept.lengths[start, rank],
                    word if word < mixture.num_general else UNKNOWN_ID,
                    found.words[count],
                    found.backoffs[count],
                )
                own_length = 0
                if has_own:
                    log_prob, own_length = with_own(
                        mixture,
                        log_prob,
                        kept.words[start, rank],
                        kept.backoffs[start, rank],
                        kept.own_lengths[start, rank],
                        word,
                        found.words[count],
                        found.backoffs[count],
                    )
                score += log_prob
            slot = slot_of(slots, found, count, length)
            path = slots[slot]
            if path == NONE:
                path = slots[slot] = count
                found.lengths[path], found.own_lengths[path] = length, own_length
                count += 1
            elif found.scores[path] >= score:
                continue
            elif has_own:
                copy_into(found.words[path], found.words[count])
                copy_into(found.backoffs[path], found.backoffs[count])
                found.own_lengths[path] = own_length
            found.scores[path], found.arcs[path], found.before[path] = score, arc, rank
            best = max(best, score)
    num_kept: int = keep_best(node, kept, found, count, best - margin)
    return num_kept


@compilable
def empty_paths(num_paths: int, context_size: int) -> Paths:
    """Return empty arrays for a number of paths."""
    return Paths(
        np.empty(num_paths, np.float64),
        np.empty(num_paths, np.int32),
        np.empty(num_paths, np.int32),
        np.empty((num_paths, context_size), np.int32),
        np.empty((num_paths, context_size), np.float32),
        np.empty(num_paths, np.int64),
        np.empty(num_paths, np.int64),
    )


@compilable
def slot_of(slots: Int32, paths: Paths, path: int, length: int) -> np.int64:
    """Return the slot of the path with the same general context as the given one, or an empty slot.

    Of paths that differ in the own model's context only, the best is kept, so that an own model does not
    multiply the paths.
    """
    context = paths.words[path]
    key = np.uint64(length)
    for index in range(length):
        key = extend_key(key, context[index])
    mask = np.uint64(len(slots) - 1)
    slot = np.int64((key ^ (key >> np.uint64(32))) & mask)
    while slots[slot] != NONE:
        other = slots[slot]
        same = paths.lengths[other] == length
        for index in range(length):
            same = same and paths.words[other, index] == context[index]
        if same:
            break
        slot = (slot + np.int64(1)) & np.int64(mask)
    return slot


@compilable
def keep_best(node: int, kept: Paths, found: Paths, count: int, least: float) -> int:
    """Keep the best of the paths found to a node, best first; return their number."""
    beam = kept.scores.shape[1]
    order = np.empty(beam, np.int32)
    num_kept = 0
    for path in range(count):
        score = found.scores[path]
        if score < least or (num_kept == beam and score <= found.scores[order[beam - 1]]):
            continue
        num_kept = min(num_kept + 1, beam)
        rank = num_kept - 1
        while rank and found.scores[order[rank - 1]] < score:
            order[rank] = order[rank - 1]
            rank -= 1
        order[rank] = path
    for rank in range(num_kept):
        path = order[rank]
        kept.scores[node, rank], kept.lengths[node, rank] = found.scores[path], found.lengths[path]
        kept.own_lengths[node, rank] = found.own_lengths[path]
        kept.arcs[node, rank], kept.before[node, rank] = found.arcs[path], found.before[path]
        copy_into(kept.words[node, rank], found.words[path])
        copy_into(kept.backoffs[node, rank], found.backoffs[path])
    return num_kept


@compilable
def best_end(kept: Paths, count: int, mixture: Mixture, end_word: int) -> tuple[float, int]:
    """Return score and index of the best path to the last node, including the sentence end."""
    best, best_rank = -np.inf, 0
    words, backoffs = np.empty_like(kept.words[0, 0]), np.empty_like(kept.backoffs[0, 0])
    for rank in range(count):
        context, backed = kept.words[-1, rank], kept.backoffs[-1, rank]
        log_prob, _, _ = advance(
            mixture.general, context, backed, kept.lengths[-1, rank], end_word, words, backoffs
        )
        if len(mixture.shares):
            own_length = kept.own_lengths[-1, rank]
            log_prob, _ = with_own(mixture, log_prob, context, backed, own_length, end_word, words, backoffs)
        if kept.scores[-1, rank] + log_prob > best:
            best, best_rank = kept.scores[-1, rank] + log_prob, rank
    return best, best_rank


@compilable
def backtrace(arcs: Arcs, kept: Paths, node: int, rank: int) -> tuple[Int32, Int32, Int32]:
    """Return the entries of words, the edges, and the number of edges of each word, of a path."""
    entries, path, lengths = [np.int32(0)], [np.int32(0)], [np.int32(0)]
    while node:
        arc = kept.arcs[node, rank]
        step, length = arcs.steps[arc], np.int32(0)
        while step != NONE:
            path.append(arcs.step_edges[step])
            length += np.int32(1)
            step = arcs.step_before[step]
        entries.append(arcs.entries[arc])
        lengths.append(length)
        node, rank = arcs.starts[arc], kept.before[node, rank]
    return np.array(entries)[:0:-1], np.array(path)[:0:-1], np.array(lengths)[:0:-1]
