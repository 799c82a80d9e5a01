"""Stores the prefixes of a beam search in a tree, with the scores of language model and hot words; compiled.

The same tokens are always the same node, even if a prefix leaves the beam, its extensions stay, and the
prefix comes back.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compilable_inline, copy_into
from asr.ctc.spelling import Spelling, spell
from asr.language.ngram.model import UNKNOWN_ID, Tables, advance
from asr.language.word_trie import NO_WORD, NOT_A_WORD, UNKNOWN_WORD

Bool: TypeAlias = npt.NDArray[np.bool_]
Int32: TypeAlias = npt.NDArray[np.int32]
Int64: TypeAlias = npt.NDArray[np.int64]
Float32: TypeAlias = npt.NDArray[np.float32]
Float64: TypeAlias = npt.NDArray[np.float64]

ROOT, NONE = 0, -1


class HotWordTables(NamedTuple):
    """The automaton of `asr/ctc/hot_words.py`: S states; in state 0 no word has begun.

    Attributes:
        begins: (S + 1,) where each state's next tokens begin in `tokens` and `states`.
        tokens: (N,) next tokens of each state, in ascending order.
        states: (N,) the state that each token leads to.
        fails: (S,) the state to continue from if the next token is not among a state's tokens.
        kept: (S,) boost of the words that are complete when following `fails`.
        lent: (S,) boost in advance, for the part of a word that has been matched so far.
        most: (S,) upper bound of the boost that one more token can add.
        final: (S,) boost that remains if the utterance ends.
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
    """The language model and hot words that are added to the acoustic score.

    Attributes:
        has_language_model: whether there is one; if not, `tables`, `words` and `lm_weight` are ignored.
        tables: of the language model.
        words: (V,) the language model's id of each token.
        lm_weight: of the language model's natural log probabilities.
        token_bonus: added for each token, or each word where the language model is over words.
        hot_words: the automaton.
        spelling: of the words of a language model over words.
    """

    has_language_model: bool
    tables: Tables
    words: Int64
    lm_weight: float
    token_bonus: float
    hot_words: HotWordTables
    spelling: Spelling


class Nodes(NamedTuple):
    """The tree of prefixes: N rows, the first `size` of them in use, parents before children.

    Attributes:
        parent: (N,) row of the prefix without its last token.
        token: (N,) the last token; the blank for the empty prefix.
        first_child, next_sibling: (N,) lists of children.
        length: (N,) number of tokens.
        rank: (N,) in the beam; `NONE` for a prefix outside it.
        language: (N,) natural log probability by the language model, of whole words.
        word: (N,) state of the word that has begun, see `Spelling`.
        hot_state: (N,) state of the hot words' automaton.
        added: (N,) to the acoustic score by language model and token bonus.
        boost: (N,) added to it by hot words.
        context_words, context_backoffs: (N, order - 1) and
        context_length: (N,) see `Context` of the language model; a word that has begun is not in it.
        size: (1,) number of rows in use.
    """

    parent: Int32
    token: Int32
    first_child: Int32
    next_sibling: Int32
    length: Int32
    rank: Int32
    language: Float64
    word: Int32
    hot_state: Int32
    added: Float64
    boost: Float64
    context_words: Int32
    context_backoffs: Float32
    context_length: Int64
    size: Int32


@compilable_inline
def find_child(nodes: Nodes, node: int, token: int) -> int:
    """Return the node of a prefix extended by a token, or `NONE`."""
    child: int = nodes.first_child[node]
    while child != NONE and nodes.token[child] != token:
        child = nodes.next_sibling[child]
    return child


