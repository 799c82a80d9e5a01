"""Compiles the inner loops of `asr/ctc/beam_search.py`: they advance a beam frame by frame."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asr.base.compiled import compilable, compilable_inline
from asr.base.vocabulary import BLANK_ID
from asr.ctc.heap import Heap, make_heap, pop, push, sift_down
from asr.ctc.prefixes import (
    NONE,
    ROOT,
    Bool,
    Float32,
    Float64,
    Fusion,
    Int32,
    Nodes,
    add_node,
    end_sentence,
    extend,
    find_child,
    hot_word_step,
    keeps_boost,
    most_added,
)

MAX_LOG_PROB = 1e-3  # a softmax in single precision may slightly exceed 1
NO_DIFFERENCE = 40.0  # natural logarithm: adding a number e^40 times smaller does not change a double


class Pruning(NamedTuple):
    """The thresholds for pruning tokens and prefixes, see `DecoderSettings`.

    Attributes:
        beam: number of prefixes kept in each ranking, see `Offers`.
        max_tokens: number of a frame's tokens that extend a prefix, the most probable ones; tokens that
            continue a hot word do so in any case.
    """

    beam: int
    min_token_log_prob: float
    beam_width: float
    max_tokens: int


class Beam(NamedTuple):
    """The prefixes that the search keeps, the best of each ranking first.

    Attributes:
        node: (K,) node of each prefix.
        blank: (K,) log probability of the alignments that end in a blank.
        token: (K,) log probability of the alignments that end in the prefix's last token.
        size: (1,) number of prefixes.
    """

    node: Int32
    blank: Float64
    token: Float64
    size: Int32


class Offers(NamedTuple):
    """The prefixes that compete for the next beam: old prefixes, and old ones extended by a token.

    There are three rankings of `beam` prefixes each. Hot words do not count in the first, so that they never
    displace what was said. The other two take what does not fit into it and has a boost, by scores with hot
    words; prefixes within a hot word, which lose boost if the rest does not follow, compete among themselves.

    Attributes:
        said: heap of scores without hot words.
        whole: heap of scores with hot words, of prefixes that keep their boost.
        begun: heap of scores with hot words, of prefixes that may lose boost.
        plain, score: (K + 1,) score of the prefix without and with hot words.
        keeps: (K + 1,) whether the prefix competes in `whole`; else in `begun`.
        node: (K + 1,) node of the prefix; `NONE` for one without a node.
        parent, last: (K + 1,) parent node and last token of a prefix without a node.
        blank, token: (K + 1,) as in `Beam`.
        free: (1,) a row that is not in use.
    """

    said: Heap
    whole: Heap
    begun: Heap
    plain: Float64
    score: Float64
    keeps: Bool
    node: Int32
    parent: Int32
    last: Int32
    blank: Float64
    token: Float64
    free: Int32


@compilable
def search(log_probs: Float32, fusion: Fusion, pruning: Pruning, nodes: Nodes, beam: Beam) -> int:
    """Advance the beam through frames.

    Args:
        log_probs: (T, V)
        fusion: language model and hot words.
        pruning: thresholds.
        nodes: updated in place.
        beam: updated in place.

    Returns:
        The number of frames processed: T, or fewer if there is no room for further nodes; `-1 - t` if the
        values of frame t are not log probabilities.
    """
    room, num_tokens = len(beam.node), log_probs.shape[1]
    offers = make_offers(pruning.beam, room)
    untried, tokens = make_heap(num_tokens), np.empty(num_tokens, np.int32)
    words, backoffs = np.empty_like(nodes.context_words[0]), np.empty_like(nodes.context_backoffs[0])
    for frame in range(len(log_probs)):
        if nodes.size[0] + room > len(nodes.parent):
            return frame
        row = log_probs[frame]
        if not find_probable_tokens(row, pruning.min_token_log_prob, untried):
            return -1 - frame
        best = offer_old_prefixes(row, fusion, nodes, beam, offers)
        best = offer_new_prefixes(
            row, fusion, pruning, nodes, beam, offers, best, untried, tokens, words, backoffs
        )
        if not offers.said.size[0]:
            return -1 - frame
        take_offers(fusion, nodes, beam, offers, best - pruning.beam_width)
    return len(log_probs)


@compilable
def make_offers(beam: int, room: int) -> Offers:
    """Return offers with `room` rows: one ranking, or three, of `beam` prefixes each."""
    beside = beam if room > beam else 0
    return Offers(
        make_heap(beam),
        make_heap(beside),
        make_heap(beside),
        np.empty(room + 1),
        np.empty(room + 1),
        np.empty(room + 1, np.bool_),
        np.empty(room + 1, np.int32),
        np.empty(room + 1, np.int32),
        np.empty(room + 1, np.int32),
        np.empty(room + 1),
        np.empty(room + 1),
        np.zeros(1, np.int32),
    )


@compilable
def find_probable_tokens(row: Float32, min_log_prob: float, untried: Heap) -> bool:
    """Fill the heap with the tokens that are probable enough; return False if the frame is invalid."""
    untried.size[0] = 0
    for token in range(len(row)):
        log_prob = row[token]
        if log_prob < min_log_prob:
            continue
        if not log_prob <= MAX_LOG_PROB:  # also true of NaN
            return False
        if token != BLANK_ID:
            untried.keys[untried.size[0]], untried.items[untried.size[0]] = -log_prob, token
            untried.size[0] += 1
    for index in range(untried.size[0] // 2 - 1, -1, -1):
        sift_down(untried, index)
    return True


@compilable
def offer_old_prefixes(row: Float32, fusion: Fusion, nodes: Nodes, beam: Beam, offers: Offers) -> float:
    """Offer every prefix of the beam, its last frame a blank or a repeat.

    Returns:
        The best score without hot words.
    """
    for heap in (offers.said, offers.whole, offers.begun):
        heap.size[0] = 0
    offers.free[0] = 0
    best = -np.inf
    for rank in range(beam.size[0]):
        node = beam.node[rank]
        last = nodes.token[node]
        blank = log_add(beam.blank[rank], beam.token[rank]) + row[BLANK_ID]
        token = -np.inf
        if node != ROOT:
            token = beam.token[rank] + row[last]
            shorter = nodes.rank[nodes.parent[node]]
            if shorter != NONE:
                token = log_add(token, ending(nodes, beam, shorter, last) + row[last])
        plain = nodes.added[node] + log_add(blank, token)
        if plain > -np.inf:
            best = max(best, plain)
            keeps = keeps_boost(fusion.hot_words, nodes.hot_state[node])
            offer(offers, plain, nodes.boost[node], keeps, node, NONE, NONE, blank, token)
    return best


@compilable
def offer_new_prefixes(
    row: Float32,
    fusion: Fusion,
    pruning: Pruning,
    nodes: Nodes,
    beam: Beam,
    offers: Offers,
    best: float,
    untried: Heap,
    tokens: Int32,
    words: Int32,
    backoffs: Float32,
) -> float:
    """Offer every prefix of the beam extended by a token, except extensions that are in the beam already.

    Args:
        row: (V,) log probabilities.
        fusion: see `search`.
        pruning: see `search`.
        nodes: see `search`.
        beam: see `search`.
        offers: updated in place.
        best: best score without hot words so far.
        untried: heap of tokens, the most probable one first.
        tokens: (V,) scratch space: the tokens popped from the heap, in order.
        words: (order - 1,) scratch space.
        backoffs: (order - 1,) scratch space.

    Returns:
        The best score without hot words.
    """
    num_sorted, num_tokens = 0, untried.size[0]
    has_hot_words, boost, after = len(fusion.hot_words.tokens) > 0, 0.0, 0
    keeps, by_now, rest = True, 0.0, np.inf  # without hot words, there is one ranking
    said, whole, begun = worst(offers.said), worst(offers.whole), worst(offers.begun)  # until the next offer
    for rank in range(beam.size[0]):
        node = beam.node[rank]
        boostable = fusion.hot_words.most[nodes.hot_state[node]]
        total = log_add(beam.blank[rank], beam.token[rank])
        most = nodes.added[node] + most_added(fusion, nodes, node) + total
        for index in range(num_tokens if boostable > 0 else min(num_tokens, pruning.max_tokens)):
            if index == num_sorted:
                tokens[index] = pop(untried)
                num_sorted += 1
            token = tokens[index]
            floor = best - pruning.beam_width
            at_most = most + row[token]
            if at_most <= floor:
                break
            if at_most <= said and at_most + nodes.boost[node] + boostable <= min(whole, begun):
                break
            if has_hot_words:
                after, boost = hot_word_step(fusion.hot_words, nodes.hot_state[node], token)
                if index >= pruning.max_tokens and boost <= 0:
                    continue
                keeps = keeps_boost(fusion.hot_words, after)
                by_now = nodes.boost[node] + boost
                rest = (whole if keeps else begun) if by_now > 0 else np.inf
                if at_most <= said and at_most + by_now <= rest:
                    continue
            # without a blank between, a repeated token is one token
            log_prob = row[token] + (beam.blank[rank] if token == nodes.token[node] else total)
            child = find_child(nodes, node, token)
            if child != NONE:
                if nodes.rank[child] != NONE:
                    continue
                plain = log_prob + nodes.added[child]
            else:
                _, added, _, _ = extend(fusion, nodes, node, token, words, backoffs)
                plain = log_prob + nodes.added[node] + added
            if plain > floor and (plain > said or plain + by_now > rest):
                best = max(best, plain)
                offer(offers, plain, by_now, keeps, child, node, token, -np.inf, log_prob)
                said, whole, begun = worst(offers.said), worst(offers.whole), worst(offers.begun)
    return best


@compilable_inline
def worst(heap: Heap) -> float:
    """Return the score that an offer must exceed to be kept."""
    if not len(heap.keys):
        return np.inf
    return float(heap.keys[0]) if heap.size[0] == len(heap.keys) else -np.inf


@compilable_inline
def ending(nodes: Nodes, beam: Beam, rank: int, token: int) -> float:
    """Return the log probability of the alignments of a prefix that this token may extend."""
    if token == nodes.token[beam.node[rank]]:
        return float(beam.blank[rank])  # without a blank between, a repeated token is one token
    return float(log_add(beam.blank[rank], beam.token[rank]))


@compilable_inline
def offer(
    offers: Offers,
    plain: float,
    boost: float,
    keeps: bool,
    node: int,
    parent: int,
    last: int,
    blank: float,
    token: float,
) -> None:
    """Keep an offer if it is good enough; what it displaces from the first ranking competes in another."""
    row = offers.free[0]
    offers.plain[row], offers.score[row], offers.keeps[row] = plain, plain + boost, keeps
    offers.node[row], offers.parent[row], offers.last[row] = node, parent, last
    offers.blank[row], offers.token[row] = blank, token
    left_over = take_place(offers.said, plain, row)
    if left_over != NONE and offers.score[left_over] > offers.plain[left_over]:
        other = offers.whole if offers.keeps[left_over] else offers.begun
        left_over = take_place(other, offers.score[left_over], left_over)
    used = offers.said.size[0] + offers.whole.size[0] + offers.begun.size[0]
    offers.free[0] = used if left_over == NONE else left_over


@compilable_inline
def take_place(heap: Heap, key: float, item: int) -> int:
    """Add an item to a heap, and return the one that has no place there any more, or `NONE`."""
    if heap.size[0] < len(heap.keys):
        push(heap, key, item)
        return NONE
    if key <= worst(heap):
        return item
    dropped: int = heap.items[0]
    heap.keys[0], heap.items[0] = key, item
    sift_down(heap, 0)
    return dropped


@compilable
def take_offers(fusion: Fusion, nodes: Nodes, beam: Beam, offers: Offers, floor: float) -> None:
    """Build the next beam from the offers that score at least `floor` without hot words."""
    for rank in range(beam.size[0]):
        nodes.rank[beam.node[rank]] = NONE
    beam.size[0] = 0
    for heap in (offers.said, offers.whole, offers.begun):
        kept = 0
        for index in range(heap.size[0]):
            kept += offers.plain[heap.items[index]] >= floor
        beam.size[0] += kept
        rank = beam.size[0] - 1
        while heap.size[0]:
            row = pop(heap)
            if offers.plain[row] >= floor:
                take_offer(fusion, nodes, beam, offers, row, rank)
                rank -= 1


@compilable_inline
def take_offer(fusion: Fusion, nodes: Nodes, beam: Beam, offers: Offers, row: int, rank: int) -> None:
    """Put an offer into the beam."""
    node = offers.node[row]
    if node == NONE:
        node = add_node(fusion, nodes, offers.parent[row], offers.last[row])
    nodes.rank[node] = rank
    beam.node[rank], beam.blank[rank], beam.token[rank] = node, offers.blank[row], offers.token[row]


@compilable
def read_beam(
    fusion: Fusion, sentence_end: int, finished: bool, nodes: Nodes, beam: Beam
) -> tuple[Float64, Float64, Float64]:
    """Return (size,) scores, acoustic log probabilities and language model log probabilities of the beam.

    The boost of an incomplete hot word does not count.

    Args:
        fusion: see `search`.
        sentence_end: id of `</s>` in the language model.
        finished: whether the utterance ends here.
        nodes: see `search`.
        beam: see `search`.
    """
    size = beam.size[0]
    scores, acoustic, language = np.empty(size), np.empty(size), np.empty(size)
    for rank in range(size):
        node = beam.node[rank]
        acoustic[rank] = log_add(beam.blank[rank], beam.token[rank])
        language[rank] = nodes.language[node]
        state = nodes.hot_state[node]
        kept = nodes.boost[node] - fusion.hot_words.lent[state] + fusion.hot_words.final[state]
        scores[rank] = acoustic[rank] + nodes.added[node] + kept
        if finished and fusion.has_language_model:
            log_prob, added = end_sentence(fusion, nodes, node, sentence_end)
            language[rank] += log_prob
            scores[rank] += added
    return scores, acoustic, language


@compilable_inline
def log_add(one: float, other: float) -> float:
    """Return log(e^one + e^other)."""
    larger, smaller = (one, other) if one > other else (other, one)
    if larger == -np.inf or smaller < larger - NO_DIFFERENCE:
        return larger
    return larger + math.log1p(math.exp(smaller - larger))
