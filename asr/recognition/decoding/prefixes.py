"""The prefixes of a beam search as a tree, and what a language model and hot words add to each; compiled.

The same tokens are always the same node: also where a prefix was dropped, its longer ones stayed, and it
comes back.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compiled
from asr.language.ngram.model import Tables, advance

Int32: TypeAlias = npt.NDArray[np.int32]
Float32: TypeAlias = npt.NDArray[np.float32]
Float64: TypeAlias = npt.NDArray[np.float64]

ROOT, NONE = 0, -1


class HotWordTables(NamedTuple):
    """The automaton of `asr/recognition/decoding/hot_words.py`: S states, 0 where no word has begun.

    Attributes:
        begins: (S + 1,) where each state's next tokens begin in the two arrays below.
        tokens: (N,) next tokens of each state, rising.
        states: (N,) the state that each leads to.
        fails: (S,) the state to go on from where the next token is not among them.
        kept: (S,) boost of words that are complete then.
        lent: (S,) boost for what has been heard of the word so far.
        most: (S,) that one token more can add at most.
        final: (S,) boost that stays if nothing follows.
    """

    begins: Int32
    tokens: Int32
    states: Int32
    fails: Int32
    kept: Float64
    lent: Float64
    most: Float64
    final: Float64


class Fusion(NamedTuple):
    """What is added to the acoustic score.

    Attributes:
        has_language_model: whether the next two count.
        tables: of the language model.
        words: (V,) its id for each token.
        lm_weight: of its natural log probabilities.
        token_bonus: for each token.
        hot_words: their automaton.
    """

    has_language_model: bool
    tables: Tables
    words: Int32
    lm_weight: float
    token_bonus: float
    hot_words: HotWordTables


class Nodes(NamedTuple):
    """The tree of prefixes: N rows, the first `size` of them used, a parent before its children.

    Attributes:
        parent: (N,) row of the prefix without its last token.
        token: (N,) the last token; the blank for the empty prefix.
        first_child, next_sibling: (N,) lists of children.
        length: (N,) number of tokens.
        place: (N,) in the beam.
        language: (N,) natural log probability by the language model.
        hot_state: (N,) of the automaton.
        added: (N,) to the acoustic score, by all three and the token bonus.
        context_words, context_backoffs: (N, order - 1) and
        context_length: (N,) see `Context` of the language model.
        size: (1,)
    """

    parent: Int32
    token: Int32
    first_child: Int32
    next_sibling: Int32
    length: Int32
    place: Int32
    language: Float64
    hot_state: Int32
    added: Float64
    context_words: Int32
    context_backoffs: Float32
    context_length: Int32
    size: Int32


@compiled
def find_child(nodes: Nodes, node: int, token: int) -> int:
    """The node of a prefix with a token more, or `NONE`."""
    child: int = nodes.first_child[node]
    while child != NONE and nodes.token[child] != token:
        child = nodes.next_sibling[child]
    return child


@compiled
def add_node(fusion: Fusion, nodes: Nodes, parent: int, token: int) -> int:
    """Add a prefix with a token more."""
    node: int = nodes.size[0]
    nodes.size[0] += 1
    nodes.parent[node], nodes.token[node], nodes.length[node] = parent, token, nodes.length[parent] + 1
    nodes.first_child[node], nodes.place[node] = NONE, NONE
    nodes.next_sibling[node], nodes.first_child[parent] = nodes.first_child[parent], node
    log_word, length = word_log_prob(
        fusion, nodes, parent, token, nodes.context_words[node], nodes.context_backoffs[node]
    )
    state, boost = hot_word_step(fusion.hot_words, nodes.hot_state[parent], token)
    nodes.context_length[node], nodes.hot_state[node] = length, state
    nodes.language[node] = nodes.language[parent] + log_word
    gain = fusion.lm_weight * log_word + fusion.token_bonus + boost
    nodes.added[node] = nodes.added[parent] + gain
    return node


@compiled
def word_log_prob(
    fusion: Fusion, nodes: Nodes, node: int, token: int, after_words: Int32, after_backoffs: Float32
) -> tuple[float, int]:
    """Natural log probability of a token after a prefix by the language model, and its context's length."""
    if not fusion.has_language_model:
        return 0.0, 0
    log_prob, length = advance(
        fusion.tables,
        nodes.context_words[node],
        nodes.context_backoffs[node],
        nodes.context_length[node],
        fusion.words[token],
        after_words,
        after_backoffs,
    )
    return log_prob, length


@compiled
def hot_word_step(tables: HotWordTables, state: int, token: int) -> tuple[int, float]:
    """The state after a token, and the boost that it adds, or takes back."""
    boost = -tables.lent[state]
    while True:
        begin, end = tables.begins[state], tables.begins[state + 1]
        index = begin + np.searchsorted(tables.tokens[begin:end], token)
        if index < end and tables.tokens[index] == token:
            after = tables.states[index]
            return after, boost + tables.lent[after]
        if state == 0:
            return 0, boost
        boost += tables.kept[state]
        state = tables.fails[state]


@compiled
def tokens_of(nodes: Nodes, node: int) -> Int32:
    """(U,) tokens of a prefix."""
    tokens = np.empty(nodes.length[node], np.int32)
    for index in range(len(tokens) - 1, -1, -1):
        tokens[index] = nodes.token[node]
        node = nodes.parent[node]
    return tokens


@compiled
def compact(nodes: Nodes, kept: Int32) -> None:
    """Forget every prefix but some and those that they begin with.

    Args:
        nodes: changed.
        kept: rows of those to keep, changed into what they are afterwards.
    """
    size = nodes.size[0]
    rows = np.full(size, NONE, np.int32)
    for node in kept:
        while rows[node] == NONE:
            rows[node] = node
            node = nodes.parent[node]  # the root's is the root
    nodes.size[0] = 0
    for node in range(size):
        if rows[node] != NONE:
            rows[node] = nodes.size[0]
            nodes.size[0] += 1
            move(nodes, node, rows[node], rows[nodes.parent[node]])
    for index in range(len(kept)):
        kept[index] = rows[kept[index]]


@compiled
def move(nodes: Nodes, source: int, row: int, parent: int) -> None:
    """Move a node to a row not after its own, and make it its parent's child there."""
    for array in (nodes.token, nodes.length, nodes.place, nodes.hot_state, nodes.context_length):
        array[row] = array[source]
    for amounts in (nodes.language, nodes.added):
        amounts[row] = amounts[source]
    nodes.context_words[row] = nodes.context_words[source]
    nodes.context_backoffs[row] = nodes.context_backoffs[source]
    nodes.parent[row], nodes.first_child[row], nodes.next_sibling[row] = parent, NONE, NONE
    if row != ROOT:
        nodes.next_sibling[row], nodes.first_child[parent] = nodes.first_child[parent], row