@compilable
def add_node(fusion: Fusion, nodes: Nodes, parent: int, token: int) -> int:
    """Add the node of a prefix extended by a token, and return it."""
    node: int = nodes.size[0]
    nodes.size[0] += 1
    nodes.parent[node], nodes.token[node], nodes.length[node] = parent, token, nodes.length[parent] + 1
    nodes.first_child[node], nodes.rank[node] = NONE, NONE
    nodes.next_sibling[node], nodes.first_child[parent] = nodes.first_child[parent], node
    state, boost = hot_word_step(fusion.hot_words, nodes.hot_state[parent], token)
    nodes.hot_state[node], nodes.boost[node] = state, nodes.boost[parent] + boost
    log_prob, added, length, word = extend(
        fusion, nodes, parent, token, nodes.context_words[node], nodes.context_backoffs[node]
    )
    nodes.context_length[node], nodes.word[node] = length, word
    nodes.language[node] = nodes.language[parent] + log_prob
    nodes.added[node] = nodes.added[parent] + added
    return node


@compilable_inline
def extend(
    fusion: Fusion, nodes: Nodes, node: int, token: int, after_words: Int32, after_backoffs: Float32
) -> tuple[float, float, int, int]:
    """Score a prefix extended by a token with the language model, and write the context after it.

    Returns:
        natural log probability of the words that are whole now; what this adds to the score of the prefix;
        length of the context; state of the word that has begun.
    """
    if not fusion.has_language_model:
        return 0.0, 0.0, 0, NO_WORD
    if fusion.spelling.is_used:
        return extend_word(fusion, nodes, node, token, after_words, after_backoffs)
    log_prob, length, _ = advance(
        fusion.tables,
        nodes.context_words[node],
        nodes.context_backoffs[node],
        nodes.context_length[node],
        fusion.words[token],
        after_words,
        after_backoffs,
    )
    return log_prob, fusion.lm_weight * log_prob + fusion.token_bonus, length, NO_WORD


@compilable
def extend_word(
    fusion: Fusion, nodes: Nodes, node: int, token: int, after_words: Int32, after_backoffs: Float32
) -> tuple[float, float, int, int]:
    """Do what `extend` does with a language model over words."""
    spelling, before = fusion.spelling, nodes.word[node]
    log_prob, added, length, word = 0.0, -spelling.ahead[before], nodes.context_length[node], before
    if spelling.begins[token]:
        log_prob, length = end_word(fusion, nodes, node, after_words, after_backoffs)
        added += fusion.lm_weight * log_prob + fusion.token_bonus * (before != NO_WORD)
        word = NO_WORD
    else:
        copy_into(after_words, nodes.context_words[node])
        copy_into(after_backoffs, nodes.context_backoffs[node])
    whole = spelling.whole[token]
    if whole != NOT_A_WORD:
        log_whole, length, _ = advance(
            fusion.tables,
            after_words.copy(),
            after_backoffs.copy(),
            length,
            whole,
            after_words,
            after_backoffs,
        )
        if whole == UNKNOWN_ID:
            log_whole += spelling.penalties[UNKNOWN_WORD]
        log_prob += log_whole
        added += fusion.lm_weight * log_whole + fusion.token_bonus
    word = spell(spelling, word, token)
    return log_prob, added + spelling.ahead[word], length, word


@compilable
def end_word(
    fusion: Fusion, nodes: Nodes, node: int, after_words: Int32, after_backoffs: Float32
) -> tuple[float, int]:
    """Write the context after the word that has begun, if one has.

    Returns:
        the word's natural log probability, with the penalty of an unknown one; length of the context.
    """
    word = nodes.word[node]
    if word == NO_WORD:
        copy_into(after_words, nodes.context_words[node])
        copy_into(after_backoffs, nodes.context_backoffs[node])
        return 0.0, nodes.context_length[node]
    log_prob, length, _ = advance(
        fusion.tables,
        nodes.context_words[node],
        nodes.context_backoffs[node],
        nodes.context_length[node],
        fusion.spelling.words[word],
        after_words,
        after_backoffs,
    )
    return log_prob + fusion.spelling.penalties[word], length


@compilable_inline
def most_added(fusion: Fusion, nodes: Nodes, node: int) -> float:
    """Return an upper bound of what the language model adds for one more token.

    Log probabilities, which are below 0, are left out. Where the model is over words, a token may end a word
    and begin one.
    """
    if not fusion.spelling.is_used:
        return fusion.token_bonus
    word = nodes.word[node]
    ending = fusion.token_bonus if word != NO_WORD else 0.0
    most: float = ending + max(fusion.token_bonus, 0.0) - fusion.spelling.ahead[word]
    return most


