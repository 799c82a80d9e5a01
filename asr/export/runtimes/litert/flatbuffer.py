"""Read, shrink and write LiteRT files, which are FlatBuffers.

The converter writes what it can compute beforehand as constants, such as the number of each of the 256,000
samples of a clip of 16 seconds, and names of a hundred characters for every tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

FILE_IDENTIFIER = b"TFL3"
MIN_COMPUTED = 4096  # numbers; shorter ranges stay constants
MODEL_NAME = "acoustic_model"  # begins the converter's names
NO_DATA = 0  # the buffer of tensors that are computed
DTYPES = {schema.TensorType.FLOAT32: np.float32, schema.TensorType.INT32: np.int32}

_OPERATORS = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}


def read_flatbuffer(content: bytes) -> Any:
    """Return the contents of a LiteRT file as objects that can be changed (`schema.ModelT`)."""
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))


def write_flatbuffer(model: Any) -> bytes:
    """Return the bytes of a LiteRT file."""
    builder = _FlatbufferBuilder(1 << 20)
    builder.Finish(model.Pack(builder), FILE_IDENTIFIER)
    return bytes(builder.Output())


class _FlatbufferBuilder(flatbuffers.Builder):
    """A builder that writes equal names and vectors once, and aligns constants as the schema demands."""

    ALIGNMENT = 16  # bytes; of vectors of bytes, which hold the constants

    def __init__(self, num_bytes: int) -> None:
        super().__init__(num_bytes)
        self._written: dict[tuple[str, bytes], int] = {}

    def CreateString(self, s: Any, *args: Any, **kwargs: Any) -> int:  # noqa: N802 (FlatBuffers' name)
        key = ("", s if isinstance(s, bytes) else s.encode())
        if key not in self._written:
            self._written[key] = super().CreateString(s, *args, **kwargs)
        return self._written[key]

    def CreateNumpyVector(self, x: Any) -> int:  # noqa: N802
        key = (x.dtype.str, x.tobytes())
        if key not in self._written:
            self._written[key] = super().CreateNumpyVector(x)
        return self._written[key]

    def StartVector(self, elemSize: int, numElems: int, alignment: int) -> int:  # noqa: N802, N803
        position: int = super().StartVector(
            elemSize, numElems, self.ALIGNMENT if elemSize == 1 else alignment
        )
        return position


def operators(model: Any, subgraph: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of each operator of a subgraph, such as "CONV_2D" or "CUSTOM", and the operator."""
    for operator in subgraph.operators:
        yield _OPERATORS[model.operatorCodes[operator.opcodeIndex].builtinCode], operator


def constant(model: Any, tensor: Any) -> npt.NDArray[Any] | None:
    """Return the values of a constant float32 or int32 tensor; None for other tensors."""
    data = model.buffers[tensor.buffer].data
    if tensor.type not in DTYPES or data is None or not len(data):
        return None
    return np.frombuffer(np.asarray(data, np.uint8).tobytes(), DTYPES[tensor.type]).reshape(tensor.shape)


def add_buffer(model: Any, values: npt.NDArray[Any]) -> int:
    """Add the data of constants to a file, and return the index of the buffer."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    model.buffers.append(buffer)
    return len(model.buffers) - 1


def add_tensor(subgraph: Any, name: str, shape: tuple[int, ...], kind: int, buffer: int) -> int:
    """Add a tensor to a subgraph, and return its index."""
    tensor = schema.TensorT()
    tensor.name, tensor.shape = name.encode(), np.array(shape, np.int32)
    tensor.type, tensor.buffer, tensor.hasRank = kind, buffer, True
    subgraph.tensors.append(tensor)
    return len(subgraph.tensors) - 1


def compute_instead(
    model: Any, subgraph: Any, index: int, code: int, inputs: list[int], options: Any = None
) -> None:
    """Let a tensor that is constant be computed from other constants, before anything else.

    Args:
        model: the file.
        subgraph: contains the tensor.
        index: of the tensor.
        code: of the operator, a `schema.BuiltinOperator`.
        inputs: indices of the operator's inputs.
        options: of the operator.
    """
    operator = schema.OperatorT()
    operator.opcodeIndex = _operator_index(model, code)
    operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array([index], np.int32)
    if options is not None:
        operator.builtinOptions = options
        kind = type(options).__name__.removesuffix("T")
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
    subgraph.operators.insert(0, operator)
    subgraph.tensors[index].buffer = NO_DATA


def _operator_index(model: Any, code: int) -> int:
    """Return the index of a built-in operator in the list of a file, to which it is added if need be."""
    codes = [one.builtinCode for one in model.operatorCodes]
    if code not in codes:
        added = schema.OperatorCodeT()
        added.builtinCode, added.deprecatedBuiltinCode, added.version = code, min(code, 127), 1
        model.operatorCodes.append(added)
        codes.append(code)
    return codes.index(code)


def shrink(model: Any) -> None:
    """Make a file smaller without changing what it computes."""
    for subgraph in model.subgraphs:
        _compute_ranges(model, subgraph)
        for tensor in subgraph.tensors:
            tensor.name = short_name(tensor.name.decode()).encode()
            if tensor.quantization is not None and tensor.quantization.scale is None:
                tensor.quantization = None  # an empty record
    drop_unused_buffers(model)


def short_name(name: str) -> str:
    """Return what says which layer a name is of: the first of several names, without numbers of calls."""
    first = re.sub(r"_\d+(?=/|$)", "", re.split("[;:]", name)[0])
    return first.removeprefix(f"{MODEL_NAME}/")


def _compute_ranges(model: Any, subgraph: Any) -> None:
    """Compute the constants 0, 1, 2, ... n - 1 with which lengths are compared."""
    compared = {
        int(i) for name, operator in operators(model, subgraph) if name == "LESS" for i in operator.inputs
    }
    for index in compared:
        tensor = subgraph.tensors[index]
        values = constant(model, tensor)
        if (
            values is None
            or values.size < MIN_COMPUTED
            or (values.reshape(-1) != np.arange(values.size)).any()
        ):
            continue
        name = tensor.name.decode()
        limits = [
            add_tensor(
                subgraph, f"{name}/{part}", (), tensor.type, add_buffer(model, np.array(limit, values.dtype))
            )
            for part, limit in (("start", 0), ("limit", values.size), ("delta", 1))
        ]
        tensor.shape = np.array([values.size], np.int32)  # the comparison adds the axes before it
        compute_instead(model, subgraph, index, schema.BuiltinOperator.RANGE, limits, schema.RangeOptionsT())


def drop_unused_buffers(model: Any) -> None:
    """Remove the buffers that no tensor uses, and those without data."""
    holders = [
        *(tensor for subgraph in model.subgraphs for tensor in subgraph.tensors),
        *(model.metadata or ()),
    ]
    for holder in holders:
        data = model.buffers[holder.buffer].data
        if data is None or not len(data):
            holder.buffer = NO_DATA
    used = sorted({NO_DATA, *(holder.buffer for holder in holders)})
    indices = {buffer: index for index, buffer in enumerate(used)}
    for holder in holders:
        holder.buffer = indices[holder.buffer]
    model.buffers = [model.buffers[buffer] for buffer in used]
