"""Attend from frames to frames of the same clip: to all of them, with the memory of a few, or by chunks.

Queries, keys and values are (..., T, H, D): H heads of D channels each. Scores and their softmax are float32,
whatever the precision of the network.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from keras import ops

from asr.base.types import Tensor
from asr.model.networks.conformers.chunks import Chunks, in_chunks, joined

LONGEST_AT_ONCE = 512
"""Frames (41 s) up to which a clip's scores are computed at once; of longer clips, for that many queries."""

IMPOSSIBLE = -1e9  # score of a key that is padding
ROTARY_BASE = 10_000.0


def rotary_rates(channels: int) -> npt.NDArray[np.float32]:
    """Return the angles (D / 2,) from one frame to the next, by which heads of D channels are rotated."""
    half = channels // 2
    rates: npt.NDArray[np.float32] = np.power(
        np.float32(ROTARY_BASE), -np.arange(half, dtype=np.float32) / half
    )
    return rates


def rotated(heads: Tensor) -> Tensor:
    """Rotate pairs of channels by angles that grow with the frame (Su et al., 2021, arXiv:2104.09864).

    The product of a rotated query and a rotated key then depends on how far their frames are apart, and not
    on where the clip begins.

    Args:
        heads: (B, T, H, D), D even.
    """
    half = heads.shape[-1] // 2
    frames = ops.cast(ops.arange(ops.shape(heads)[1]), "float32")[:, None, None]
    angles = frames * rotary_rates(heads.shape[-1])  # (T, 1, D / 2)
    cosine, sine = (ops.cast(part, heads.dtype) for part in (ops.cos(angles), ops.sin(angles)))
    first, second = heads[..., :half], heads[..., half:]
    return ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values, weighted by the products of each query with the keys.

    Args:
        queries: (..., Q, H, D), divided by the square root of D.
        keys: (..., K, H, D).
        values: (..., K, H, D).
        mask: (..., K) 0 on keys that are padding, 1 on others.

    Returns:
        (..., Q, H, D).
    """
    queries, keys, values = (ops.swapaxes(part, -3, -2) for part in (queries, keys, values))
    scores = ops.cast(tf.matmul(queries, keys, transpose_b=True), "float32")  # (..., H, Q, K)
    scores = scores + (1.0 - ops.cast(mask, "float32"))[..., None, None, :] * IMPOSSIBLE
    weights = ops.cast(tf.nn.softmax(scores), values.dtype)
    return ops.swapaxes(ops.matmul(weights, values), -3, -2)


def attend_to_clip(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attend from each frame to all frames of its clip, in memory that is linear in the length of long clips.

    Args:
        queries: (B, T, H, D), as in `attend`; so are the others.
        keys: (B, T, H, D).
        values: (B, T, H, D).
        mask: (B, T).
    """
    num_frames = queries.shape[1]
    if num_frames is not None:  # eager, or with fixed shapes: a graph without a branch
        at_once = attend if num_frames <= LONGEST_AT_ONCE else attend_in_blocks
        return at_once(queries, keys, values, mask)
    return tf.cond(
        tf.shape(queries)[1] <= LONGEST_AT_ONCE,
        lambda: attend(queries, keys, values, mask),
        lambda: attend_in_blocks(queries, keys, values, mask),
    )


def attend_to_clip_or_chunks(
    whole: Any, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, chunks: Chunks
) -> Tensor:
    """Attend to the whole clip or to chunks, as was drawn.

    Args:
        whole: whether it is the clip: True or False, or () bool where that was drawn.
        queries: (B, T, H, D), as in `attend`; so are the others.
        keys: (B, T, H, D).
        values: (B, T, H, D).
        mask: (B, T).
        chunks: how clips are cut.
    """
    inputs = (queries, keys, values, mask)
    if isinstance(whole, bool):
        return attend_to_clip(*inputs) if whole else attend_by_chunks(*inputs, chunks)
    # one choice of three: TensorFlow has no gradient of `attend_in_blocks` within two branches
    of_clip = tf.where(tf.shape(queries)[1] <= LONGEST_AT_ONCE, 0, 1)
    ways = [
        lambda: attend(*inputs),
        lambda: attend_in_blocks(*inputs),
        lambda: attend_by_chunks(*inputs, chunks),
    ]
    return tf.switch_case(tf.where(whole, of_clip, 2), ways)


