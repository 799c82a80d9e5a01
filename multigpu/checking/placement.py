"""Measures which device did what in a compiled step, from the run itself, not from the devices requested.

    work = measure_work(lambda: train_step(batch), ["/GPU:0", "/GPU:1"])
    for device in work:
        print(device.device, device.forward_ops, device.backward_ops, device.compute_s)
    print(backward_is_placed(work), misplaced_backward(work))

The graph that TensorFlow executes, after placement and optimisation, gives the device of each op; the
profiler gives its time. The two are joined by the names of ops.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import tensorflow as tf

from multigpu.checking.executed_graph import ExecutedGraph, executed_graph
from multigpu.devices import short_name
from multigpu.errors import DeviceError
from multigpu.replication.keras_internals import parse_profile

CLOSING_S = 0.1  # the profiler drops events that threads close only after their results are available


Interval: TypeAlias = tuple[int, int]  # start and end in picoseconds of the profiler's clock
Events: TypeAlias = dict[tuple[str, bool], list[Interval]]  # of each op by (name, whether it ran on a GPU)


@dataclass(frozen=True)
class DeviceWork:
    """What one device did in one step.

    "Ops" are convolutions and matrix multiplications of the executed graph. An op in a loop counts once for
    all iterations, an op in a branch counts whether or not the branch was taken. Ops of functions compiled by
    XLA count as they were traced, since XLA does not report what it fused.

    Attributes:
        device: short name, such as `/CPU:1`.
        forward_ops: number of ops of the forward pass.
        backward_ops: number of ops of the backward pass.
        misplaced: names of the backward ops whose forward op is on another device.
        unpaired_ops: number of backward ops whose forward op was not found, so that they cannot be judged.
        compiled_clusters: number of calls of functions compiled by XLA.
        unseen_calls: number of calls of `_noinline` functions, whose ops are not counted.
        compute_s: total seconds of the device's ops of every kind, without copies between devices: on a CPU
            the wall time of each op but the cheapest, on a GPU the time of its kernels. Ops that run in
            parallel make it exceed the time of the step; logical CPUs share threads, so they slow each other.
            None where unknown: with unseen calls, and on a GPU without CUPTI or with compiled clusters.
        peak_memory_bytes: peak memory of a GPU during the step, model included; None on a CPU.
        busy: intervals in which at least one op ran, in order.
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
    busy: tuple[Interval, ...] = ()


def measure_work(step: Callable[[], object], devices: Sequence[str]) -> list[DeviceWork]:
    """Run a step and return what each device did.

    The step runs three times: to trace it, to collect its graph (optimised again), and under the profiler.
    So its side effects occur three times. Nothing else should run TensorFlow ops meanwhile.

    Args:
        step: calls one `tf.function`.
        devices: names of the devices to report on, idle ones included.

    Returns:
        The devices in the order given, then any other that has convolutions or matrix multiplications.

    Raises:
        DeviceError: a device does not exist.
        ValueError: the step has no convolution or matrix multiplication.
    """
    existing = [short_name(device.name) for device in tf.config.list_logical_devices()]
    requested = [short_name(device) for device in devices]
    if unknown := set(requested) - set(existing):
        raise DeviceError(f"expected devices among {existing}, received {sorted(unknown)}")
    step()
    graph = executed_graph(step)
    for device in existing:
        if device.startswith("/GPU"):
            tf.config.experimental.reset_memory_stats(device.strip("/"))
    events = _profile(step)
    if not graph.ops:
        raise ValueError(
            "no convolution or matrix multiplication found; expected a step that calls a tf.function, "
            "neither compiled as a whole (jit_compile=True puts all of it on one device) nor _noinline"
        )
    others = sorted({op.device for op in graph.ops.values()} - set(requested))
    forward = graph.forward_devices()
    return [_work_of(device, graph, forward, events) for device in [*requested, *others]]


