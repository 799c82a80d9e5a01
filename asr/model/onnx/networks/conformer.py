"""Write Conformers as ONNX nodes, as `asr/model/networks/conformers/conformer.py` computes them."""

from __future__ import annotations

from typing import NamedTuple

from asr.model.networks.conformers.attention import IMPOSSIBLE, rotary_rates
from asr.model.networks.conformers.chunks import Chunks, make_chunks
from asr.model.networks.conformers.conformer import SIZES, Conformer
from asr.model.networks.conformers.conformer_block import (
    KERNEL,
    ConformerBlock,
    ConvolutionModule,
    FeedForward,
    SelfAttention,
)
from asr.model.networks.intermediate import IntermediateOutput
from asr.model.networks.layers import half_rounded_up
from asr.model.networks.subsampling import KERNEL as STRIDE_KERNEL
from asr.model.networks.subsampling import NUM_HALVINGS, ConvSubsampling
from asr.model.onnx.graph import FLOAT32, Graph, Value
from asr.model.onnx.networks.chunks import in_chunks, joined
from asr.model.onnx.networks.layers import (
    add_layer,
    add_pointwise,
    by_frame,
    by_row,
    inner_layers,
    padding_mask,
    writes,
)


class Frames(NamedTuple):
    """What all blocks need to know of a batch's frames; all of it is computed once.

    Attributes:
        mask: (B, T, 1), 1 on real frames and 0 on padding.
        impossible: (N, 1, 1, K), what scores of padding get, of each clip or chunk.
        cosine: (T, 1, D) of the rotary positions.
        sine: (T, 1, D), the first half of which is negative.
        chunks: into which clips are cut.
    """

    mask: Value
    impossible: Value
    cosine: Value
    sine: Value
    chunks: Chunks


