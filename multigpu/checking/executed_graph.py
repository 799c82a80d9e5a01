"""Reads ops and their devices from the graph that TensorFlow executes, after placement and optimisation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from multigpu.devices import short_name
from multigpu.replication.keras_internals import COMPILED_BY_XLA, GRAPH_ENDS, collected_graphs

# the kernels of every device: _MklNativeFusedConv2D, DepthwiseConv2dNativeBackpropInput, BatchMatMulV2, ...
MATRIX_OP = re.compile(r"Conv[23][Dd]|^Conv$|MatMul|Einsum|CudnnRNN(Backprop|V\d|$)")
# Scopes that GradientTape and the gradient of a tf.function open. The kind of an op does not show the pass:
# the gradient of a MatMul is a MatMul, and a transposed convolution runs Conv2DBackpropInput forward.
BACKWARD_SCOPE = re.compile(r"(^|/)(gradient_tape|gradients)(_\d+)?/")
# ops that pass through their first input, and ops that pass through any of their inputs
PASSING = re.compile(
    "Identity|Cast|Reshape|Transpose|Squeeze|ExpandDims|Enter|Exit|Switch|NextIteration|TensorListPopBack"
)
JOINING = re.compile("Merge|TensorListPushBack")


def executed_graph(step: Callable[[], object]) -> ExecutedGraph:
    """Run a step and return the graphs that it executes."""
    with collected_graphs() as graphs:
        step()
    placed = ExecutedGraph()
    for graph in graphs:
        # ops outside of functions are reported as graphs, too: of one op, named after its kind
        if any(node.name != node.op for node in graph.node if node.op not in GRAPH_ENDS):
            placed.add(graph)
    return placed


class MatrixOp(NamedTuple):
    """A convolution or a matrix multiplication of an executed graph."""

    device: str
    backward: bool
    operands: tuple[str, ...]


@dataclass
class ExecutedGraph:
    """Placed graphs, and the bodies of the functions that XLA compiled."""

    devices: dict[str, str] = field(default_factory=dict)  # node -> device
    clusters: set[str] = field(default_factory=set)  # nodes that call a compiled function
    unseen: set[str] = field(default_factory=set)  # nodes that call a `_noinline` function
    ops: dict[str, MatrixOp] = field(default_factory=dict)  # by name
    repeats: dict[str, list[str]] = field(default_factory=dict)  # node or tensor -> tensors it passes through

    def add(self, graph: Any) -> None:
        """Add what a graph holds, the functions that XLA compiled included."""
        functions = {function.signature.name: function for function in graph.library.function}
        for node in graph.node:
            self.devices[node.name] = short_name(node.device)
            called = _called(node)
            compiled = COMPILED_BY_XLA in node.attr and node.attr[COMPILED_BY_XLA].b
            if called and compiled:
                self.clusters.add(node.name)
            if called and not (compiled and all(name in functions for name in called)):
                self.unseen.add(node.name)
            else:
                self._add_node(node, functions, "", self.devices[node.name])

    def _add_node(self, node: Any, functions: dict[str, Any], prefix: str, device: str) -> None:
        name = prefix + node.name
        inputs = [prefix + tensor for tensor in node.input if not tensor.startswith("^")]
        if JOINING.fullmatch(node.op):
            self.repeats[name] = inputs
        elif PASSING.fullmatch(node.op):
            self.repeats[name] = inputs[:1]
        elif MATRIX_OP.search(node.op):
            op = MatrixOp(device, BACKWARD_SCOPE.search(name) is not None, tuple(inputs))
            if self.ops.setdefault(name, op).device != device:
                raise ValueError(f"{name} runs on two devices; measure one tf.function at a time")
        for called in filter(functions.__contains__, _called(node)):
            if node.op.endswith("PartitionedCall"):
                self._link(name, inputs, functions[called])
            for inner in functions[called].node_def:
                self._add_node(inner, functions, f"{name}/", device)

    def _link(self, call: str, inputs: list[str], function: Any) -> None:
        """Link a function's arguments to the inputs of its call, and the call's outputs to its results."""
        for argument, tensor in zip(function.signature.input_arg, inputs, strict=True):
            self.repeats[f"{call}/{argument.name}"] = [tensor]
        for index, output in enumerate(function.signature.output_arg):
            result = [f"{call}/{function.ret[output.name]}"]
            # the first form is used in a graph, the second in the body of a function
            self.repeats[f"{call}:{index}"] = self.repeats[f"{call}:output:{index}"] = result

    def sources(self, op: MatrixOp) -> set[str]:
        """Return the tensors that an op's operands come from, through casts, reshapes, loops and calls."""
        pending, seen, found = list(op.operands), set(), set()
        while pending:
            tensor = pending.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            node, _, output = tensor.partition(":")
            tensor = f"{node}:{output or 0}"
            if (repeated := self.repeats.get(tensor, self.repeats.get(node))) is None:
                found.add(tensor)
            else:
                pending.extend(repeated)
        return found

    def forward_devices(self) -> dict[str, set[str]]:
        """Return for each backward op the devices of the forward ops that share an operand with it."""
        consumers: dict[str, set[str]] = defaultdict(set)
        for op in self.ops.values():
            if not op.backward:
                for source in self.sources(op):
                    consumers[source].add(op.device)
        return {
            name: set().union(*(consumers.get(source, ()) for source in self.sources(op)))
            for name, op in self.ops.items()
            if op.backward
        }


def _called(node: Any) -> list[str]:
    """Return the names of the functions that a node calls."""
    attributes = node.attr.values()
    return [f.name for attribute in attributes for f in (attribute.func, *attribute.list.func) if f.name]
