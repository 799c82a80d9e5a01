"""Divide a network into parts that follow each other, so that each may run on a device of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from asr.base.types import DeepLogits, Logits, Tensor
from asr.model.networks.layers import BuildOnCall

StageInputs: TypeAlias = tuple[Any, ...]
"""What one part hands to the next: hidden (B, T, ...), the number of frames (B,) of each row, and then the
`Logits` of outputs in the middle of the network so far."""


class NetworkPart(NamedTuple):
    """A part of a network.

    Attributes:
        name: is unique in the network.
        layers: those whose weights the part uses; no other part uses them.
        run: (hidden, num_frames, training) -> what the next part takes, with logits of this part only; that
            of the last part returns `Logits`.
    """

    name: str
    layers: Sequence[keras.Layer]
    run: Callable[[Tensor, Tensor, bool], StageInputs]


def run_parts(
    parts: Sequence[NetworkPart], hidden: Tensor, num_frames: Tensor, training: bool
) -> StageInputs:
    """Run parts one after the other, and return what the last one returns."""
    passed: StageInputs = (hidden, num_frames)
    for part in parts:
        passed = run_part(part, passed, training)
    return passed


def run_part(part: NetworkPart, passed: StageInputs, training: bool) -> StageInputs:
    """Run a part with what the one before passed on; logits of parts before are passed on, too."""
    hidden, num_frames, *earlier = passed
    made = part.run(hidden, num_frames, training)
    if not earlier:
        return made
    hidden, num_frames, *own = made
    if isinstance(made, Logits):
        return DeepLogits(hidden, num_frames, tuple(earlier))
    return (hidden, num_frames, *earlier, *own)


class PartLayer(BuildOnCall, keras.layers.Layer):
    """A part of a model, whose weights exist, as a layer from one structure of tensors to another.

    Args:
        part: the part.
        dtype: policy of the layers within, to whose type what the part computes with is cast.
    """

    def __init__(self, part: NetworkPart, dtype: Any = None) -> None:
        super().__init__(name=part.name, dtype=dtype, autocast=False)  # logits that pass by stay float32
        self._layers_within = list(part.layers)
        self._part = part

    def call(self, passed: StageInputs, training: bool = False) -> StageInputs:
        """Map what the part before returned to what the next one takes."""
        hidden, *others = passed
        if keras.backend.is_float_dtype(hidden.dtype):
            hidden = ops.cast(hidden, self.compute_dtype)
        return run_part(self._part, (hidden, *others), training)
