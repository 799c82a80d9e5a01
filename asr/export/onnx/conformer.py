"""Write Conformers as ONNX nodes, as `asr/model/networks/conformer.py` computes them."""

from __future__ import annotations

from typing import NamedTuple

from asr.export.onnx.graph import FLOAT32, Graph, Value
from asr.export.onnx.layers import (
    add_layer,
    add_pointwise,
    by_frame,
    by_row,
    inner_layers,
    padding_mask,
    writes,
)
from asr.model.networks.attention import IMPOSSIBLE, rotary_rates
from asr.model.networks.conformer import SIZES, Conformer
from asr.model.networks.conformer_block import Block, ConvolutionModule, FeedForward, SelfAttention
from asr.model.networks.intermediate import IntermediateOutput
from asr.model.networks.striding import KERNEL, NUM_HALVINGS, Striding


class Frames(NamedTuple):
    """Holds what all blocks need to know of a batch's frames; all of it is computed once.

    Attributes:
        mask: (B, T, 1), 1 on real frames and 0 on padding.
        impossible: (B, 1, 1, T), what scores of padding get.
        cosine: (T, D) of the rotary positions.
        sine: (T, D), the first half of which is negative.
    """

    mask: Value
    impossible: Value
    cosine: Value
    sine: Value


@writes(Conformer)
def add_conformer(
    graph: Graph, network: Conformer, features: Value, num_frames: Value
) -> tuple[Value, Value]:
    """Map features (B, T, F) to logits (B, T', V), and the number of frames."""
    size = SIZES[network.size]
    subsampling, *parts, output = (layer for part in network.parts() for layer in part.layers)
    hidden, num_frames = add_layer(graph, subsampling, features, num_frames)
    frames = _frames(graph, hidden, num_frames, size.channels // size.heads)
    for layer in parts:
        is_output = isinstance(layer, IntermediateOutput)
        hidden = add_layer(graph, layer, hidden, frames.mask if is_output else frames)
    return add_layer(graph, output, hidden), num_frames


def _frames(graph: Graph, hidden: Value, num_frames: Value, channels: int) -> Frames:
    """Return what blocks need to know of (B, T, C), for heads of so many channels."""
    with graph.scope("frames"):
        mask = padding_mask(graph, num_frames, hidden, axis=1, rank=3)
        padding = graph.op("Unsqueeze", graph.op("Transpose", mask, perm=[0, 2, 1]), [1])  # (B, 1, 1, T)
        places = graph.op("Range", 0, graph.op("Squeeze", graph.size(hidden, 1), [0]), 1)
        places = graph.op("Unsqueeze", graph.op("Cast", places, to=FLOAT32), [1])  # (T, 1)
        angles = places * graph.constant("rates", rotary_rates(channels))  # (T, D / 2)
        cosine, sine = graph.op("Cos", angles), graph.op("Sin", angles)
        return Frames(
            mask,
            (padding - 1.0) * -IMPOSSIBLE,
            graph.op("Concat", cosine, cosine, axis=1),
            graph.op("Concat", graph.op("Neg", sine), sine, axis=1),
        )


@writes(Striding)
def add_striding(graph: Graph, layer: Striding, features: Value, num_frames: Value) -> tuple[Value, Value]:
    """Map features (B, T, F) to (B, T / 8, C), and the number of frames."""
    inner = inner_layers(layer)
    hidden, side = graph.op("Unsqueeze", features, [1]), KERNEL // 2  # (B, 1, T, F)
    for index in range(NUM_HALVINGS):
        name = f"depthwise{index}" if index else "conv0"
        hidden = add_layer(graph, inner[name], hidden, pads=(side, side))
        num_frames = (num_frames + 1) // 2
        if index:
            hidden = add_pointwise(graph, inner[f"pointwise{index}"], hidden)
        mask = padding_mask(graph, num_frames, hidden, axis=2, rank=4)
        hidden = graph.op("Relu", hidden) * mask  # (B, filters, T / 2, F / 2)
    hidden = graph.op("Transpose", hidden, perm=[0, 2, 3, 1])  # (B, T / 8, F / 8, filters)
    flat = graph.op("Reshape", hidden, [0, 0, int(inner["projection"].kernel.shape[0])])
    hidden = add_layer(graph, inner["norm"], add_layer(graph, inner["projection"], flat))
    return hidden * padding_mask(graph, num_frames, hidden, axis=1, rank=3), num_frames


@writes(Block)
def add_block(graph: Graph, block: Block, inputs: Value, frames: Frames) -> Value:
    """Map (B, T, C) to the same shape, 0 on padding."""
    inner = inner_layers(block)
    hidden = inputs + add_layer(graph, inner["feed_forward0"], inputs)
    hidden += add_layer(graph, inner["attention"], hidden, frames)
    hidden += add_layer(graph, inner["convolution"], hidden, frames)
    hidden += add_layer(graph, inner["feed_forward1"], hidden)
    return add_layer(graph, inner["norm"], hidden) * frames.mask


@writes(FeedForward)
def add_feed_forward(graph: Graph, layer: FeedForward, inputs: Value) -> Value:
    """Map (B, T, C) to half of what the layer computes, which is what a block adds."""
    inner = inner_layers(layer)
    wide = add_layer(graph, inner["wide"], add_layer(graph, inner["norm"], inputs))
    return add_layer(graph, inner["narrow"], swish(graph, wide)) * 0.5


@writes(SelfAttention)
def add_attention(graph: Graph, layer: SelfAttention, inputs: Value, frames: Frames) -> Value:
    """Map (B, T, C) to the same shape."""
    inner, heads = inner_layers(layer), layer.heads
    qkv = add_layer(graph, inner["qkv"], add_layer(graph, inner["norm"], inputs))
    channels = int(inner["qkv"].kernel.shape[1]) // (3 * heads)
    qkv = graph.op("Reshape", qkv, [0, 0, 3 * heads, channels])
    qkv = graph.op("Transpose", qkv, perm=[0, 2, 1, 3])  # (B, 3 H, T, D)
    rotated = _rotated(graph, graph.slice(qkv, 1, 0, 2 * heads), channels, frames)
    queries = graph.slice(rotated, 1, 0, heads) * channels**-0.5
    keys = graph.op("Transpose", graph.slice(rotated, 1, heads, None), perm=[0, 1, 3, 2])
    scores = graph.op("MatMul", queries, keys) + frames.impossible  # (B, H, T, T)
    attended = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), graph.slice(qkv, 1, 2 * heads, None))
    side_by_side = graph.op("Transpose", attended, perm=[0, 2, 1, 3])  # (B, T, H, D)
    return add_layer(graph, inner["mix"], graph.op("Reshape", side_by_side, [0, 0, heads * channels]))


