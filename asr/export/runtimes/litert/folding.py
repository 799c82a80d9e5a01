"""Fold batch normalisation, and constant factors, into the layers before them.

The signatures of a LiteRT file share their weights only if the converter computes the same ones for all of
them. It folds where it knows the length of the clips, and not where it does not.
"""

from __future__ import annotations

import keras
import numpy as np

from asr.model.acoustic_model import AcousticModel
from asr.model.keras_internals import layers_directly_in, layers_of
from asr.model.networks.conformers.conformer_block import ConformerBlock
from asr.model.networks.dcnn import Dcnn
from asr.model.networks.layers import MaskedBatchNorm
from asr.model.networks.separable import SeparableConvolution, Stage
from asr.model.networks.stem import BandConvolutions, Stem


def folded_copy(model: AcousticModel) -> AcousticModel:
    """Return a copy of a model that computes the same without normalisation, and with factors of 1.

    In networks that this module does not know, normalisation stays.
    """
    copy = AcousticModel.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    for layer in layers_of(copy.network):
        inner = {one.name: one for one in layers_directly_in(layer)}
        for before, norm in _pairs(layer, inner):
            _fold(inner[norm], inner[before])
        if isinstance(layer, ConformerBlock):
            _fold_share(layer, [inner["feed_forward0"], inner["feed_forward1"]])
    return copy


def _pairs(layer: keras.Layer, inner: dict[str, keras.Layer]) -> list[tuple[str, str]]:
    """Return names of layers, each with that of the normalisation that follows it and nothing else."""
    if isinstance(layer, SeparableConvolution):
        return [("pointwise", "norm")]
    if isinstance(layer, Stage):
        return [("down", "norm")] if "down" in inner else []
    if isinstance(layer, BandConvolutions):
        convolutions = [(f"conv{index}", f"norm{index}") for index in range(len(layer.strides))]
        # with the pitch, the last normalisation follows a sum
        is_last = isinstance(layer, Stem) and not layer.num_pitch
        return [*convolutions, ("pointwise", "norm")] if is_last else convolutions
    if isinstance(layer, Dcnn):
        return [(name.replace("norm", "conv"), name) for name in inner if name.startswith("norm")]
    return []


def _fold(norm: MaskedBatchNorm, before: keras.Layer) -> None:
    """Scale a kernel (..., C), and let the normalisation only add what is left to add.

    Normalising by 1 would not do: on some processors, TensorFlow's `rsqrt` of 1 is 0.9999999.
    """
    scale = norm.gamma.numpy() / np.sqrt(norm.moving_variance.numpy() + norm.epsilon)
    bias = before.bias.numpy() if before.use_bias else 0.0
    norm.beta.assign(norm.beta.numpy() + (bias - norm.moving_mean.numpy()) * scale)
    before.kernel.assign(before.kernel.numpy() * scale)
    if before.use_bias:
        before.bias.assign(np.zeros_like(bias))
    norm.is_folded = True


def _fold_share(block: ConformerBlock, feed_forwards: list[keras.Layer]) -> None:
    """Let feed-forwards compute the share of their outputs that the block of a Conformer adds."""
    for feed_forward in feed_forwards:
        (narrow,) = (layer for layer in layers_directly_in(feed_forward) if layer.name == "narrow")
        for weight in narrow.weights:
            weight.assign(weight.numpy() * block.feed_forward_share)
    block.feed_forward_share = 1.0
