"""Write layers as ONNX nodes, one function a kind of layer.

Sequences have the shape (B, C, 1, T) between convolutions, as images of one row, for which ONNX Runtime has
faster kernels than for sequences, and (B, T, C) before dense layers.
Batch normalisation after a convolution or a dense layer is folded into its weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np
import numpy.typing as npt

from asr.base.errors import UserError
from asr.model.keras_internals import layers_directly_in
from asr.model.networks.depthwise import DepthwiseConv1D
from asr.model.networks.layers import FactoredLogits, MaskedBatchNorm
from asr.model.onnx.graph import FLOAT32, Graph, Value

Writer = TypeVar("Writer", bound=Callable[..., Any])
Array = npt.NDArray[Any]

WRITERS: dict[type, Callable[..., Any]] = {}
"""By a layer's class, the function (graph, layer, inputs) that adds its nodes and returns its outputs."""


def writes(*kinds: type) -> Callable[[Writer], Writer]:
    """Return a decorator that makes a function the one that writes layers of these classes."""

    def register(function: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(kinds, function))
        return function

    return register


def add_layer(graph: Graph, layer: keras.layers.Layer, *inputs: Any, **options: Any) -> Any:
    """Add the nodes of a layer, named after it, and return its outputs.

    Args:
        graph: to add them to.
        layer: a built layer.
        inputs: values.
        options: of the function that writes this kind of layer.

    Raises:
        UserError: no function writes this kind of layer.
    """
    with graph.scope(layer.name):
        writer = WRITERS.get(type(layer))
        if writer is None:
            raise UserError(
                f"{graph.path}: no ONNX exporter for a layer of kind {type(layer).__name__}; write one with "
                "`writes`, see asr/model/onnx/networks/layers.py"
            )
        return writer(graph, layer, *inputs, **options)


def inner_layers(layer: keras.layers.Layer) -> dict[str, keras.layers.Layer]:
    """Return the layers directly within a layer, by their names."""
    return {inner.name: inner for inner in layers_directly_in(layer)}


def padding_mask(graph: Graph, lengths: Value, values: Value, *, axis: int, rank: int) -> Value:
    """Return a float mask that is 1 on real frames or samples and 0 on padding.

    Args:
        graph: to add the nodes to.
        lengths: (B,) int64.
        values: its axis of time gives the mask's size.
        axis: the axis of time.
        rank: number of axes of the mask, all of size 1 but the first and that of time.
    """
    size = graph.op("Squeeze", graph.size(values, axis), [0])
    indices = graph.op("Range", 0, size, 1)  # (size,)
    if behind := rank - 1 - axis:
        indices = graph.op("Unsqueeze", indices, list(range(1, 1 + behind)))
    lengths = graph.op("Unsqueeze", lengths, list(range(1, rank)))
    return graph.op("Cast", graph.op("Less", indices, lengths), to=FLOAT32)


def by_row(graph: Graph, frames: Value) -> Value:
    """Turn (B, T, C) into (B, C, 1, T)."""
    return graph.op("Unsqueeze", graph.op("Transpose", frames, perm=[0, 2, 1]), [2])


def by_frame(graph: Graph, row: Value) -> Value:
    """Turn (B, C, 1, T) into (B, T, C)."""
    return graph.op("Transpose", graph.op("Squeeze", row, [2]), perm=[0, 2, 1])


class Affine(NamedTuple):
    """What a batch normalisation computes: scale * x + shift, (C,) each."""

    scale: Array
    shift: Array


def affine_of(norm: MaskedBatchNorm) -> Affine:
    """Return what a batch normalisation computes outside training."""
    gamma, beta, mean, variance = (
        np.asarray(weight, np.float64)
        for weight in (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance)
    )
    scale = gamma / np.sqrt(variance + norm.epsilon)
    return Affine(scale, beta - mean * scale)


class Weights(NamedTuple):
    """The weights of a layer; the shape of the kernel is Keras's, or that of ONNX's Conv."""

    kernel: Array
    bias: Array | None  # (C,)

    def transposed(self, *axes: int) -> Weights:
        """Return the weights with other axes of the kernel."""
        return self._replace(kernel=self.kernel.transpose(axes))