def attend_by_chunks(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, chunks: Chunks) -> Tensor:
    """Attend from each frame to those of its chunk and of the chunks before it; no others are computed.

    Args:
        queries: (B, T, H, D), as in `attend`; so are the others.
        keys: (B, T, H, D).
        values: (B, T, H, D).
        mask: (B, T).
        chunks: how clips are cut.
    """
    before = chunks.before * chunks.size
    seen = [in_chunks(part, chunks.size, before) for part in (keys, values, mask)]
    return joined(attend(in_chunks(queries, chunks.size), *seen), queries)


def attend_in_blocks(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, size: int = LONGEST_AT_ONCE
) -> Tensor:
    """Do what `attend` does for a block of queries at a time; the gradient computes their weights again.

    Args:
        queries: (B, T, H, D).
        keys: (B, T, H, D).
        values: (B, T, H, D).
        mask: (B, T).
        size: number of queries in a block.
    """

    @tf.custom_gradient
    def attended(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Any]:
        def gradient(upstream: Tensor) -> tuple[Tensor, ...]:
            gradients = _gradient_in_blocks(queries, keys, values, mask, upstream, size)
            return (*gradients, tf.zeros_like(mask))

        blocks = _in_blocks(queries, size)
        outputs = tf.TensorArray(queries.dtype, tf.shape(blocks)[0], element_shape=blocks.shape[1:])
        _, outputs = tf.while_loop(
            lambda block, _: block < tf.shape(blocks)[0],
            lambda block, outputs: (
                block + 1,
                outputs.write(block, attend(blocks[block], keys, values, mask)),
            ),
            (0, outputs),
            parallel_iterations=1,
        )
        return _joined_blocks(outputs.stack(), queries), gradient

    attention: Tensor = attended(queries, keys, values, mask)
    return attention


def _gradient_in_blocks(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, upstream: Tensor, size: int
) -> tuple[Tensor, ...]:
    """Return the gradients of queries, keys and values, those of the last two added up in float32."""
    blocks, upstream_blocks = _in_blocks(queries, size), _in_blocks(upstream, size)

    def step(block: Tensor, of_queries: Any, *sums: Tensor) -> tuple[Any, ...]:
        inputs = (blocks[block], keys, values)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = attend(*inputs, mask)
        own, *shared = tape.gradient(outputs, inputs, upstream_blocks[block])
        added = (total + tf.cast(one, tf.float32) for total, one in zip(sums, shared, strict=True))
        return (block + 1, of_queries.write(block, own), *added)

    of_queries = tf.TensorArray(queries.dtype, tf.shape(blocks)[0], element_shape=blocks.shape[1:])
    zeros = (tf.zeros_like(part, tf.float32) for part in (keys, values))
    _, of_queries, *sums = tf.while_loop(
        lambda block, *_: block < tf.shape(blocks)[0], step, (0, of_queries, *zeros), parallel_iterations=1
    )
    return (_joined_blocks(of_queries.stack(), queries), *(tf.cast(total, queries.dtype) for total in sums))


def _in_blocks(frames: Tensor, size: int) -> Tensor:
    """Cut (B, T, H, D) into blocks (N, B, size, H, D), the last of which is filled up with zeros."""
    return tf.transpose(in_chunks(frames, size), [1, 0, 2, 3, 4])


def _joined_blocks(blocks: Tensor, like: Tensor) -> Tensor:
    """Join blocks (N, B, size, H, D) to the shape of `like`, (B, T, H, D)."""
    return tf.ensure_shape(joined(tf.transpose(blocks, [1, 0, 2, 3, 4]), like), like.shape)
