"""Cut clips into chunks of equal length, whose frames depend on no frame after their chunk's end.

Dynamic chunk training (U2; Zhang et al., 2020, arXiv:2012.05481): in training, either the whole clip or its
chunks are drawn for each batch, so that one model recognizes streams as well as whole recordings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.errors import UserError
from asr.base.types import Tensor
from asr.model.features.layer import HOP

ATTENDED_S = 1.28
"""Sound before a chunk that its frames attend to, at least: 1.28 s in each block."""


class Chunks(NamedTuple):
    """How clips are cut, in frames of logits.

    Attributes:
        size: frames of a chunk; 0 if clips are not cut.
        before: chunks before their own that frames attend to.
    """

    size: int = 0
    before: int = 0


def make_chunks(chunk_s: float, subsampling: int) -> Chunks:
    """Return the chunks of `model.chunk_s`.

    Args:
        chunk_s: seconds of a chunk; 0 for whole clips.
        subsampling: feature frames from one frame of logits to the next.

    Raises:
        UserError: no number of frames of logits has this length.
    """
    frame_s = subsampling * HOP / SAMPLE_RATE_HZ
    size = round(chunk_s / frame_s)
    if chunk_s < 0 or abs(size * frame_s - chunk_s) > 1e-6:
        nearest = max(1, size) * frame_s
        raise UserError(
            f"model.chunk_s: expected 0 or a multiple of {frame_s:g} s, the time of a frame of logits, "
            f"received {chunk_s:g}; the nearest is {nearest:g}"
        )
    return Chunks(size, -(-round(ATTENDED_S / frame_s) // size)) if size else Chunks()


def in_chunks(frames: Tensor, size: int, before: int = 0) -> Tensor:
    """Cut frames into chunks, each preceded by the last frames before it.

    Args:
        frames: (B, T, ...).
        size: frames of a chunk; zeros fill up the last one.
        before: frames before each chunk; zeros before the clip.

    Returns:
        (B, N, before + size, ...).
    """
    num_chunks = -(-ops.shape(frames)[1] // size)
    behind = num_chunks * size - ops.shape(frames)[1]
    padded = ops.pad(frames, [[0, 0], [before, behind], *[[0, 0]] * (len(frames.shape) - 2)])
    pieces = [
        ops.reshape(
            padded[:, begin : begin + num_chunks * size],
            (ops.shape(frames)[0], num_chunks, size, *frames.shape[2:]),
        )[:, :, : before - begin if begin < before else size]
        for begin in [*range(0, before, size), before]
    ]
    return ops.concatenate(pieces, axis=2)


def joined(chunks: Tensor, like: Tensor) -> Tensor:
    """Join chunks (B, N, size, ...) to the frames of `like`, (B, T, ...)."""
    shape = (ops.shape(like)[0], -1, *chunks.shape[3:])
    return ops.reshape(chunks, shape)[:, : ops.shape(like)[1]]


def either(whole: Any, of_clip: Callable[[], Tensor], by_chunk: Callable[[], Tensor]) -> Tensor:
    """Return what one of two functions returns.

    Args:
        whole: whether it is the first one: True or False, or () bool where that was drawn.
        of_clip: computes the frames of whole clips.
        by_chunk: computes them by chunks.
    """
    if isinstance(whole, bool):
        return of_clip() if whole else by_chunk()
    return tf.cond(whole, of_clip, by_chunk)