def folded(layer: keras.layers.Layer, norm: MaskedBatchNorm | None) -> Weights:
    """Return kernel (..., C) and bias of a layer, with the normalisation after it folded in."""
    kernel = np.asarray(layer.kernel, np.float64)
    bias = np.asarray(layer.bias, np.float64) if layer.use_bias else None
    if norm is not None:
        scale, shift = affine_of(norm)
        kernel, bias = kernel * scale, shift if bias is None else bias * scale + shift
    return Weights(kernel.astype(np.float32), None if bias is None else bias.astype(np.float32))


@writes(MaskedBatchNorm)
def add_batch_norm(graph: Graph, layer: MaskedBatchNorm, values: Value) -> Value:
    """Add a normalisation of (B, C, 1, T) that follows no layer to fold it into; padding gets the shift."""
    scale, shift = (part.astype(np.float32)[:, None, None] for part in affine_of(layer))
    return values * graph.constant("scale", scale) + graph.constant("shift", shift)


@writes(keras.layers.Conv1D)
def add_conv1d(
    graph: Graph,
    layer: keras.layers.Conv1D,
    values: Value,
    *,
    pads: tuple[int, int] | None = None,
    norm: MaskedBatchNorm | None = None,
) -> Value:
    """Map (B, C, 1, T) to (B, C', 1, T').

    Args:
        graph: to add the nodes to.
        layer: the convolution.
        values: its inputs.
        pads: frames of zeros before and after; None for those of the layer.
        norm: a normalisation to fold in.
    """
    weights = folded(layer, norm).transposed(2, 1, 0)  # from (K, C, C')
    own_pads = _pads(layer, layer.kernel_size[0])
    pads = own_pads if pads is None else pads
    return _activated(graph, layer, _conv_of_row(graph, values, weights, layer.strides, pads))


@writes(keras.layers.Conv2D)
def add_conv2d(
    graph: Graph,
    layer: keras.layers.Conv2D,
    values: Value,
    *,
    pads: tuple[int, int] | None = None,
    norm: MaskedBatchNorm | None = None,
) -> Value:
    """Map (B, C, T, F) to (B, C', T', F'); `pads` are those of both axes, `norm` is folded in."""
    weights = folded(layer, norm).transposed(3, 2, 0, 1)  # from (K, K', C, C')
    sides = _pads_of_image(layer, pads)
    return _activated(graph, layer, _conv(graph, values, weights, strides=layer.strides, pads=sides))


@writes(keras.layers.DepthwiseConv2D)
def add_depthwise_conv2d(
    graph: Graph, layer: keras.layers.DepthwiseConv2D, values: Value, *, pads: tuple[int, int] | None = None
) -> Value:
    """Filter each channel of (B, C, T, F); `pads` are those of both axes."""
    weights = folded(layer, None).transposed(2, 3, 0, 1)  # from (K, K', C, 1)
    sides, group = _pads_of_image(layer, pads), len(weights.kernel)
    convolved = _conv(graph, values, weights, strides=layer.strides, pads=sides, group=group)
    return _activated(graph, layer, convolved)


@writes(keras.layers.DepthwiseConv1D, DepthwiseConv1D)
def add_depthwise_conv1d(graph: Graph, layer: keras.layers.DepthwiseConv1D, values: Value) -> Value:
    """Filter each channel of (B, C, 1, T)."""
    weights = folded(layer, None).transposed(1, 2, 0)  # from (K, C, 1)
    pads, group = _pads(layer, layer.kernel_size[0]), len(weights.kernel)
    return _activated(graph, layer, _conv_of_row(graph, values, weights, layer.strides, pads, group))


@writes(keras.layers.Dense)
def add_dense(graph: Graph, layer: keras.layers.Dense, values: Value) -> Value:
    """Map (..., C) to (..., C')."""
    kernel, bias = folded(layer, None)
    mixed = graph.op("MatMul", values, graph.constant("kernel", kernel))
    if bias is not None:
        mixed += graph.constant("bias", bias)
    return _activated(graph, layer, mixed)


@writes(keras.layers.LayerNormalization)
def add_layer_norm(graph: Graph, layer: keras.layers.LayerNormalization, values: Value) -> Value:
    """Normalise each frame of (..., C) by itself."""
    weights = [graph.constant(name, np.asarray(getattr(layer, name))) for name in ("gamma", "beta")]
    return graph.op("LayerNormalization", values, *weights, axis=-1, epsilon=layer.epsilon)


