"""Store the weights of a LiteRT file as 8-bit integers.

The network's matrices get a scale for each output, and LiteRT multiplies them by activations that it
quantizes frame by frame ("dynamic range"). The features stay float: a quiet band of a spectrum is 90 dB below
a loud one, of which 8 bits leave nothing. The converter's own option quantizes them, too, which took the
errors of the demo from 16 to 63 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from asr.export.runtimes.litert.flatbuffer import (
    add_buffer,
    add_tensor,
    compute_instead,
    constant,
    drop_unused_buffers,
    operators,
)

LARGEST = 127
MIN_WEIGHTS = 1024  # fewer are not worth it
# the axis of the outputs in the weights, which are the second input
OUTPUT_AXES = {"FULLY_CONNECTED": 0, "CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}
HALF_TOLERANCE = 2**-11  # of float16, relative to the largest value
VERSIONS = {"FULLY_CONNECTED": 9, "CONV_2D": 5, "DEPTHWISE_CONV_2D": 6}  # the first that take such weights
FEATURES = "features/"  # begins the names of tensors of the feature layer


def quantize(model: Any) -> None:
    """Quantize the network's weights, and store the large constants of the features with 16 bits."""
    weights: dict[int, tuple[int, Any]] = {}  # by the buffer of the float32 weights
    halves: dict[int, int] = {}
    for subgraph in model.subgraphs:
        for name, operator in operators(model, subgraph):
            if name in OUTPUT_AXES:
                tensor = subgraph.tensors[operator.inputs[1]]
                if _is_worth_it(model, tensor) and not tensor.name.startswith(FEATURES.encode()):
                    _quantize_tensor(model, tensor, OUTPUT_AXES[name], weights)
                    model.operatorCodes[operator.opcodeIndex].version = VERSIONS[name]
        for index, tensor in enumerate(list(subgraph.tensors)):
            if _fits_half(model, tensor) and tensor.name.startswith(FEATURES.encode()):
                _store_half(model, subgraph, index, halves)
    drop_unused_buffers(model)


def _is_worth_it(model: Any, tensor: Any) -> bool:
    if tensor.type != schema.TensorType.FLOAT32:
        return False
    values = constant(model, tensor)
    return values is not None and values.size >= MIN_WEIGHTS


def _fits_half(model: Any, tensor: Any) -> bool:
    """Return whether float16 rounds the values of a large constant by little, relative to the largest.

    It has no value between 0 and 6e-8.
    """
    if not _is_worth_it(model, tensor):
        return False
    values = constant(model, tensor)
    assert values is not None
    with np.errstate(over="ignore"):
        differences = np.abs(values.astype(np.float16).astype(np.float32) - values)
    return bool(differences.max() <= HALF_TOLERANCE * np.abs(values).max())


def _quantize_tensor(model: Any, tensor: Any, axis: int, done: dict[int, tuple[int, Any]]) -> None:
    """Replace float32 weights by integers; weights that several subgraphs share stay shared."""
    if tensor.buffer not in done:
        values = constant(model, tensor)
        assert values is not None
        others = tuple(other for other in range(values.ndim) if other != axis)
        scales = np.maximum(np.abs(values).max(others, keepdims=True) / LARGEST, np.finfo(np.float32).tiny)
        integers = np.round(values / scales).astype(np.int8)
        parameters = schema.QuantizationParametersT()
        parameters.scale = scales.reshape(-1).astype(np.float32)
        parameters.zeroPoint, parameters.quantizedDimension = np.zeros(scales.size, np.int64), axis
        done[tensor.buffer] = add_buffer(model, integers), parameters
    tensor.buffer, tensor.quantization = done[tensor.buffer]
    tensor.type = schema.TensorType.INT8


def _store_half(model: Any, subgraph: Any, index: int, done: dict[int, int]) -> None:
    """Store a constant as float16, from which it is computed."""
    tensor = subgraph.tensors[index]
    values = constant(model, tensor)
    assert values is not None
    if tensor.buffer not in done:
        done[tensor.buffer] = add_buffer(model, values.astype(np.float16))
    name = f"{tensor.name.decode()}/half"
    half = add_tensor(subgraph, name, values.shape, schema.TensorType.FLOAT16, done[tensor.buffer])
    compute_instead(model, subgraph, index, schema.BuiltinOperator.DEQUANTIZE, [half])
