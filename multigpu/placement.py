"""Which device did what in a compiled step: read from the run itself, not from the devices asked for.

    work = measure_work(lambda: train_step(batch), ["/GPU:0", "/GPU:1"])
    for device in work:
        print(device.device, device.forward_ops, device.backward_ops, device.compute_s)
    print(backward_is_home(work), misplaced_backward(work))

The graph that TensorFlow executes, after placement and optimisation, says which ops stand where; the profiler
says how long they took. The two are joined by the names of ops.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from multigpu.devices import short_name
from multigpu.errors import DeviceError
from multigpu.executed_graph import ExecutedGraph, executed_graph
from multigpu.keras_internals import parse_profile

CLOSING_S = 0.1  # the profiler drops events that threads close late, after their results are out


@dataclass(frozen=True)
class DeviceWork:
    """What one device did in one step.

    "Ops" are convolutions and matrix multiplications of the executed graph. One in a loop counts once for all
    its turns, one in a branch counts whether or not it was taken. Those of functions compiled by XLA count as
    they were traced, for XLA does not tell what it fused.

    Attributes:
        device: short form, `/CPU:1`.
        forward_ops: ops of the forward pass.
        backward_ops: ops of the backward pass.
        misplaced: names of the backward ops whose forward op is on another device.
        unpaired_ops: backward ops whose forward op was not found, so that `misplaced` cannot judge them.
        compiled_clusters: calls of functions compiled by XLA.
        unseen_calls: calls of functions kept apart (`_noinline`), whose ops are not counted.
        compute_s: seconds that its ops of every kind took, added up, without copies between devices: on a CPU
            the wall time of each op but the cheapest, on a GPU the time of its kernels. Ops that run side by
            side make it exceed the time of the step; logical CPUs share threads, so they slow each other.
            None where unknown: with unseen calls, and on a GPU without CUPTI or with compiled clusters.
        peak_memory_bytes: the most a GPU held during the step, model included; None on a CPU.
    """

    device: str
    forward_ops: int
    backward_ops: int
    misplaced: tuple[str, ...]
    unpaired_ops: int
    compiled_clusters: int
    unseen_calls: int
    compute_s: float | None
    peak_memory_bytes: int | None


def measure_work(step: Callable[[], object], devices: Sequence[str]) -> list[DeviceWork]:
    """Run a step and report what each device did.

    The step runs three times: to trace it, to collect its graph (optimised anew), and under the profiler.
    What it changes, it changes three times. Nothing else should run TensorFlow ops meanwhile.

    Args:
        step: calls one `tf.function`.
        devices: to report on, idle ones too.

    Returns:
        The devices in the order given, then any other that has convolutions or matrix multiplications.

    Raises:
        DeviceError: a device is not there.
        ValueError: no such op was seen.
    """
    existing = [short_name(device.name) for device in tf.config.list_logical_devices()]
    asked = [short_name(device) for device in devices]
    if unknown := set(asked) - set(existing):
        raise DeviceError(f"expected devices among {existing}, received {sorted(unknown)}")
    step()
    graph = executed_graph(step)
    for device in existing:
        if device.startswith("/GPU"):
            tf.config.experimental.reset_memory_stats(device.strip("/"))
    seconds = _profile(step)
    if not graph.ops:
        raise ValueError(
            "no convolution or matrix multiplication was seen; expected a step that calls a tf.function, one "
            "neither compiled as a whole (jit_compile=True puts all of it on one device) nor _noinline"
        )
    others = sorted({op.device for op in graph.ops.values()} - set(asked))
    homes = graph.homes()
    return [_work_of(device, graph, homes, seconds) for device in [*asked, *others]]


def misplaced_backward(work: Iterable[DeviceWork]) -> list[str]:
    """Names of the backward ops that ran away from the device of their forward op.

    A gradient op takes its forward op's input or weights once more. That shared tensor names the forward op
    exactly, whatever the optimiser renamed or fused, and it is followed through casts, transposes, loops and
    calls. An op is misplaced if none of the forward ops that take one of its operands is on its device.
    Numbers of ops per device would not name the culprit, and mislead where towers are not alike.
    """
    return [name for device in work for name in device.misplaced]


def backward_is_home(work: Sequence[DeviceWork]) -> bool:
    """Whether no backward op is misplaced, and all devices with a forward pass have a backward pass, or none.

    The second condition catches misplaced ops that could not be paired, too.
    """
    has_backward = {device.backward_ops > 0 for device in work if device.forward_ops}
    return not misplaced_backward(work) and len(has_backward) <= 1


def _work_of(
    device: str, graph: ExecutedGraph, homes: dict[str, set[str]], seconds: dict[tuple[str, bool], float]
) -> DeviceWork:
    on_gpu = device.startswith("/GPU")
    memory = tf.config.experimental.get_memory_info(device.strip("/")) if on_gpu else None
    nodes = {node for node, place in graph.devices.items() if place == device}
    ops = {name: op for name, op in graph.ops.items() if op.device == device}
    backward = [name for name, op in ops.items() if op.backward]
    clusters, unseen = graph.clusters & nodes, graph.unseen & nodes
    timed = [seconds[node, on_gpu] for node in nodes if (node, on_gpu) in seconds]
    unknown = unseen or (ops and not timed) or (clusters and on_gpu)
    return DeviceWork(
        device=device,
        forward_ops=len(ops) - len(backward),
        backward_ops=len(backward),
        misplaced=tuple(name for name in backward if homes[name] and device not in homes[name]),
        unpaired_ops=sum(not homes[name] for name in backward),
        compiled_clusters=len(clusters),
        unseen_calls=len(unseen),
        compute_s=None if unknown else math.fsum(timed),
        peak_memory_bytes=memory["peak"] if memory else None,
    )


def _profile(step: Callable[[], object]) -> dict[tuple[str, bool], float]:
    """Run a step under the profiler; the seconds of each op by its name and by whether they are a GPU's."""
    tf.test.experimental.sync_devices()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        try:
            step()
            tf.test.experimental.sync_devices()  # GPUs work on after a call returns
            time.sleep(CLOSING_S)
        finally:
            tf.profiler.experimental.stop()
        files = list(Path(folder).rglob("*.xplane.pb"))
        planes = [plane for file in files for plane in parse_profile(file.read_bytes()).planes]
    seconds: dict[tuple[str, bool], float] = defaultdict(float)
    for plane in planes:
        on_gpu = plane.name.startswith("/device:GPU")
        if on_gpu or plane.name == "/host:CPU":
            for name, duration_s in _events(plane, on_gpu):
                seconds[name, on_gpu] += duration_s
    return dict(seconds)


def _events(plane: Any, on_gpu: bool) -> Iterator[tuple[str, float]]:
    """Name of op and duration in seconds of what the host or a GPU did."""
    for line in plane.lines:
        for event in line.events:
            label = plane.event_metadata[event.metadata_id].name
            if on_gpu:
                label = _stat(plane, event, "tf_op") if line.name.startswith("Stream") else ""
            elif label == "ExecutorState::ProcessAsync::Start":  # how calls of functions show
                label = f"{_stat(plane, event, 'name')}:{_stat(plane, event, 'kernel_type')}"
            # `layer/Conv2D:_FusedConv2D` is of the op `layer/Conv2D`; other labels are of no op
            name, _, kind = label.partition(":")
            if kind.isidentifier():
                yield name, event.duration_ps / 1e12


def _stat(plane: Any, event: Any, key: str) -> str:
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == key:
            return str(stat.str_value or plane.stat_metadata[stat.ref_value].name)
    return ""
