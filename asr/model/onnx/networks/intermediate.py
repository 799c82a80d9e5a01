"""Write the outputs in the middle of a network as ONNX nodes, where what follows gets their probabilities."""

from __future__ import annotations

import numpy as np

from asr.model.networks.intermediate import Feedback, IntermediateOutput
from asr.model.onnx.graph import Graph, Value
from asr.model.onnx.networks.layers import add_layer, by_frame, by_row, inner_layers, writes


@writes(IntermediateOutput)
def add_intermediate_output(
    graph: Graph, output: IntermediateOutput, hidden: Value, mask: Value, *, rows: bool = False
) -> Value:
    """Add to hidden frames what follows from their logits, if the network is self-conditioned.

    Args:
        graph: to add the nodes to.
        output: the layer.
        hidden: (B, T, C), or (B, C, 1, T) with `rows`.
        mask: of as many axes.
        rows: whether sequences are images of one row.
    """
    inner = inner_layers(output)
    if "feedback" not in inner:
        return hidden
    frames = by_frame(graph, hidden) if rows else hidden
    probabilities = graph.op("Softmax", add_layer(graph, inner["output"], frames), axis=-1)  # (B, T, V)
    added = add_layer(graph, inner["feedback"], probabilities)
    return hidden + (by_row(graph, added) if rows else added) * mask


@writes(Feedback)
def add_feedback(graph: Graph, feedback: Feedback, probabilities: Value) -> Value:
    """Map (B, T, V) to (B, T, C) by the sums of rows, added up in advance."""
    rows = np.asarray(feedback.rows, np.float64)
    kernel = rows[feedback.parts].sum(axis=1).astype(np.float32)  # (V, C)
    return graph.op("MatMul", probabilities, graph.constant("kernel", kernel))
