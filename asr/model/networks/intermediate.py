"""Provide outputs in the middle of a network, from which it learns, and whose probabilities it may use.

Intermediate CTC (Lee & Watanabe, 2021, arXiv:2102.03216): in training, a loss of their own trains the layers
before them directly. Self-conditioning (Nozaki & Komatsu, 2021, arXiv:2104.02724): the layers after them get
their probabilities, in decoding as well.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.errors import UserError
from asr.base.types import Logits, Tensor
from asr.model.networks.layers import BuildOnCall, make_output

NAME = "intermediate"
"""How the names of these layers begin."""


@keras.saving.register_keras_serializable("polyphone")
class IntermediateOutput(BuildOnCall, keras.layers.Layer):
    """Logits of hidden frames in training, which are fed back to the frames if it is self-conditioned.

    Args:
        num_outputs: V, the size of the vocabulary, including the blank.
        output_parts: (V, P) ids of the parts of each output, by which outputs share weights; None for none.
        self_conditioned: whether the layers after it get its probabilities.
        seed: seed of the initial weights.
    """

    def __init__(
        self, num_outputs: int, output_parts: Any, self_conditioned: bool, seed: int, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._output = make_output(num_outputs, output_parts, seed)
        self._feedback = (
            Feedback(num_outputs, output_parts, seed, name="feedback") if self_conditioned else None
        )

    def call(
        self, hidden: Tensor, mask: Tensor, num_frames: Tensor, training: bool = False
    ) -> tuple[Tensor, tuple[Logits, ...]]:
        """Map hidden (B, T, C), 0 on padding, to the same shape, and to logits, in training only."""
        if not self._output.built:  # decoding has the weights, too
            self._output.build(hidden.shape)
        if not training and self._feedback is None:
            return hidden, ()
        values = ops.cast(self._output(hidden), "float32")
        if self._feedback is not None:
            hidden = hidden + self._feedback(ops.softmax(values), hidden) * mask
        return hidden, (Logits(values, num_frames),) if training else ()


@keras.saving.register_keras_serializable("polyphone")
class Feedback(keras.layers.Layer):
    """A matrix from probabilities to channels, with a row for each output or each of its parts.

    Args:
        num_outputs: V.
        parts: (V, P) ids of each output's parts; None if outputs share no weights.
        seed: seed of the initial weights.
    """

    def __init__(self, num_outputs: int, parts: Any, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = np.arange(num_outputs)[:, None] if parts is None else np.asarray(parts, np.int32)
        self.seed = seed

    def build(self, probabilities_shape: Any, hidden_shape: Any) -> None:
        """Create the weights for probabilities (B, T, V) and hidden (B, T, C)."""
        shape = (int(self.parts.max()) + 1, hidden_shape[-1])
        initializer = keras.initializers.GlorotUniform(self.seed)
        self.rows = self.add_weight(name="rows", shape=shape, initializer=initializer, autocast=False)

    def call(self, probabilities: Tensor, hidden: Tensor) -> Tensor:
        """Map (B, T, V) to (B, T, C), the shape and the type of `hidden`."""
        kernel = ops.sum(ops.take(self.rows, self.parts, axis=0), axis=1)  # (V, C)
        return ops.matmul(ops.cast(probabilities, hidden.dtype), ops.cast(kernel, hidden.dtype))

    @override
    def get_config(self) -> dict[str, Any]:
        own = {"num_outputs": len(self.parts), "parts": self.parts.tolist(), "seed": self.seed}
        return {**super().get_config(), **own}


def blocks_with_output(config: ModelConfig, num_blocks: int) -> list[int]:
    """Return the indices of the blocks that have an output after them, by `model.intermediate_ctc`.

    Args:
        config: configuration of the model.
        num_blocks: of the network.

    Raises:
        UserError: a depth is not a share, or two depths are the same block.
    """
    blocks: dict[int, str] = {}
    for text in filter(None, map(str.strip, config.intermediate_ctc.split(","))):
        try:
            depth = float(text)
        except ValueError:
            depth = -1.0
        if not 0 < depth <= 1:
            raise UserError(
                "model.intermediate_ctc: expected shares of the network's depth, above 0 and up to 1, such "
                f'as "0.5, 0.8", received {text!r}'
            )
        block = max(0, round(depth * num_blocks) - 1)
        if block in blocks:
            raise UserError(
                f"model.intermediate_ctc: {blocks[block]} and {text} are both behind block {block + 1} of "
                f"{num_blocks}; leave one out, or choose a larger model.size"
            )
        blocks[block] = text
    return sorted(blocks)
