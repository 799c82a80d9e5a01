"""Proves on the user's own machine that each stage of a model runs on its own device, forward and backward.

    python -m multigpu check --stages 3 --simulate
    python -m multigpu check --stages 2 --gpus 4 --simulate      # two replicas of two stages

A small convolutional network takes a step in stages and on one device. The device of every op is read from
the executed graph and compared with those of the stage whose layer the op belongs to. Gradients are compared
in double precision, and the profiler shows how long each device waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import keras
import tensorflow as tf

from multigpu.checking.check import (
    Gradients,
    compiled,
    largest_difference,
    one_device,
    problems_of_gradients,
    problems_of_work,
)
from multigpu.checking.executed_graph import ExecutedGraph, executed_graph
from multigpu.checking.placement import DeviceWork, measure_work, misplaced_backward
from multigpu.devices import device_kind
from multigpu.replication.towers import Tensor
from multigpu.stages.placement import StagePlacement
from multigpu.stages.staged_model import StagedModel
from multigpu.wording import listed

TOLERANCE = 1e-12  # largest relative difference of gradients, in double precision
CONVOLUTIONS = 2  # of a stage
CHANNELS = {"CPU": 16, "GPU": 128}
ROWS = {"CPU": 4, "GPU": 32}  # of a micro-batch
SIZE, NUM_CLASSES = 32, 40
COPIES = re.compile(r"(^|/)_(Send|Recv)|_(Send|Recv)$|/_\d+$")  # that TensorFlow adds between devices

Port: TypeAlias = Callable[[keras.Model, Sequence[Sequence[str]], Sequence[str], int], Gradients]


@dataclass(frozen=True)
class StagesCheck:
    """What a check of stages found.

    Attributes:
        placement: what the devices of each stage hold of the model.
        work: of each device in a step, the stages' first.
        num_ops: number of ops of layers in the executed graph, of every kind.
        misplaced: names of those that ran on another device than that of their layer's stage.
        without_backward: names of the layers without backward ops.
        differences: largest relative difference of a gradient from one device's, by what was compared.
        num_micro_batches: number of parts of each replica's share of a batch.
    """

    placement: Sequence[StagePlacement]
    work: Sequence[DeviceWork]
    num_ops: int
    misplaced: Sequence[str]
    without_backward: Sequence[str]
    differences: dict[str, float]
    num_micro_batches: int

    @property
    def num_devices(self) -> int:
        """Return the number of devices of all stages."""
        return sum(len(stage.devices) for stage in self.placement)

    @property
    def bubble(self) -> float:
        """Return the share of time that a device must wait if all stages take equal times."""
        num_stages = len(self.placement)
        return (num_stages - 1) / (self.num_micro_batches + num_stages - 1)

    @property
    def idle(self) -> float:
        """Return the share of the step in which a device ran no op, the mean over the devices."""
        busy = [device.busy for device in self.work[: self.num_devices]]
        ends = [time for intervals in busy for interval in intervals for time in interval]
        span = (max(ends) - min(ends)) * len(busy) if ends else 0
        return (
            1 - sum(stop - start for intervals in busy for start, stop in intervals) / span if span else 0.0
        )

    @property
    def problems(self) -> list[str]:
        """Return a description of each problem found, none if every stage runs where it should."""
        problems = problems_of_work(self.work, self.num_devices)
        strays = list(dict.fromkeys([*self.misplaced, *misplaced_backward(self.work)]))
        if strays:
            problems.append(f"{len(strays)} ops did not run on the device of their stage: {listed(strays)}")
        if self.without_backward:
            problems.append(f"no backward ops were found of {', '.join(self.without_backward)}")
        return problems + problems_of_gradients(self.differences, TOLERANCE)


def check_stages(devices: Sequence[str], num_stages: int = 0, port: Port | None = None) -> StagesCheck:
    """Run a training step in stages and on one device, and compare where ops ran, and gradients.

    Args:
        devices: names, at least two.
        num_stages: a divisor of the number of devices; 0 means one a device.
        port: (model, layers of each stage, devices, number of micro-batches) -> function of a batch that
            returns gradients; by default `StagedModel`'s.
    """
    port = port or staged_port
    num_stages, kind = num_stages or len(devices), device_kind(devices[0])
    num_micro_batches = 2 * num_stages
    stages = stage_names(num_stages)
    model = make_model(num_stages, "float32", CHANNELS[kind])
    placement = StagedModel(model, stages, list(devices), num_micro_batches=1).placement()
    step = port(model, stages, devices, num_micro_batches)
    num_parts = num_micro_batches * len(devices) // num_stages  # of a batch
    batch = make_batch(ROWS[kind] * num_parts, "float32", CHANNELS[kind])
    work = measure_work(lambda: step(*batch), devices)
    homes = {name: stage.devices for stage in placement for name in stage.layers}
    ops, misplaced, without_backward = compare_placement(executed_graph(lambda: step(*batch)), homes)
    return StagesCheck(
        placement,
        work,
        ops,
        misplaced,
        without_backward,
        _differences(devices, stages, port, num_micro_batches, num_parts),
        num_micro_batches,
    )


def compare_placement(
    graph: ExecutedGraph, homes: Mapping[str, Collection[str]]
) -> tuple[int, list[str], list[str]]:
    """Return the number of layers' ops, the names of misplaced ones, and layers without backward ops.

    An op belongs to the layer whose name is a part of the op's: Keras opens a name scope for each call of a
    layer, and TensorFlow names backward ops after their forward ops. Copies between devices do not count.

    Args:
        graph: what a step executed.
        homes: devices of each layer, by its name.
    """
    num_ops, misplaced, backward = 0, [], set()
    for name, device in graph.devices.items():
        layer = _layer_of(name, homes)
        if not layer or COPIES.search(name):
            continue
        num_ops += 1
        if device not in homes[layer]:
            misplaced.append(name)
        if name in graph.ops and graph.ops[name].backward:
            backward.add(layer)
    with_matrix_ops = {_layer_of(name, homes) for name in graph.ops} - {""}
    return num_ops, misplaced, sorted(with_matrix_ops - backward)


def _layer_of(op: str, homes: Iterable[str]) -> str:
    """Return the name of the layer that an op belongs to, "" if it belongs to none."""
    for part in op.split("/")[:-1]:
        for name in (part, re.sub(r"_\d+$", "", part)):  # scopes of later calls are numbered
            if name in homes:
                return name
    return ""


def staged_port(
    model: keras.Model, stages: Sequence[Sequence[str]], devices: Sequence[str], num_micro_batches: int
) -> Gradients:
    """Return a function that computes `StagedModel`'s gradients of a batch."""
    staged = StagedModel(model, stages, list(devices), num_micro_batches=num_micro_batches)
    return compiled(lambda x, y: staged.loss_and_gradients(loss_of, x, y).gradients)


