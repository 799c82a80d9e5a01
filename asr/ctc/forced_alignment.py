"""Aligns known tokens with frames by CTC: finds the best path through them, or sums over all paths.

It runs on the host, without TensorFlow. `asr.ctc.loss` is what training minimises, with its gradient.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compilable, compiled, copy_into
from asr.base.errors import UserError
from asr.base.text.wording import counted
from asr.base.types import Logits
from asr.base.vocabulary import BLANK_ID
from asr.ctc.posteriors import log_softmax

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Ids = Sequence[int] | npt.NDArray[np.integer]

BLOCK_FRAMES = 2048  # frames whose scores are held at a time while tracing back: at most 64 MB
MIN_LOG_PROB = -1e9  # replaces minus infinity, so that a path is found even if its probability is 0


class TokenAlignment(NamedTuple):
    """The frames that each of U tokens is aligned with.

    Attributes:
        starts: (U,) int64 the first frame of each token.
        ends: (U,) int64 the frame after its last one; blanks may follow before the next token.
        log_probs: (U,) float32 mean log posterior (natural) over the token's frames.
        score: natural logarithm of the path's probability, blanks included.
    """

    starts: Int64
    ends: Int64
    log_probs: Float32
    score: float


def align_tokens(log_probs: Float32, ids: Ids) -> TokenAlignment:
    """Return the most probable of all CTC paths that spell these tokens (Viterbi), at any length.

    Time grows with T * U. Besides the input, memory grows with U * T / BLOCK_FRAMES: only the scores of one
    frame in BLOCK_FRAMES are kept, and the others are computed again when tracing back.

    Args:
        log_probs: (T, V) natural logarithm of the posteriors.
        ids: (U,) tokens, without blanks.

    Raises:
        UserError: there are fewer frames than the tokens need.
    """
    tokens = np.asarray(ids, np.int64)
    assert not len(tokens) or (tokens.min() > BLANK_ID and tokens.max() < log_probs.shape[1])
    needed = frames_needed(tokens)
    if len(log_probs) < needed:
        raise UserError(
            f"expected at least {counted(needed, 'frame')} for {counted(len(tokens), 'token')} (repeated "
            f"tokens need a blank between them), received {len(log_probs):,}; check that the text belongs to "
            "the recording"
        )
    states = compiled(best_states)(np.ascontiguousarray(log_probs, np.float32), tokens)
    labels = np.full(2 * len(tokens) + 1, BLANK_ID)
    labels[1::2] = tokens
    on_path = log_probs[np.arange(len(states)), labels[states]].astype(np.float64)  # (T,)
    token_states = np.arange(len(tokens)) * 2 + 1
    starts, ends = (np.searchsorted(states, token_states, side) for side in ("left", "right"))
    bounds = np.column_stack([starts, ends]).ravel()
    sums = np.add.reduceat(np.append(on_path, 0.0), bounds)[::2]
    return TokenAlignment(starts, ends, (sums / (ends - starts)).astype(np.float32), float(on_path.sum()))


class Scores(NamedTuple):
    """Of the best path to every state."""

    blanks: Float64  # (U + 1,) of the blank before each token and after the last
    said: Float64  # (U,) of each token


@compilable
def best_states(log_probs: Float32, tokens: Int64) -> Int64:
    """Return the state of each frame on the best path.

    Args:
        log_probs: (T, V) see `align_tokens`.
        tokens: (U,)

    Returns:
        (T,) 2 u + 1 where token u is said, 2 u on the blank before it, 2 U on the last blank.
    """
    num_frames, num_tokens = len(log_probs), len(tokens)
    # a path may pass from a token to the next one without a blank, unless the two are the same
    passing = np.zeros(num_tokens)
    for token in range(1, num_tokens):
        if tokens[token] == tokens[token - 1]:
            passing[token] = -np.inf
    num_blocks = (num_frames + BLOCK_FRAMES - 1) // BLOCK_FRAMES
    kept_blanks = np.full((num_blocks + 1, num_tokens + 1), -np.inf)  # before the first frame of each block
    kept_said = np.full((num_blocks + 1, num_tokens), -np.inf)
    kept_blanks[0, 0] = 0.0
    blank_rows, said_rows = np.full((2, num_tokens + 1), -np.inf), np.full((2, num_tokens), -np.inf)
    for block in range(num_blocks):
        scores = Scores(kept_blanks[block], kept_said[block])
        for frame in range(block * BLOCK_FRAMES, min(num_frames, (block + 1) * BLOCK_FRAMES)):
            after = Scores(blank_rows[frame % 2], said_rows[frame % 2])
            advance(log_probs[frame], tokens, passing, scores, after)
            scores = after
        copy_into(kept_blanks[block + 1], scores.blanks)
        copy_into(kept_said[block + 1], scores.said)
    states = np.empty(num_frames, np.int64)
    state = 2 * num_tokens
    if num_tokens and kept_said[-1, -1] > kept_blanks[-1, -1]:
        state -= 1
    for block in range(num_blocks - 1, -1, -1):
        first, end = block * BLOCK_FRAMES, min(num_frames, (block + 1) * BLOCK_FRAMES)
        # within a block, the path advances by at most one token a frame
        high = (state + 1) // 2
        low = max(0, high - (end - first) - 1)
        state = trace_block(
            log_probs[first:end],
            tokens[low:high],
            passing[low:high],
            Scores(kept_blanks[block, low : high + 1], kept_said[block, low:high]),
            state - 2 * low,
            states[first:end],
        )
        states[first:end] += 2 * low
        state += 2 * low
    return states


@compilable
def trace_block(
    log_probs: Float32,
    tokens: Int64,
    passing: Float64,
    first: Scores,
    last_state: int,
    states: Int64,
) -> int:
    """Write the states of successive frames, given the last one, and return the state before the first.

    Args:
        log_probs: (T, V)
        tokens: (U,) those that the path may visit.
        passing: (U,) see `advance`.
        first: scores before the first frame.
        last_state: of the last frame.
        states: (T,) written.
    """
    num_frames, num_tokens = len(log_probs), len(tokens)
    all_blanks, all_said = np.empty((num_frames, num_tokens + 1)), np.empty((num_frames, num_tokens))
    copy_into(all_blanks[0], first.blanks)  # before each frame
    copy_into(all_said[0], first.said)
    for frame in range(num_frames - 1):
        before_it = Scores(all_blanks[frame], all_said[frame])
        after_it = Scores(all_blanks[frame + 1], all_said[frame + 1])
        advance(log_probs[frame], tokens, passing, before_it, after_it)
    state = last_state
    for frame in range(num_frames - 1, -1, -1):
        states[frame] = state
        token = state // 2
        blank = all_blanks[frame, token]
        before = all_said[frame, token - 1] if token else -np.inf
        if state % 2 == 0:
            state -= before > blank
        else:
            stayed = all_said[frame, token]
            passed = before + passing[token]
            if blank >= passed:
                state -= blank > stayed
            elif passed > stayed:
                state -= 2
    return state


@compilable
def advance(log_probs: Float32, tokens: Int64, passing: Float64, scores: Scores, after: Scores) -> None:
    """Compute the scores of the best paths to every state after one more frame.

    Args:
        log_probs: (V,) of this frame.
        tokens: (U,)
        passing: (U,) 0 where a path may come from the token before, else minus infinity.
        scores: before this frame.
        after: written; must not share memory with the inputs.
    """
    blank = max(np.float64(log_probs[BLANK_ID]), MIN_LOG_PROB)
    blanks, said = scores
    after.blanks[0] = blanks[0] + blank
    for token in range(len(tokens)):
        after.blanks[token + 1] = max(blanks[token + 1], said[token]) + blank
        before = said[token - 1] + passing[token] if token else -np.inf
        best = max(max(said[token], blanks[token]), before)
        after.said[token] = best + max(np.float64(log_probs[tokens[token]]), MIN_LOG_PROB)


def frames_needed(labels: npt.ArrayLike) -> int:
    """Return the frames that CTC needs: one for each label, one more between equal neighbours."""
    if isinstance(labels, list):  # the labels of a clip take numpy five times as long
        num_equal: int = sum(map(operator.eq, labels, labels[1:]))
        return len(labels) + num_equal
    ids: npt.NDArray[np.integer] = np.asarray(labels)
    return len(ids) + int(np.sum(ids[1:] == ids[:-1]))


def label_losses(logits: Logits, labels: Int32, num_labels: Int32) -> Float64:
    """Return the negative natural log probability of each label sequence.

    It is what `asr.ctc.loss.ctc_loss` returns, but infinite, not 0, for a sequence that does not fit.

    Args:
        logits: (B, T, V) values and (B,) frames, arrays.
        labels: (B, U); padding is ignored.
        num_labels: (B,)

    Returns:
        (B,)
    """
    rows = zip(*logits, labels, num_labels, strict=True)
    return np.array(
        [
            -compiled(sum_of_alignments)(log_softmax(row[:frames]), ids[:length])
            for row, frames, ids, length in rows
        ]
    )


@compilable
def sum_of_alignments(log_probs: Float32, labels: Int32) -> float:
    """Return the natural logarithm of the sum of all alignments' probabilities (Graves et al., 2006).

    Args:
        log_probs: (T, V) natural logarithm of the posteriors.
        labels: (U,)
    """
    num_labels = len(labels)
    # of all paths to the blank before each label and after the last, and to each label
    blanks, tokens = np.full(num_labels + 1, -np.inf), np.full(num_labels, -np.inf)
    blanks[0] = 0.0
    for frame in range(len(log_probs)):
        for index in range(num_labels - 1, -1, -1):  # the last first: what is before it is of the last frame
            blanks[index + 1] = np.logaddexp(blanks[index + 1], tokens[index]) + log_probs[frame, BLANK_ID]
            reached = np.logaddexp(tokens[index], blanks[index])
            if index and labels[index] != labels[index - 1]:
                reached = np.logaddexp(reached, tokens[index - 1])
            tokens[index] = reached + log_probs[frame, labels[index]]
        blanks[0] += log_probs[frame, BLANK_ID]
    return float(np.logaddexp(blanks[-1], tokens[-1]) if num_labels else blanks[0])
