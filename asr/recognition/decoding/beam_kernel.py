"""Compiles the inner loops of `asr/recognition/decoding/beam.py`: they advance a beam frame by frame."""

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

MAX_LOG_PROB = 1e-3  # a softmax in single precision may slightly exceed 1
NO_DIFFERENCE = 40.0  # natural logarithm: adding a number e^40 times smaller does not change a double


class Pruning(NamedTuple):
    """Holds the thresholds for pruning tokens and prefixes, see `DecoderSettings`.

    Attributes:
        max_tokens: number of a frame's tokens that extend a prefix, the most probable ones; tokens that
            continue a hot word do so in any case.
    """

    min_token_log_prob: float
    beam_width: float
    max_tokens: int


class Beam(NamedTuple):
    """Holds the prefixes that the search keeps, best first.

    Attributes:
        node: (beam,) node of each prefix.
        blank: (beam,) log probability of the alignments that end in a blank.
        token: (beam,) log probability of the alignments that end in the prefix's last token.
        size: (1,) number of prefixes.
    """

    node: Int32
    blank: Float64
    token: Float64
    size: Int32


class Offers(NamedTuple):
    """Collects the prefixes that compete for the next beam: old prefixes, and old ones extended by a token.

    Attributes:
        heap: of scores.
        node: (beam,) node of the prefix; `NONE` for one without a node.
        parent, last: (beam,) parent node and last token of a prefix without a node.
        blank, token: (beam,) as in `Beam`.
    """

    heap: Heap
    node: Int32
    parent: Int32
    last: Int32
    blank: Float64
    token: Float64


@compiled
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


@compiled
def offer_old_prefixes(row: Float32, nodes: Nodes, beam: Beam, offers: Offers) -> float:
    """Offer every prefix of the beam, its last frame a blank or a repeat, and return the best score."""
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
    """Offer every prefix of the beam extended by a token, except extensions that are in the beam already.

    Args:
        row: (V,) log probabilities.
        fusion: see `search`.
        pruning: see `search`.
        nodes: see `search`.
        beam: see `search`.
        offers: updated in place.
        best: best score so far.
        untried: heap of tokens, the most probable one first.
        tokens: (V,) scratch space: the tokens popped from the heap, in order.
        words: (order - 1,) scratch space.
        backoffs: (order - 1,) scratch space.

    Returns:
        The best score.
    """
    num_sorted, num_tokens = 0, untried.size[0]
    has_hot_words, boost = len(fusion.hot_words.tokens) > 0, 0.0
    for place in range(beam.size[0]):
        node = beam.node[place]
        # an upper bound: the language model's log probability, which is below 0, is left out
        boostable = fusion.hot_words.most[nodes.hot_state[node]]
        total = log_add(beam.blank[place], beam.token[place])
        most = nodes.added[node] + fusion.token_bonus + boostable + total
        for index in range(num_tokens if boostable > 0 else min(num_tokens, pruning.max_tokens)):
            if index == num_sorted:
                tokens[index] = pop(untried)
                num_sorted += 1
            token = tokens[index]
            floor = best - pruning.beam_width
            if offers.heap.size[0] == len(beam.node):
                floor = max(floor, offers.heap.keys[0])
            if most + row[token] <= floor:
                break
            if has_hot_words:
                _, boost = hot_word_step(fusion.hot_words, nodes.hot_state[node], token)
            if index >= pruning.max_tokens and boost <= 0:
                continue
            # without a blank between, a repeated token is one token
            log_prob = row[token] + (beam.blank[place] if token == nodes.token[node] else total)
            child = find_child(nodes, node, token)
            if child != NONE:
                if nodes.place[child] != NONE:
                    continue
                score = log_prob + nodes.added[child]
            else:
                log_word, _ = word_log_prob(fusion, nodes, node, token, words, backoffs)
                gain = fusion.lm_weight * log_word + fusion.token_bonus + boost
                score = log_prob + nodes.added[node] + gain
            if score > floor:
                best = max(best, score)
                offer(offers, score, child, node, token, -np.inf, log_prob)
    return best


@compiled
def ending(nodes: Nodes, beam: Beam, place: int, token: int) -> float:
    """Return the log probability of the alignments of a prefix that this token may extend."""
    if token == nodes.token[beam.node[place]]:
        return float(beam.blank[place])  # without a blank between, a repeated token is one token
    return float(log_add(beam.blank[place], beam.token[place]))


@compiled
def offer(
    offers: Offers, score: float, node: int, parent: int, last: int, blank: float, token: float
) -> None:
    """Keep an offer, replacing the worst one if the heap is full."""
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
    """Build the next beam from the offers that score at least `floor`."""
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
    """Return (beam,) scores, acoustic log probabilities and language model log probabilities of the beam.

    Args:
        fusion: see `search`.
        sentence_end: id of `</s>` in the language model.
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
    """Return log(e^one + e^other)."""
    larger, smaller = (one, other) if one > other else (other, one)
    if larger == -np.inf or smaller < larger - NO_DIFFERENCE:
        return larger
    return larger + math.log1p(math.exp(smaller - larger))
