"""The loops of `asr/recognition/decoding/beam.py`, compiled: a beam of prefixes from frame to frame."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asr.base.compiled import compiled
from asr.base.vocabulary import BLANK_ID
from asr.language.ngram.model import advance
from asr.recognition.decoding.heap import Heap, make_heap, pop, push, sift_down
from asr.recognition.decoding.prefixes import (
    NONE,
    ROOT,
    Float32,
    Float64,
    Fusion,
    Int32,
    Nodes,
    add_node,
    find_child,
    hot_word_step,
    word_log_prob,
)

LARGEST_LOG_PROB = 1e-3  # a softmax in single precision may come out a little above 1
NO_DIFFERENCE = 40.0  # natural logarithm: added to a number e^40 times as large, nothing is left in a double


class Pruning(NamedTuple):
    """What is not tried, and what is dropped: see `DecoderSettings`."""

    min_token_log_prob: float
    beam_width: float


class Beam(NamedTuple):
    """The prefixes kept, best first.

    Attributes:
        node: (beam,) of each.
        blank: (beam,) log probability of its alignments that end in a blank.
        token: (beam,) of those that end in its last token.
        size: (1,) how many there are.
    """

    node: Int32
    blank: Float64
    token: Float64
    size: Int32


class Offers(NamedTuple):
    """What may be in the next beam: an old prefix, or a token more.

    Attributes:
        heap: their scores.
        node: (beam,) `NONE` for a prefix without a node.
        parent, last: (beam,) that prefix.
        blank, token: (beam,) as of `Beam`.
    """

    heap: Heap
    node: Int32
    parent: Int32
    last: Int32
    blank: Float64
    token: Float64


@compiled
def search(log_probs: Float32, fusion: Fusion, pruning: Pruning, nodes: Nodes, beam: Beam) -> int:
    """Go on through frames.

    Args:
        log_probs: (T, V)
        fusion: with what.
        pruning: how much.
        nodes: changed.
        beam: changed.

    Returns:
        how many frames were read: T, fewer where there is no room for further nodes, and `-1 - t` where frame
        t holds no log probabilities.
    """
    width, num_tokens = len(beam.node), log_probs.shape[1]
    offers = Offers(
        make_heap(width),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width),
        np.empty(width),
    )
    untried, tokens = make_heap(num_tokens), np.empty(num_tokens, np.int32)
    words, backoffs = np.empty_like(nodes.context_words[0]), np.empty_like(nodes.context_backoffs[0])
    for frame in range(len(log_probs)):
        if nodes.size[0] + width > len(nodes.parent):
            return frame
        row = log_probs[frame]
        if not find_probable_tokens(row, pruning.min_token_log_prob, untried):
            return -1 - frame
        best = offer_old_prefixes(row, nodes, beam, offers)
        best = offer_new_prefixes(
            row, fusion, pruning, nodes, beam, offers, best, untried, tokens, words, backoffs
        )
        if not offers.heap.size[0]:
            return -1 - frame
        take_offers(fusion, nodes, beam, offers, best - pruning.beam_width)
    return len(log_probs)


@compiled
def find_probable_tokens(row: Float32, min_log_prob: float, untried: Heap) -> bool:
    """Tokens that are probable enough, the best one at hand; False where the frame is damaged."""
    untried.size[0] = 0
    for token in range(len(row)):
        log_prob = row[token]
        if log_prob < min_log_prob:
            continue
        if not log_prob <= LARGEST_LOG_PROB:  # not a number, too
            return False
        if token != BLANK_ID:
            untried.keys[untried.size[0]], untried.items[untried.size[0]] = -log_prob, token
            untried.size[0] += 1
    for index in range(untried.size[0] // 2 - 1, -1, -1):
        sift_down(untried, index)
    return True


@compiled
def offer_old_prefixes(row: Float32, nodes: Nodes, beam: Beam, offers: Offers) -> float:
    """Offer every prefix of the beam with a frame more, which adds no token to it; returns the best score."""
    offers.heap.size[0] = 0
    best = -np.inf
    for place in range(beam.size[0]):
        node = beam.node[place]
        last = nodes.token[node]
        blank = log_add(beam.blank[place], beam.token[place]) + row[BLANK_ID]
        token = -np.inf
        if node != ROOT:
            token = beam.token[place] + row[last]
            shorter = nodes.place[nodes.parent[node]]
            if shorter != NONE:
                token = log_add(token, ending(nodes, beam, shorter, last) + row[last])
        score = nodes.added[node] + log_add(blank, token)
        if score > -np.inf:
            best = max(best, score)
            offer(offers, score, node, NONE, NONE, blank, token)
    return best


@compiled
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
    """Offer every prefix of the beam with a token more, unless that one is in the beam already.

    Args:
        row: (V,) log probabilities.
        fusion: see `search`, as are the next three.
        pruning: as there.
        nodes: as there.
        beam: as there.
        offers: changed.
        best: score so far.
        untried: tokens, the most probable one at hand.
        tokens: (V,) to write them to in this order, as far as they are needed.
        words: (order - 1,) scratch, as is the next.
        backoffs: (order - 1,)

    Returns:
        the best score.
    """
    num_sorted, num_tokens = 0, untried.size[0]
    for place in range(beam.size[0]):
        node = beam.node[place]
        # a language model's log probability is below 0 and left out
        most = nodes.added[node] + fusion.token_bonus + fusion.hot_words.most[nodes.hot_state[node]]
        most += log_add(beam.blank[place], beam.token[place])
        for index in range(num_tokens):
            if index == num_sorted:
                tokens[index] = pop(untried)
                num_sorted += 1
            token = tokens[index]
            floor = best - pruning.beam_width
            if offers.heap.size[0] == len(beam.node):
                floor = max(floor, offers.heap.keys[0])
            if most + row[token] <= floor:
                break
            log_prob = ending(nodes, beam, place, token) + row[token]
            child = find_child(nodes, node, token)
            if child != NONE:
                if nodes.place[child] != NONE:
                    continue
                score = log_prob + nodes.added[child]
            else:
                log_word, _ = word_log_prob(fusion, nodes, node, token, words, backoffs)
                _, boost = hot_word_step(fusion.hot_words, nodes.hot_state[node], token)
                gain = fusion.lm_weight * log_word + fusion.token_bonus + boost
                score = log_prob + nodes.added[node] + gain
            if score > floor:
                best = max(best, score)
                offer(offers, score, child, node, token, -np.inf, log_prob)
    return best


@compiled
def ending(nodes: Nodes, beam: Beam, place: int, token: int) -> float:
    """Log probability of a prefix's alignments that this token may follow as a token more."""
    if token == nodes.token[beam.node[place]]:
        return float(beam.blank[place])  # without a blank between them, it is the same token held on
    return float(log_add(beam.blank[place], beam.token[place]))