def loss_of(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy over some rows."""
    return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True))


def stage_names(num_stages: int) -> list[list[str]]:
    """Return the names of each stage's layers in `make_model`."""
    names = [[f"conv{CONVOLUTIONS * k + i}" for i in range(CONVOLUTIONS)] for k in range(num_stages)]
    names[-1] += ["pool", "logits"]
    return names


def make_model(num_stages: int, dtype: str, channels: int) -> keras.Model:
    """Make a classifier of pictures whose stages take about equal times, with a tensor that skips one.

    It has no batch statistics, so that gradients can be compared.
    """
    layers = keras.layers
    x = inputs = keras.Input((SIZE, SIZE, channels), dtype=dtype)
    first = None
    for index in range(CONVOLUTIONS * num_stages):
        x = layers.Conv2D(channels, 3, padding="same", activation="tanh", dtype=dtype, name=f"conv{index}")(x)
        first = x if first is None else first
    x = layers.GlobalAveragePooling2D(dtype=dtype, name="pool")(x + first)
    return keras.Model(inputs, layers.Dense(NUM_CLASSES, dtype=dtype, name="logits")(x))


def make_batch(num_rows: int, dtype: str, channels: int) -> tuple[Tensor, Tensor]:
    """Return random pictures and their classes."""
    with tf.device("/CPU:0"):  # where batches come from
        x = tf.random.stateless_normal((num_rows, SIZE, SIZE, channels), (1, num_rows), dtype=dtype)
        return x, tf.random.stateless_uniform((num_rows,), (2, num_rows), 0, NUM_CLASSES, tf.int64)


def _differences(
    devices: Sequence[str],
    stages: Sequence[Sequence[str]],
    port: Port,
    num_micro_batches: int,
    num_parts: int,
) -> dict[str, float]:
    """Compare gradients in double precision, where rounding hides no mistake."""
    ours, plain = (make_model(len(stages), "float64", CHANNELS["CPU"]) for _ in range(2))
    ours.set_weights(plain.get_weights())
    in_stages = port(ours, stages, devices, num_micro_batches)
    on_one = one_device(plain, devices[:1])
    sizes = {f"{num_rows} rows": num_rows for num_rows in (num_parts, 2 * num_parts + 1)}
    batches = {what: make_batch(num_rows, "float64", CHANNELS["CPU"]) for what, num_rows in sizes.items()}
    return {what: largest_difference(in_stages(*batch), on_one(*batch)) for what, batch in batches.items()}
