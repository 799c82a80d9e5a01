"""Define Conformers, which attend to whole clips or chunks and filter them locally, with a subsampling of 8.

After Gulati et al. (2020, arXiv:2005.08100), subsampled as in Fast Conformer (Rekesh et al., 2023,
arXiv:2305.05084), with the rotary positions of RoFormer (Su et al., 2021, arXiv:2104.09864).
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import keras
from typing_extensions import override

from asr.base.config import ModelConfig
from asr.base.types import Tensor
from asr.model.networks.conformers.chunks import make_chunks
from asr.model.networks.conformers.conformer_block import KERNEL, MODULES, ConformerBlock, ConformerBlockSize
from asr.model.networks.layers import make_output
from asr.model.networks.parts import NetworkPart, StageInputs
from asr.model.networks.sized import SizedNetwork, block_parts
from asr.model.networks.subsampling import NUM_HALVINGS, REACH, ConvSubsampling
from asr.model.runner import ReceptiveField


class ConformerSize(NamedTuple):
    """The channels of a frame, the number of blocks, and the rest that differs between sizes."""

    channels: int
    blocks: int
    heads: int
    filters: int  # channels of the subsampling


# 1.5, 8, 28 and 45 million parameters with 1,428 outputs; s is that of Gulati et al.
SIZES = {
    "xs": ConformerSize(96, 6, 4, 32),
    "s": ConformerSize(144, 16, 4, 64),
    "m": ConformerSize(256, 18, 4, 128),
    "l": ConformerSize(384, 13, 6, 128),
}


@keras.saving.register_keras_serializable("polyphone")
class Conformer(SizedNetwork):
    """The Conformers, one for each size; `SizedNetwork` has the other arguments.

    Args:
        chunk_s: seconds of the chunks in which clips are recognized; 0 for whole clips.
    """

    SUBSAMPLING = 2**NUM_HALVINGS
    SIZES = SIZES
    OPTIONS = SizedNetwork.OPTIONS | {"chunk_s"}

    def __init__(self, *args: Any, chunk_s: float = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.chunk_s, self._chunks = chunk_s, make_chunks(chunk_s, self.SUBSAMPLING)
        channels, num_blocks, heads, filters = SIZES[self.size]
        seeds = itertools.count(self.seed * 1000)
        self._subsampling = ConvSubsampling(filters, channels, seed=next(seeds) * 100, name="subsampling")
        size = ConformerBlockSize(
            channels,
            heads,
            self.dropout,
            # scale residuals by 1 / sqrt(depth) (GPT-2; Radford et al., 2019)
            residual=(MODULES * num_blocks) ** -0.5,
            chunks=self._chunks,
            chunk_seed=self.seed * 1000 + 900,
        )
        self._blocks = [
            ConformerBlock(size, seed=next(seeds) * 100, name=f"block{index}") for index in range(num_blocks)
        ]
        self._outputs = [self.intermediate_output(index) for index in range(num_blocks)]
        self._output = make_output(self.num_outputs, self.output_parts, next(seeds))

    @classmethod
    @override
    def num_blocks(cls, size: str) -> int:
        return SIZES[size].blocks

    @classmethod
    @override
    def own_settings(cls, config: ModelConfig, num_pitch: int) -> dict[str, Any]:
        return {"chunk_s": config.chunk_s}

    @override
    def receptive_field(self) -> ReceptiveField | None:
        """Return the feature frames that a chunk of logits depends on; None without chunks."""
        if not self._chunks.size:
            return None
        size, attended = self._chunks
        in_a_block = attended + -(-(KERNEL // 2) // size)  # chunks
        before = len(self._blocks) * in_a_block * size * self.SUBSAMPLING
        return ReceptiveField(before + REACH, REACH, size)

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "chunk_s": self.chunk_s}

    @override
    def parts(self) -> list[NetworkPart]:
        blocks = (
            part
            for block, output in zip(self._blocks, self._outputs, strict=True)
            for part in block_parts(block, output)
        )
        return [NetworkPart("subsampling", [self._subsampling], self._subsample), *blocks, self.output_part()]

    def _subsample(self, features: Tensor, num_frames: Tensor, training: bool) -> StageInputs:
        hidden, num_frames = self._subsampling(features, num_frames)
        return hidden, num_frames