def misplaced_backward(work: Iterable[DeviceWork]) -> list[str]:
    """Return the names of the backward ops that ran on another device than their forward op.

    A gradient op uses its forward op's input or weights again. That shared tensor identifies the forward op
    exactly, whatever the optimiser renamed or fused, and it is followed through casts, transposes, loops and
    calls. An op is misplaced if none of the forward ops that use one of its operands is on its device.
    Counting ops per device would not identify the op, and misleads where towers differ.
    """
    return [name for device in work for name in device.misplaced]


def backward_is_placed(work: Sequence[DeviceWork]) -> bool:
    """Return whether every backward op runs on the device of its forward op.

    Also requires that all devices with a forward pass have a backward pass, or none has: this detects
    misplaced ops that could not be paired with a forward op.
    """
    has_backward = {device.backward_ops > 0 for device in work if device.forward_ops}
    return not misplaced_backward(work) and len(has_backward) <= 1


def _work_of(
    device: str,
    graph: ExecutedGraph,
    forward_devices: dict[str, set[str]],
    events: Events,
) -> DeviceWork:
    on_gpu = device.startswith("/GPU")
    memory = tf.config.experimental.get_memory_info(device.strip("/")) if on_gpu else None
    nodes = {node for node, place in graph.devices.items() if place == device}
    ops = {name: op for name, op in graph.ops.items() if op.device == device}
    backward = [name for name, op in ops.items() if op.backward]
    clusters, unseen = graph.clusters & nodes, graph.unseen & nodes
    timed = [stop - start for node in nodes for start, stop in events.get((node, on_gpu), ())]
    unknown = unseen or (ops and not timed) or (clusters and on_gpu)
    return DeviceWork(
        device=device,
        forward_ops=len(ops) - len(backward),
        backward_ops=len(backward),
        misplaced=tuple(
            name for name in backward if forward_devices[name] and device not in forward_devices[name]
        ),
        unpaired_ops=sum(not forward_devices[name] for name in backward),
        compiled_clusters=len(clusters),
        unseen_calls=len(unseen),
        compute_s=None if unknown else sum(timed) / 1e12,
        peak_memory_bytes=memory["peak"] if memory else None,
        busy=_joined(interval for node in nodes for interval in events.get((node, on_gpu), ())),
    )


def _joined(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return intervals with those that overlap joined, in order."""
    joined: list[Interval] = []
    for start, stop in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


def _profile(step: Callable[[], object]) -> Events:
    """Run a step under the profiler and return when each op ran."""
    tf.test.experimental.sync_devices()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        try:
            step()
            tf.test.experimental.sync_devices()  # GPUs are still busy after a call returns
            time.sleep(CLOSING_S)
        finally:
            tf.profiler.experimental.stop()
        files = list(Path(folder).rglob("*.xplane.pb"))
        planes = [plane for file in files for plane in parse_profile(file.read_bytes()).planes]
    events: dict[tuple[str, bool], list[Interval]] = defaultdict(list)
    for plane in planes:
        on_gpu = plane.name.startswith("/device:GPU")
        if on_gpu or plane.name == "/host:CPU":
            for name, interval in _events(plane, on_gpu):
                events[name, on_gpu].append(interval)
    return dict(events)


def _events(plane: Any, on_gpu: bool) -> Iterator[tuple[str, Interval]]:
    """Yield the op's name and the interval of each event of the host or a GPU."""
    for line in plane.lines:
        for event in line.events:
            label = plane.event_metadata[event.metadata_id].name
            if on_gpu:
                label = _stat(plane, event, "tf_op") if line.name.startswith("Stream") else ""
            elif label == "ExecutorState::ProcessAsync::Start":  # calls of functions have this label
                label = f"{_stat(plane, event, 'name')}:{_stat(plane, event, 'kernel_type')}"
            # `layer/Conv2D:_FusedConv2D` belongs to the op `layer/Conv2D`; other labels belong to no op
            name, _, kind = label.partition(":")
            if kind.isidentifier():
                start_ps = line.timestamp_ns * 1000 + event.offset_ps
                yield name, (start_ps, start_ps + event.duration_ps)


def _stat(plane: Any, event: Any, key: str) -> str:
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == key:
            return str(stat.str_value or plane.stat_metadata[stat.ref_value].name)
    return ""
