"""Write the separable networks as ONNX nodes, as `asr/model/networks/separable.py` computes them.

Frames of padding are set to 0 once after each convolution over several frames; where the model does it more
often, that changes no real frame.
"""

from __future__ import annotations

from asr.model.networks.layers import MaskedBatchNorm, half_rounded_up
from asr.model.networks.separable import DOWN_KERNEL, Block, Gate, Separable, SeparableConvolution, Stage
from asr.model.networks.stem import BandConvolutions, Stem
from asr.model.onnx.graph import FLOAT32, Graph, Value
from asr.model.onnx.networks.layers import (
    add_layer,
    add_pointwise,
    by_frame,
    by_row,
    inner_layers,
    padding_mask,
    writes,
)


@writes(Separable)
def add_separable(
    graph: Graph, network: Separable, features: Value, num_frames: Value
) -> tuple[Value, Value]:
    """Map features (B, T, F) to logits (B, T', V), and the number of frames."""
    inner = inner_layers(network)
    hidden = by_row(graph, features)  # (B, F, 1, T)
    for name in sorted(name for name in inner if name.startswith("stage")):
        hidden, num_frames = add_layer(graph, inner[name], hidden, num_frames)
    hidden = graph.op("Relu", add_layer(graph, inner["head"], hidden))
    return add_layer(graph, inner["output"], by_frame(graph, hidden)), num_frames


@writes(Stage)
def add_stage(graph: Graph, stage: Stage, hidden: Value, num_frames: Value) -> tuple[Value, Value]:
    """Map (B, C, 1, T) to (B, C', 1, T'), and the number of frames."""
    inner = inner_layers(stage)
    if "stem" in inner:
        hidden, num_frames = add_layer(graph, inner["stem"], hidden, num_frames)
    else:
        num_frames = half_rounded_up(num_frames)
        side = DOWN_KERNEL // 2  # after an even number of frames, one is beyond what the last window reaches
        hidden = add_layer(graph, inner["down"], hidden, pads=(side, side), norm=inner["norm"])
    mask = padding_mask(graph, num_frames, hidden, axis=3, rank=4)
    hidden = graph.op("Relu", hidden) * mask
    for part in stage.parts()[1:]:
        (layer,) = part.layers
        if isinstance(layer, Block):
            hidden = add_layer(graph, layer, hidden, mask, num_frames)
        else:
            hidden = add_layer(graph, layer, hidden, mask, rows=True)
    return hidden, num_frames


@writes(Stem)
def add_stem(graph: Graph, stem: Stem, features: Value, num_frames: Value) -> tuple[Value, Value]:
    """Map features (B, F, 1, T) to (B, C, 1, T'), before the last ReLU, and the number of frames."""
    norm, num_pitch = inner_layers(stem)["norm"], stem.num_pitch
    if not num_pitch:
        return add_band_convolutions(graph, stem, features, num_frames, norm)
    bands, pitch = graph.slice(features, 1, 0, -num_pitch), graph.slice(features, 1, -num_pitch, None)
    mixed, num_outputs = add_band_convolutions(graph, stem, bands, num_frames)
    mixed_pitch, _ = add_layer(graph, inner_layers(stem)["pitch"], pitch, num_frames)
    return add_layer(graph, norm, mixed + mixed_pitch), num_outputs


@writes(BandConvolutions)
def add_band_convolutions(
    graph: Graph,
    layer: BandConvolutions,
    features: Value,
    num_frames: Value,
    norm: MaskedBatchNorm | None = None,
) -> tuple[Value, Value]:
    """Map features (B, F, 1, T) to (B, C, 1, T'), and the number of frames; `norm` is folded in."""
    inner = inner_layers(layer)
    hidden = graph.op("Transpose", features, perm=[0, 2, 3, 1])  # (B, 1, T, F)
    for index, stride in enumerate(layer.strides):
        num_frames = half_rounded_up(num_frames) if stride == 2 else num_frames
        convolution = inner[f"conv{index}"]
        side = convolution.kernel_size[0] // 2
        hidden = add_layer(graph, convolution, hidden, pads=(side, side), norm=inner[f"norm{index}"])
        hidden = graph.op("Relu", hidden) * padding_mask(graph, num_frames, hidden, axis=2, rank=4)
    hidden = graph.op("Transpose", hidden, perm=[0, 3, 1, 2])  # (B, bands, filters, T')
    size = int(inner["pointwise"].kernel.shape[0])
    hidden = graph.op("Reshape", hidden, [0, size, 1, -1])
    return add_pointwise(graph, inner["pointwise"], hidden, norm), num_frames


@writes(Block)
def add_block(graph: Graph, block: Block, inputs: Value, mask: Value, num_frames: Value) -> Value:
    """Map (B, C, 1, T) to the same shape."""
    inner = inner_layers(block)
    hidden = inputs
    for index, name in enumerate(sorted(name for name in inner if name.startswith("conv"))):
        hidden = add_layer(graph, inner[name], graph.op("Relu", hidden) * mask if index else hidden)
    if "gate" in inner:
        hidden = add_layer(graph, inner["gate"], hidden * mask, num_frames)
    return graph.op("Relu", inputs + hidden) * mask


@writes(SeparableConvolution)
def add_separable_convolution(graph: Graph, layer: SeparableConvolution, values: Value) -> Value:
    """Map (B, C, 1, T) to (B, C', 1, T)."""
    inner = inner_layers(layer)
    filtered = add_layer(graph, inner["depthwise"], values)
    return add_pointwise(graph, inner["pointwise"], filtered, inner["norm"])


@writes(Gate)
def add_gate(graph: Graph, gate: Gate, values: Value, num_frames: Value) -> Value:
    """Scale the channels of (B, C, 1, T), 0 on padding, by their means over the whole clip."""
    inner = inner_layers(gate)
    count = graph.op("Unsqueeze", graph.op("Max", graph.op("Cast", num_frames, to=FLOAT32), 1.0), [1])
    mean = graph.op("ReduceSum", values, [2, 3], keepdims=0) / count  # (B, C)
    scale = add_layer(graph, inner["excite"], add_layer(graph, inner["squeeze"], mean))
    return values * graph.op("Unsqueeze", scale, [2, 3])