@compilable
def end_sentence(fusion: Fusion, nodes: Nodes, node: int, sentence_end: int) -> tuple[float, float]:
    """Return the log probability of what ends with the utterance, and what this adds to the score.

    Args:
        fusion: with a language model.
        nodes: of the prefixes.
        node: of the prefix.
        sentence_end: id of `</s>` in the language model.
    """
    words, backoffs = nodes.context_words[node].copy(), nodes.context_backoffs[node].copy()
    log_word, length = end_word(fusion, nodes, node, words, backoffs)
    log_prob, _, _ = advance(
        fusion.tables, words, backoffs, length, sentence_end, np.empty_like(words), np.empty_like(backoffs)
    )
    log_prob += log_word
    added = fusion.lm_weight * log_prob
    if fusion.spelling.is_used and nodes.word[node] != NO_WORD:
        added += fusion.token_bonus - fusion.spelling.ahead[nodes.word[node]]
    return log_prob, added


@compilable_inline
def hot_word_step(tables: HotWordTables, state: int, token: int) -> tuple[int, float]:
    """Return the state after a token, and the boost that the token adds (or takes back, if negative)."""
    boost = -tables.lent[state]
    while True:
        index, end = tables.begins[state], tables.begins[state + 1]
        after_it = end
        while index < after_it:  # binary search: `np.searchsorted` of a slice takes twice as long
            middle = (index + after_it) >> 1
            if tables.tokens[middle] < token:
                index = middle + 1
            else:
                after_it = middle
        if index < end and tables.tokens[index] == token:
            after = tables.states[index]
            return after, boost + tables.lent[after]
        if state == 0:
            return 0, boost
        boost += tables.kept[state]
        state = tables.fails[state]


@compilable_inline
def keeps_boost(tables: HotWordTables, state: int) -> bool:
    """Return whether nothing that follows can take boost back."""
    kept: bool = tables.lent[state] <= tables.final[state]
    return kept


@compilable
def tokens_of(nodes: Nodes, node: int) -> Int32:
    """Return the (U,) tokens of a prefix."""
    tokens = np.empty(nodes.length[node], np.int32)
    for index in range(len(tokens) - 1, -1, -1):
        tokens[index] = nodes.token[node]
        node = nodes.parent[node]
    return tokens


@compilable
def compact(nodes: Nodes, kept: Int32) -> None:
    """Remove all prefixes except the given ones and their ancestors.

    Args:
        nodes: updated in place.
        kept: rows of the prefixes to keep; updated to their new rows.
    """
    size = nodes.size[0]
    rows = np.full(size, NONE, np.int32)
    for node in kept:
        while rows[node] == NONE:
            rows[node] = node
            node = nodes.parent[node]  # the root is its own parent
    nodes.size[0] = 0
    for node in range(size):
        if rows[node] != NONE:
            rows[node] = nodes.size[0]
            nodes.size[0] += 1
            move(nodes, node, rows[node], rows[nodes.parent[node]])
    for index in range(len(kept)):
        kept[index] = rows[kept[index]]


@compilable
def move(nodes: Nodes, source: int, row: int, parent: int) -> None:
    """Move a node to an earlier row (or its own), and link it to its parent there."""
    for array in (nodes.token, nodes.length, nodes.rank, nodes.word, nodes.hot_state):
        array[row] = array[source]
    for amounts in (nodes.language, nodes.added, nodes.boost):
        amounts[row] = amounts[source]
    copy_into(nodes.context_words[row], nodes.context_words[source])
    copy_into(nodes.context_backoffs[row], nodes.context_backoffs[source])
    nodes.context_length[row] = nodes.context_length[source]
    nodes.parent[row], nodes.first_child[row], nodes.next_sibling[row] = parent, NONE, NONE
    if row != ROOT:
        nodes.next_sibling[row], nodes.first_child[parent] = nodes.first_child[parent], row