@writes(Conformer)
def add_conformer(
    graph: Graph, network: Conformer, features: Value, num_frames: Value
) -> tuple[Value, Value]:
    """Map features (B, T, F) to logits (B, T', V), and the number of frames."""
    size, chunks = SIZES[network.size], make_chunks(network.chunk_s, network.SUBSAMPLING)
    subsampling, *parts, output = (layer for part in network.parts() for layer in part.layers)
    hidden, num_frames = add_layer(graph, subsampling, features, num_frames)
    frames = _frames(graph, hidden, num_frames, size.channels // size.heads, chunks)
    for layer in parts:
        is_output = isinstance(layer, IntermediateOutput)
        hidden = add_layer(graph, layer, hidden, frames.mask if is_output else frames)
    return add_layer(graph, output, hidden), num_frames


def _frames(graph: Graph, hidden: Value, num_frames: Value, channels: int, chunks: Chunks) -> Frames:
    """Return what blocks need to know of (B, T, C), for heads with that number of channels."""
    with graph.scope("frames"):
        mask = padding_mask(graph, num_frames, hidden, axis=1, rank=3)
        keys = _with_chunks_before(graph, mask, 1, chunks)  # (N, K, 1)
        keys = graph.op("Unsqueeze", graph.op("Transpose", keys, perm=[0, 2, 1]), [1])  # (N, 1, 1, K)
        indices = graph.op("Range", 0, graph.op("Squeeze", graph.size(hidden, 1), [0]), 1)
        indices = graph.op("Unsqueeze", graph.op("Cast", indices, to=FLOAT32), [1, 2])  # (T, 1, 1)
        angles = indices * graph.constant("rates", rotary_rates(channels))  # (T, 1, D / 2)
        cosine, sine = graph.op("Cos", angles), graph.op("Sin", angles)
        return Frames(
            mask,
            (keys - 1.0) * -IMPOSSIBLE,
            graph.op("Concat", cosine, cosine, axis=2),
            graph.op("Concat", graph.op("Neg", sine), sine, axis=2),
            chunks,
        )


def _with_chunks_before(graph: Graph, frames: Value, channels: int, chunks: Chunks) -> Value:
    """Cut (B, T, C) into what the frames of each chunk attend to; without chunks, return it as it is."""
    if not chunks.size:
        return frames
    return in_chunks(graph, frames, channels, chunks.size, chunks.before * chunks.size)


@writes(ConvSubsampling)
def add_subsampling(
    graph: Graph, layer: ConvSubsampling, features: Value, num_frames: Value
) -> tuple[Value, Value]:
    """Map features (B, T, F) to (B, T / 8, C), and the number of frames."""
    inner = inner_layers(layer)
    hidden, side = graph.op("Unsqueeze", features, [1]), STRIDE_KERNEL // 2  # (B, 1, T, F)
    for index in range(NUM_HALVINGS):
        name = f"depthwise{index}" if index else "conv0"
        hidden = add_layer(graph, inner[name], hidden, pads=(side, side))
        num_frames = half_rounded_up(num_frames)
        if index:
            hidden = add_pointwise(graph, inner[f"pointwise{index}"], hidden)
        mask = padding_mask(graph, num_frames, hidden, axis=2, rank=4)
        hidden = graph.op("Relu", hidden) * mask  # (B, filters, T / 2, F / 2)
    hidden = graph.op("Transpose", hidden, perm=[0, 2, 3, 1])  # (B, T / 8, F / 8, filters)
    flat = graph.op("Reshape", hidden, [0, 0, int(inner["projection"].kernel.shape[0])])
    hidden = add_layer(graph, inner["norm"], add_layer(graph, inner["projection"], flat))
    return hidden * padding_mask(graph, num_frames, hidden, axis=1, rank=3), num_frames


@writes(ConformerBlock)
def add_block(graph: Graph, block: ConformerBlock, inputs: Value, frames: Frames) -> Value:
    """Map (B, T, C) to the same shape, 0 on padding."""
    inner = inner_layers(block)
    share = block.feed_forward_share
    hidden = inputs + add_layer(graph, inner["feed_forward0"], inputs) * share
    hidden += add_layer(graph, inner["attention"], hidden, frames)
    hidden += add_layer(graph, inner["convolution"], hidden, frames)
    hidden += add_layer(graph, inner["feed_forward1"], hidden) * share
    normalized: Value = add_layer(graph, inner["norm"], hidden)
    return normalized * frames.mask


@writes(FeedForward)
def add_feed_forward(graph: Graph, layer: FeedForward, inputs: Value) -> Value:
    """Map (B, T, C) to the same shape."""
    inner = inner_layers(layer)
    wide = add_layer(graph, inner["wide"], add_layer(graph, inner["norm"], inputs))
    narrow: Value = add_layer(graph, inner["narrow"], swish(graph, wide))
    return narrow


@writes(SelfAttention)
def add_attention(graph: Graph, layer: SelfAttention, inputs: Value, frames: Frames) -> Value:
    """Map (B, T, C) to the same shape."""
    inner, chunks, heads = inner_layers(layer), frames.chunks, layer.heads
    all_channels = int(inner["mix"].kernel.shape[0])
    channels = all_channels // heads
    qkv = add_layer(graph, inner["qkv"], add_layer(graph, inner["norm"], inputs))
    rotated = _rotated(graph, graph.slice(qkv, 2, 0, 2 * all_channels), 2 * heads, channels, frames)
    queries = graph.slice(rotated, 2, 0, all_channels) * channels**-0.5
    keys = graph.slice(rotated, 2, all_channels, None)
    keys_and_values = graph.op("Concat", keys, graph.slice(qkv, 2, 2 * all_channels, None), axis=2)
    keys_and_values = _with_chunks_before(graph, keys_and_values, 2 * all_channels, chunks)
    if chunks.size:
        queries = in_chunks(graph, queries, all_channels, chunks.size)
    attended = _attended(graph, queries, keys_and_values, layer, all_channels, frames.impossible)
    if chunks.size:
        attended = joined(graph, attended, all_channels, inputs)
    mixed: Value = add_layer(graph, inner["mix"], attended)
    return mixed


def _attended(
    graph: Graph,
    queries: Value,
    keys_and_values: Value,
    layer: SelfAttention,
    all_channels: int,
    impossible: Value,
) -> Value:
    """Return the means (N, Q, H * D) of values, weighted by the products of queries and keys."""
    by_head = [0, 0, layer.heads, all_channels // layer.heads]
    keys = graph.slice(keys_and_values, 2, 0, all_channels)  # (N, K, H * D)
    values = graph.slice(keys_and_values, 2, all_channels, None)
    queries, keys, values = (graph.op("Reshape", part, by_head) for part in (queries, keys, values))
    queries, values = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (queries, values))
    scores = graph.op("MatMul", queries, graph.op("Transpose", keys, perm=[0, 2, 3, 1]))  # (N, H, Q, K)
    weights = graph.op("Softmax", scores + impossible, axis=-1)
    attended = graph.op("Transpose", graph.op("MatMul", weights, values), perm=[0, 2, 1, 3])
    return graph.op("Reshape", attended, [0, 0, all_channels])


def _rotated(graph: Graph, values: Value, heads: int, channels: int, frames: Frames) -> Value:
    """Rotate pairs of the channels of heads, (B, T, H * D), by the angles of their frames."""
    half = channels // 2
    by_head = graph.op("Reshape", values, [0, 0, heads, channels])
    swapped = [graph.slice(by_head, 3, half, None), graph.slice(by_head, 3, 0, half)]
    rotated = by_head * frames.cosine + graph.op("Concat", *swapped, axis=3) * frames.sine
    return graph.op("Reshape", rotated, [0, 0, heads * channels])


@writes(ConvolutionModule)
def add_convolution(graph: Graph, layer: ConvolutionModule, inputs: Value, frames: Frames) -> Value:
    """Map (B, T, C) to the same shape."""
    inner, size, reach = inner_layers(layer), frames.chunks.size, KERNEL // 2
    both = add_layer(graph, inner["gated"], add_layer(graph, inner["norm"], inputs))
    channels = int(inner["mix"].kernel.shape[0])
    gates = graph.op("Sigmoid", graph.slice(both, 2, channels, None))
    gated = graph.slice(both, 2, 0, channels) * gates * frames.mask
    if size:  # nothing is after each chunk
        gated = in_chunks(graph, gated, channels, size, reach)
    filtered = by_frame(graph, add_layer(graph, inner["depthwise"], by_row(graph, gated)))
    if size:
        filtered = joined(graph, graph.slice(filtered, 1, reach, None), channels, inputs)
    hidden = swish(graph, add_layer(graph, inner["filtered_norm"], filtered))
    mixed: Value = add_layer(graph, inner["mix"], hidden)
    return mixed


def swish(graph: Graph, values: Value) -> Value:
    """Multiply values by their sigmoids."""
    return values * graph.op("Sigmoid", values)
