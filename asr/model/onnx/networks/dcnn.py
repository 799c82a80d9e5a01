"""Write ASRT's convolutional networks as ONNX nodes, as `asr/model/networks/dcnn.py` computes them."""

from __future__ import annotations

from asr.model.networks.dcnn import DCNN_FAMILY, NUM_POOLED_PAIRS, Dcnn
from asr.model.onnx.graph import Graph, Value
from asr.model.onnx.networks.layers import add_layer, inner_layers, padding_mask, writes


@writes(Dcnn)
def add_dcnn(graph: Graph, network: Dcnn, features: Value, num_frames: Value) -> tuple[Value, Value]:
    """Map features (B, T, F) to logits (B, T', V), and the number of frames."""
    inner = inner_layers(network)
    missing = graph.op("Max", graph.op("Sub", 2**NUM_POOLED_PAIRS, graph.size(features, 1)), 0)
    pads = graph.op("Concat", [0, 0, 0, 0], missing, [0], axis=0)
    hidden = graph.op("Unsqueeze", graph.op("Pad", features, pads), [1])  # (B, 1, T, F)
    mask = padding_mask(graph, num_frames, hidden, axis=2, rank=4)
    for index in range(2 * len(DCNN_FAMILY[network.family].pair_channels)):
        convolved = add_layer(graph, inner[f"conv{index}"], hidden, norm=inner.get(f"norm{index}"))
        hidden = graph.op("Relu", convolved) * mask
        if index % 2 == 1 and index // 2 < NUM_POOLED_PAIRS:
            hidden = add_layer(graph, inner["pool"], hidden)
            num_frames = num_frames // 2
            mask = padding_mask(graph, num_frames, hidden, axis=2, rank=4)
            hidden *= mask  # an odd last frame is dropped, as for the clip alone
    hidden = graph.op("Transpose", hidden, perm=[0, 2, 3, 1])  # (B, T', F', C)
    width = int(inner["dense"].kernel.shape[0])
    hidden = graph.op("Reshape", hidden, [0, 0, width])
    hidden = add_layer(graph, inner["dense"], hidden)
    return add_layer(graph, inner["output"], hidden), num_frames