def _rotated(graph: Graph, heads: Value, channels: int, frames: Frames) -> Value:
    """Rotate pairs of the channels of (B, H, T, D) by the angles of their frames."""
    half = channels // 2
    swapped = graph.op("Concat", graph.slice(heads, 3, half, None), graph.slice(heads, 3, 0, half), axis=3)
    return heads * frames.cosine + swapped * frames.sine


@writes(ConvolutionModule)
def add_convolution(graph: Graph, layer: ConvolutionModule, inputs: Value, frames: Frames) -> Value:
    """Map (B, T, C) to the same shape."""
    inner = inner_layers(layer)
    both = add_layer(graph, inner["gated"], add_layer(graph, inner["norm"], inputs))
    channels = int(inner["gated"].kernel.shape[1]) // 2
    gates = graph.op("Sigmoid", graph.slice(both, 2, channels, None))
    gated = graph.slice(both, 2, 0, channels) * gates * frames.mask
    filtered = by_frame(graph, add_layer(graph, inner["depthwise"], by_row(graph, gated)))
    hidden = swish(graph, add_layer(graph, inner["filtered_norm"], filtered))
    return add_layer(graph, inner["mix"], hidden)


def swish(graph: Graph, values: Value) -> Value:
    """Multiply values by their sigmoids."""
    return values * graph.op("Sigmoid", values)