def add_pointwise(
    graph: Graph, layer: keras.layers.Dense, values: Value, norm: MaskedBatchNorm | None = None
) -> Value:
    """Add a dense layer over the channels of (B, C, T, F), as a convolution of one place, with its norm."""
    with graph.scope(layer.name):
        kernel, bias = folded(layer, norm)  # (C, C')
        weights = Weights(kernel.T[..., None], bias)
        return _activated(graph, layer, _conv_of_row(graph, values, weights, (1,), (0, 0)))


@writes(keras.layers.MaxPooling2D)
def add_max_pooling2d(graph: Graph, layer: keras.layers.MaxPooling2D, values: Value) -> Value:
    """Map (B, C, T, F) to the maxima of its windows; rows and columns that fill none are dropped."""
    if layer.padding != "valid":
        raise UserError(f"{graph.path}: padding: expected valid, received {layer.padding}")
    return graph.op("MaxPool", values, kernel_shape=list(layer.pool_size), strides=list(layer.strides))


@writes(FactoredLogits)
def add_factored_logits(graph: Graph, layer: FactoredLogits, values: Value) -> Value:
    """Map (..., C) to (..., V) by the sums of rows, added up in advance."""
    rows, bias = np.asarray(layer.rows, np.float64), np.asarray(layer.bias, np.float64)
    kernel = rows[layer.parts].sum(axis=1).T.astype(np.float32)  # (C, V)
    mixed = graph.op("MatMul", values, graph.constant("kernel", kernel))
    return mixed + graph.constant("bias", bias[layer.parts].sum(axis=1).astype(np.float32))


def _conv_of_row(
    graph: Graph,
    values: Value,
    weights: Weights,
    strides: tuple[int, ...],
    pads: tuple[int, int],
    group: int = 1,
) -> Value:
    """Add a convolution of (B, C, 1, T) with a kernel (C', C / group, K)."""
    of_image = weights._replace(kernel=weights.kernel[:, :, None])
    sides = (0, pads[0], 0, pads[1])
    return _conv(graph, values, of_image, strides=(1, *strides), pads=sides, group=group)


def _conv(
    graph: Graph,
    values: Value,
    weights: Weights,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    group: int = 1,
) -> Value:
    """Add a convolution with a kernel (C', C / group, K, ...)."""
    constants = [graph.constant("kernel", weights.kernel)]
    if weights.bias is not None:
        constants.append(graph.constant("bias", weights.bias))
    return graph.op(
        "Conv",
        values,
        *constants,
        kernel_shape=list(weights.kernel.shape[2:]),
        strides=list(strides),
        pads=list(pads),
        group=group,
    )


def _pads_of_image(layer: keras.layers.Layer, pads: tuple[int, int] | None) -> tuple[int, ...]:
    """Return the zeros above, left, below and right of an image; `pads` replace those of the layer."""
    rows, columns = (_pads(layer, size) if pads is None else pads for size in layer.kernel_size)
    return rows[0], columns[0], rows[1], columns[1]


def _pads(layer: keras.layers.Layer, kernel_size: int) -> tuple[int, int]:
    """Return the zeros before and after one axis of a convolution; refuse what no function here writes."""
    expected = {"data_format": "channels_last", "groups": 1, "depth_multiplier": 1}
    received = {name: getattr(layer, name, value) for name, value in expected.items()}
    received["dilation_rate"] = max(layer.dilation_rate)
    for name, value in (expected | {"dilation_rate": 1}).items():
        if received[name] != value:
            raise UserError(
                f"{layer.name}: {name}: expected {value!r} to export it, received {received[name]!r}"
            )
    if layer.padding == "valid":
        return 0, 0
    if layer.padding != "same" or set(layer.strides) != {1}:
        raise UserError(
            f"{layer.name}: no ONNX exporter for padding={layer.padding!r} with strides {layer.strides}; "
            "expected padding='valid', or 'same' without strides"
        )
    return (kernel_size - 1) // 2, kernel_size // 2


ACTIVATIONS = {"linear": None, "relu": "Relu", "sigmoid": "Sigmoid"}


def _activated(graph: Graph, layer: keras.layers.Layer, values: Value) -> Value:
    """Add the activation of a layer."""
    name = layer.activation.__name__
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(f"{graph.path}: no ONNX exporter for the activation {name}; expected one of {known}")
    kind = ACTIVATIONS[name]
    return values if kind is None else graph.op(kind, values)
