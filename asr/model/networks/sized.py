"""Define what networks that come in sizes have in common: settings, and outputs after some blocks."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
from keras import ops
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.errors import UserError
from asr.base.types import DeepLogits, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.model.networks.intermediate import NAME, IntermediateOutput, blocks_with_output
from asr.model.networks.layers import frame_mask, half_rounded_up
from asr.model.networks.network import INTERMEDIATE_OPTIONS, Network
from asr.model.networks.parts import NetworkPart, StageInputs, run_parts


class SizedNetwork(Network):
    """A network that comes in sizes; a subclass makes the layers.

    Args:
        size: a name in SIZES.
        num_outputs: V, the size of the vocabulary, including the blank.
        dropout: share of activations dropped in training.
        output_parts: (V, P) ids of the parts of each output, by which outputs share weights.
        seed: seed of the dropout masks and the initial weights.
        intermediate: indices of the blocks, from 0, that have an output of their own after them.
        self_conditioned: whether layers after such an output get its probabilities.
        num_phones: number of outputs of those in the middle, including the blank, if they are phones; 0 if
            they are tokens.
    """

    OPTIONS = frozenset(INTERMEDIATE_OPTIONS)

    SIZES: ClassVar[Mapping[str, Any]]
    """The sizes of the family by name, a subset of those of `model.size`."""

    _output: keras.layers.Layer

    def __init__(
        self,
        size: str,
        num_outputs: int,
        dropout: float = 0.1,
        output_parts: Any = None,
        seed: int = 1,
        intermediate: Sequence[int] = (),
        self_conditioned: bool = False,
        num_phones: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate, self.self_conditioned = tuple(intermediate), self_conditioned
        self.num_phones = num_phones
        self.size, self.num_outputs, self.dropout, self.seed = size, num_outputs, dropout, seed
        self.output_parts = output_parts

    @classmethod
    @override
    def of(cls, config: ModelConfig, vocabulary: Vocabulary, seed: int, num_pitch: int) -> Self:
        if config.size not in cls.SIZES:
            raise UserError(
                f"model.size: networks of model.family={config.family} come in the sizes "
                f"{', '.join(cls.SIZES)}, received {config.size}; choose one of them"
            )
        parts = vocabulary.syllable_parts() if config.factored_output else None
        blocks = blocks_with_output(config, cls.num_blocks(config.size))
        return cls(
            config.size,
            len(vocabulary),
            config.dropout,
            parts,
            seed,
            blocks,
            config.self_conditioned,
            len(vocabulary.phones()) if config.intermediate_units == "phones" else 0,
            **cls.own_settings(config, num_pitch),
        )

    @classmethod
    def num_blocks(cls, size: str) -> int:
        """Return the number of blocks after which an output may be."""
        raise NotImplementedError

    @classmethod
    def own_settings(cls, config: ModelConfig, num_pitch: int) -> dict[str, Any]:
        """Return the arguments of the constructor that only this family has."""
        return {}

    @override
    def call(self, features: Tensor, num_frames: Tensor, training: bool = False) -> Logits | DeepLogits:
        """Map features (B, T, F) and num_frames (B,) to logits with about T / 8 frames."""
        logits = run_parts(self.parts(), features, num_frames, training)
        return logits if isinstance(logits, DeepLogits) else Logits(*logits)

    @override
    def num_output_frames(self, num_frames: Any) -> Any:
        """Return the frames after convolutions of stride 2, each of which keeps an odd last frame."""
        for _ in range(self.SUBSAMPLING.bit_length() - 1):
            num_frames = half_rounded_up(num_frames)
        return num_frames

    def intermediate_output(self, block: int) -> IntermediateOutput | None:
        """Return the output after a block, if it has one."""
        if block not in self.intermediate:
            return None
        return IntermediateOutput(
            self.num_phones or self.num_outputs,
            None if self.num_phones else self.output_parts,
            self.self_conditioned,
            seed=self.seed * 1000 + 500 + block,
            name=f"{NAME}{block}",
        )

    def output_part(self) -> NetworkPart:
        """Return the last part, which maps hidden frames to logits."""
        return NetworkPart("output", [self._output], self._to_logits)

    def _to_logits(self, hidden: Tensor, num_frames: Tensor, training: bool) -> Logits:
        return Logits(ops.cast(self._output(hidden), "float32"), num_frames)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "num_outputs": self.num_outputs,
            "dropout": self.dropout,
            "output_parts": self.output_parts,
            "seed": self.seed,
            "intermediate": list(self.intermediate),
            "self_conditioned": self.self_conditioned,
            "num_phones": self.num_phones,
            "name": self.name,
        }


def block_parts(
    block: keras.layers.Layer, output: IntermediateOutput | None, prefix: str = ""
) -> list[NetworkPart]:
    """Return a block that maps (hidden, mask), and the output after it if it has one, as parts."""
    parts = [NetworkPart(f"{prefix}{block.name}", [block], functools.partial(_apply, block))]
    if output is not None:
        parts.append(
            NetworkPart(f"{prefix}{output.name}", [output], functools.partial(_apply_output, output))
        )
    return parts


def _apply(block: keras.layers.Layer, hidden: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
    return block(hidden, frame_mask(hidden, num_frames), training=training), num_frames


def _apply_output(
    output: IntermediateOutput, hidden: Tensor, num_frames: Tensor, training: bool
) -> StageInputs:
    hidden, logits = output(hidden, frame_mask(hidden, num_frames), num_frames, training=training)
    return (hidden, num_frames, *logits)
