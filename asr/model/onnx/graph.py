"""Build an ONNX graph node by node, with names that follow the layers of the model.

graph = Graph()
audio = graph.input("audio", np.float32, ("batch", "samples"))
with graph.scope("features"):
    scaled = audio * 32768.0                   # the node features/Mul
graph.output("scaled", scaled, np.float32, ("batch", "samples"))
model = graph.model("a name")
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

# The lowest that has what the graphs need: ONNX Runtime has run it since version 1.14 (February 2023), on
# phones, in browsers and within sherpa-onnx. A runtime refuses files of a later IR version than it knows.
OPSET, IR_VERSION = 18, 8
# what Cast makes
FLOAT32, FLOAT64, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64
NAMED_BY_VALUE = 8  # smaller constants are named by their values, [0, 2], in a viewer
TO_THE_END = np.iinfo(np.int64).max

Operand: TypeAlias = "Value | float | Sequence[int] | npt.NDArray[Any]"
"""A value, or a constant: integers become int64, other Python numbers float32."""
Dims: TypeAlias = Sequence[int | str]
"""The size of each axis, or a name for an open one."""


@dataclass(frozen=True)
class Value:
    """The name of a node's output, an input or a constant; its operators add nodes to the graph.

    Attributes:
        graph: the graph that it belongs to.
        name: its name in the graph.
    """

    graph: Graph
    name: str

    def __add__(self, other: Operand) -> Value:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.op("Div", self, other)

    def __floordiv__(self, other: Operand) -> Value:
        # Div of integers rounds towards zero; Mod has the sign of the divisor
        return (self - self.graph.op("Mod", self, other)) / other


class Graph:
    """The nodes and constants of a graph that is being written; equal constants are stored once."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}
        self._scopes: list[str] = []
        self._taken: Counter[str] = Counter()

    @property
    def path(self) -> str:
        """Return the names of the scopes that nodes are added to, joined by slashes."""
        return "/".join(self._scopes)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Begin the names of all nodes that are added within by a further name, that of a layer."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def input(self, name: str, dtype: npt.DTypeLike, dims: Dims) -> Value:
        """Add an input, and return it."""
        self._inputs.append(_value_info(name, dtype, dims))
        self._taken[name] += 1
        return Value(self, name)

    def output(self, name: str, value: Value, dtype: npt.DTypeLike, dims: Dims) -> None:
        """Make a value an output."""
        self._outputs.append(_value_info(name, dtype, dims))
        self._nodes.append(helper.make_node("Identity", [value.name], [name], name=f"{name}/Identity"))

    def op(self, kind: str, *inputs: Operand, **attributes: Any) -> Value:
        """Add a node with one output, and return that.

        Args:
            kind: name of the operator.
            inputs: values, or small constants.
            attributes: of the operator.
        """
        name = self._unique(kind)
        inputs_by_name = [self._operand(operand).name for operand in inputs]
        self._nodes.append(helper.make_node(kind, inputs_by_name, [name], name=name, **attributes))
        return Value(self, name)

    def constant(self, name: str, array: npt.NDArray[Any]) -> Value:
        """Return a constant, such as a layer's weights; it is added unless an equal one exists.

        Args:
            name: its name within the present scope.
            array: float32, float64 or int64.
        """
        array = np.require(array, requirements="C")
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, self._unique(name))
        return Value(self, self._constants[key].name)

    def slice(self, value: Value, axis: int, begin: int | None, end: int | None, step: int = 1) -> Value:
        """Return `value[begin:end:step]` along an axis."""
        begin, end = begin or 0, TO_THE_END if end is None else end
        steps = ([step],) if step != 1 else ()
        return self.op("Slice", value, [begin], [end], [axis], *steps)

    def size(self, value: Value, axis: int) -> Value:
        """Return the size of an axis, (1,) int64."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def model(self, name: str, metadata: dict[str, str] | None = None) -> onnx.ModelProto:
        """Return the finished model, which has passed ONNX's checker.

        Args:
            name: of the graph.
            metadata: what a viewer shows beside the graph.
        """
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="Polyphone"
        )
        helper.set_model_props(model, metadata or {})
        onnx.checker.check_model(model, full_check=True)
        return model

    def _operand(self, operand: Operand) -> Value:
        if isinstance(operand, Value):
            return operand
        array = np.asarray(operand)
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        assert array.size <= NAMED_BY_VALUE, "a large constant needs a name: see `constant`"
        with self._no_scope():
            return self.constant(str(array.tolist()), array)

    @contextlib.contextmanager
    def _no_scope(self) -> Iterator[None]:
        scopes, self._scopes = self._scopes, []
        try:
            yield
        finally:
            self._scopes = scopes

    def _unique(self, name: str) -> str:
        path = f"{self.path}/{name}" if self._scopes else name
        self._taken[path] += 1
        return path if self._taken[path] == 1 else f"{path}_{self._taken[path]}"


def _value_info(name: str, dtype: npt.DTypeLike, dims: Dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(dims))
