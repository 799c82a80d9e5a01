"""Write an acoustic model as one ONNX graph: audio in, logits out, with the features inside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from asr.model.acoustic_model import AcousticModel
from asr.model.onnx.features import add_features
from asr.model.onnx.graph import Graph, Value
from asr.model.onnx.networks import (  # noqa: F401  (they register writers)
    conformer,
    dcnn,
    intermediate,
    separable,
)
from asr.model.onnx.networks.layers import add_layer


def onnx_model(
    model: AcousticModel, num_outputs: int, metadata: Mapping[str, str] | None = None
) -> onnx.ModelProto:
    """Return a model as an ONNX graph.

    Its inputs are `audio`, (B, S) float32 samples at 16 kHz from -1 to 1 (16-bit samples divided by 32768),
    and `num_samples`, (B,) int64, each at most S; its outputs `logits`, (B, T, V) float32, and `num_frames`,
    (B,) int64. A row's logits are the same alone and in a padded batch; those from its `num_frames` on are
    padding. A row shorter than a window of 25 ms has no frame.

    Args:
        model: with the weights to export.
        num_outputs: V.
        metadata: what a viewer shows beside the graph.

    Raises:
        UserError: a layer has no exporter; the message names it.
    """
    graph = Graph()
    audio = graph.input("audio", np.float32, ("batch", "samples"))
    num_samples = graph.input("num_samples", np.int64, ("batch",))
    features, num_frames = add_features(graph, model.features, audio, num_samples)
    logits, num_frames = add_network(graph, model, features, num_frames)
    graph.output("logits", logits, np.float32, ("batch", "frames", num_outputs))
    graph.output("num_frames", num_frames, np.int64, ("batch",))
    return graph.model(model.name, dict(metadata or {}))


def add_network(
    graph: Graph, model: AcousticModel, features: Value, num_frames: Value
) -> tuple[Value, Value]:
    """Add a model's network: features (B, T, F), 0 on padding, to logits (B, T', V) and their numbers (B,).

    Raises:
        UserError: a layer has no exporter; the message names it.
    """
    logits, num_logits = add_layer(graph, model.network, features, num_frames)
    return logits, num_logits
