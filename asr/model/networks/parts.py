"""Divide a network into parts that follow each other, so that each may run on a device of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras

from asr.base.types import Tensor
from asr.model.networks.layers import BuiltByCall

Passed: TypeAlias = tuple[Tensor, Tensor]
"""What one part hands to the next: hidden (B, T, ...) and the number of frames (B,) of each row."""


class Part(NamedTuple):
    """Describes a part of a network.

    Attributes:
        name: is unique in the network.
        layers: those whose weights the part uses; no other part uses them.
        run: (hidden, num_frames, training) -> what the next part takes; that of the last returns `Logits`.
    """

    name: str
    layers: Sequence[keras.Layer]
    run: Callable[[Tensor, Tensor, bool], Passed]


def run_parts(parts: Sequence[Part], hidden: Tensor, num_frames: Tensor, training: bool) -> Passed:
    """Run parts one after the other, and return what the last one returns."""
    passed = hidden, num_frames
    for part in parts:
        passed = part.run(*passed, training)
    return passed


class PartLayer(BuiltByCall, keras.layers.Layer):
    """Runs a part of a model whose weights exist as a layer; takes and returns one structure of tensors.

    Args:
        part: the part.
        dtype: policy of the layers within, by which inputs are cast.
    """

    def __init__(self, part: Part, dtype: Any = None) -> None:
        super().__init__(name=part.name, dtype=dtype)
        self._layers_within = list(part.layers)
        self._run = part.run

    def call(self, passed: Passed, training: bool = False) -> Passed:
        """Map what the part before returned to what the next one takes."""
        return self._run(*passed, training)