@compiled
def offer(
    offers: Offers, score: float, node: int, parent: int, last: int, blank: float, token: float
) -> None:
    """Keep an offer, if need be instead of the worst one."""
    heap = offers.heap
    if heap.size[0] < len(heap.keys):
        slot = heap.size[0]
        push(heap, score, slot)
    else:
        slot = heap.items[0]
        heap.keys[0] = score
        sift_down(heap, 0)
    offers.node[slot], offers.parent[slot], offers.last[slot] = node, parent, last
    offers.blank[slot], offers.token[slot] = blank, token


@compiled
def take_offers(fusion: Fusion, nodes: Nodes, beam: Beam, offers: Offers, floor: float) -> None:
    """Make the next beam of the offers that score at least so much."""
    for place in range(beam.size[0]):
        nodes.place[beam.node[place]] = NONE
    while offers.heap.keys[0] < floor:
        pop(offers.heap)
    beam.size[0] = offers.heap.size[0]
    for place in range(beam.size[0] - 1, -1, -1):
        slot = pop(offers.heap)
        node = offers.node[slot]
        if node == NONE:
            node = add_node(fusion, nodes, offers.parent[slot], offers.last[slot])
        nodes.place[node] = place
        beam.node[place], beam.blank[place], beam.token[place] = node, offers.blank[slot], offers.token[slot]


@compiled
def read_beam(
    fusion: Fusion, sentence_end: int, finished: bool, nodes: Nodes, beam: Beam
) -> tuple[Float64, Float64, Float64]:
    """(beam,) scores, acoustic and language model's log probabilities of the prefixes kept.

    Args:
        fusion: see `search`.
        sentence_end: its id in the language model.
        finished: whether the utterance ends here.
        nodes: see `search`.
        beam: see `search`.
    """
    size = beam.size[0]
    scores, acoustic, language = np.empty(size), np.empty(size), np.empty(size)
    words, backoffs = np.empty_like(nodes.context_words[0]), np.empty_like(nodes.context_backoffs[0])
    for place in range(size):
        node = beam.node[place]
        acoustic[place] = log_add(beam.blank[place], beam.token[place])
        language[place] = nodes.language[node]
        scores[place] = acoustic[place] + nodes.added[node]
        if finished and fusion.has_language_model:
            log_prob, _ = advance(
                fusion.tables,
                nodes.context_words[node],
                nodes.context_backoffs[node],
                nodes.context_length[node],
                sentence_end,
                words,
                backoffs,
            )
            language[place] += log_prob
            scores[place] += fusion.lm_weight * log_prob
        if finished:
            state = nodes.hot_state[node]
            scores[place] += fusion.hot_words.final[state] - fusion.hot_words.lent[state]
    return scores, acoustic, language


@compiled
def log_add(one: float, other: float) -> float:
    """log(e^one + e^other)."""
    larger, smaller = (one, other) if one > other else (other, one)
    if larger == -np.inf or smaller < larger - NO_DIFFERENCE:
        return larger
    return larger + math.log1p(math.exp(smaller - larger))
