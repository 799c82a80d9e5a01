"""Proves on the user's own machine that N devices do N devices' work.

    python -m multigpu check --gpus 2

A small convolutional network takes the same step on one device and on all: what each device did is read from
the executed graph, gradients are compared, and the step is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from multigpu.checking.placement import DeviceWork, backward_is_placed, measure_work, misplaced_backward
from multigpu.devices import device_kind
from multigpu.keras_models.parallel_model import ParallelModel
from multigpu.replication.towers import Tensor
from multigpu.wording import listed

TOLERANCE = 1e-5  # largest relative difference of gradients
NUM_FRAMES, NUM_BANDS, NUM_CLASSES = 192, 64, 40
ROWS_PER_DEVICE = {"CPU": 8, "GPU": 64}
CHANNELS = {"CPU": 24, "GPU": 128}
TIMED_STEPS = 7

Gradients: TypeAlias = Callable[[Tensor, Tensor], list[Tensor]]  # of a batch (x, y)
Port: TypeAlias = Callable[[keras.Model, Sequence[str]], Gradients]


@dataclass(frozen=True)
class Times:
    """The median seconds of a training step on one device and on all.

    Attributes:
        whole_batch_s: the whole batch on one device.
        one_share_s: one device's share of it on one device.
        all_devices_s: the whole batch on all devices.
        num_devices: how many these are.
    """

    whole_batch_s: float
    one_share_s: float
    all_devices_s: float
    num_devices: int

    @property
    def strong(self) -> float:
        """Return the speedup of all devices over one with the same batch (strong scaling)."""
        return self.whole_batch_s / self.all_devices_s

    @property
    def weak(self) -> float:
        """Return the throughput relative to one device's, with one device's batch on each (weak scaling)."""
        return self.num_devices * self.one_share_s / self.all_devices_s

    @property
    def limit(self) -> str:
        """Describe what keeps a step on N devices from taking an N-th of the time, and what it costs."""
        ideal_s = self.whole_batch_s / self.num_devices
        small_s, together_s = self.one_share_s - ideal_s, self.all_devices_s - self.one_share_s
        if max(small_s, together_s) < 0.05 * ideal_s:
            return "nothing significant"
        if small_s > together_s:
            return (
                f"the batch size: a device's share takes {small_s * 1e3:.1f} ms longer than its part of "
                "the whole batch; larger batches help"
            )
        return (
            f"communication: copying weights, summing gradients and synchronization take "
            f"{together_s * 1e3:.1f} ms of a step of {self.all_devices_s * 1e3:.1f} ms; larger batches help"
        )


@dataclass(frozen=True)
class Check:
    """What a check of several devices found.

    Attributes:
        work: of each device in a step of one batch.
        differences: largest relative difference of a gradient from one device's, by what was compared.
        times: of the step.
    """

    work: Sequence[DeviceWork]
    differences: dict[str, float]
    times: Times

    @property
    def problems(self) -> list[str]:
        """Return a description of each problem found, none if every device does its part."""
        problems = problems_of_work(self.work, self.times.num_devices)
        strays = misplaced_backward(self.work)
        if strays:
            problems.append(
                f"{len(strays)} backward ops did not run on the device of their forward ops: {listed(strays)}"
            )
        elif not problems and not backward_is_placed(self.work):
            problems.append("backward ops did not run on the devices of their forward ops")
        return problems + problems_of_gradients(self.differences, TOLERANCE)


def problems_of_work(work: Sequence[DeviceWork], num_devices: int) -> list[str]:
    """Describe each device that is idle, and each beyond the first `num_devices` that did work."""
    idle = [
        f"{device.device} is idle: {device.forward_ops} forward and {device.backward_ops} backward ops"
        for device in work[:num_devices]
        if not (device.forward_ops and device.backward_ops)
    ]
    return idle + [f"{device.device} did work that it was not given" for device in work[num_devices:]]


def problems_of_gradients(differences: Mapping[str, float], tolerance: float) -> list[str]:
    """Describe each difference of gradients from one device's that is larger than a tolerance, or NaN."""
    return [
        f"gradients differ from those of one device by {difference:.1e} ({what})"
        for what, difference in differences.items()
        if not difference <= tolerance
    ]


def check_devices(devices: Sequence[str], port: Port | None = None) -> Check:
    """Run a training step on one device and on all, and compare work, gradients and times.

    Args:
        devices: names, at least two.
        port: (model, devices) -> function of a batch that returns gradients; by default `ParallelModel`'s.
    """
    port = port or parallel_port
    kind = device_kind(devices[0])
    model = make_model("float32", CHANNELS[kind], devices[0])
    batch = make_batch(ROWS_PER_DEVICE[kind] * len(devices), "float32")
    share = make_batch(ROWS_PER_DEVICE[kind], "float32")
    on_all, on_one = port(model, devices), one_device(model, devices[:1])
    work = measure_work(lambda: on_all(*batch), devices)
    times = Times(
        whole_batch_s=_median_s(on_one, batch),
        one_share_s=_median_s(on_one, share),
        all_devices_s=_median_s(on_all, batch),
        num_devices=len(devices),
    )
    return Check(work, _differences(devices, port), times)


def parallel_port(model: keras.Model, devices: Sequence[str]) -> Gradients:
    """Return a function that computes `ParallelModel`'s gradients of a batch on all devices."""
    parallel = ParallelModel(model, list(devices))
    return compiled(lambda x, y: parallel.loss_and_gradients(loss_of, x, y).gradients)


def one_device(model: keras.Model, devices: Sequence[str]) -> Gradients:
    """Return a function that computes the plain model's gradients of a batch on the first device."""

    def gradients(x: Tensor, y: Tensor) -> Any:
        with tf.device(devices[0]), tf.GradientTape() as tape:
            loss, _ = loss_of(model, x, y)
            return tape.gradient(loss, model.trainable_variables)

    return compiled(gradients)


def loss_of(model: keras.Model, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy over some rows, and the logits."""
    logits = model(x, training=True)
    losses = keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True)
    return tf.reduce_mean(losses), logits


def make_model(dtype: str, channels: int, device: str) -> keras.Model:
    """Make a classifier of spectrograms; without batch statistics, so that gradients can be compared."""
    layers = keras.layers
    with tf.device(device):
        return keras.Sequential(
            [
                keras.Input((NUM_FRAMES, NUM_BANDS, 1), dtype=dtype),
                *(
                    layers.Conv2D(channels * 2**stage, 3, strides=2, activation="relu", dtype=dtype)
                    for stage in range(3)
                ),
                layers.GlobalAveragePooling2D(dtype=dtype),
                layers.Dense(256, "relu", dtype=dtype),
                layers.Dense(NUM_CLASSES, dtype=dtype),
            ]
        )


def make_batch(num_rows: int, dtype: str) -> tuple[Tensor, Tensor]:
    """Return random spectrograms and their classes."""
    rng = np.random.default_rng(num_rows)
    x = rng.normal(size=(num_rows, NUM_FRAMES, NUM_BANDS, 1)).astype(dtype)
    with tf.device("/CPU:0"):  # where batches come from
        return tf.constant(x), tf.constant(rng.integers(NUM_CLASSES, size=num_rows))


def _differences(devices: Sequence[str], port: Port) -> dict[str, float]:
    """Compare gradients in double precision, where rounding hides no mistake."""
    model = make_model("float64", CHANNELS["CPU"], devices[0])
    on_all, on_one = port(model, devices), one_device(model, devices[:1])
    sizes = {
        f"{2 * len(devices) + 1} rows": 2 * len(devices) + 1,
        "1 row": 1,
    }
    batches = {what: make_batch(num_rows, "float64") for what, num_rows in sizes.items()}
    return {what: largest_difference(on_all(*batch), on_one(*batch)) for what, batch in batches.items()}


def largest_difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """Return the largest relative difference of any gradient: largest difference over largest value."""
    pairs = zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True)
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)) for a, b in pairs)


def _median_s(step: Gradients, batch: tuple[Tensor, Tensor]) -> float:
    def once() -> float:
        started = time.perf_counter()
        np.asarray(step(*batch)[0])  # waits for the device
        return time.perf_counter() - started

    once()
    return statistics.median(once() for _ in range(TIMED_STEPS))


def compiled(function: Callable[..., Any]) -> Gradients:
    """Return a function compiled such that batches of other sizes need not be traced again and again."""
    compiled: Gradients = tf.function(function, reduce_retracing=True, autograph=False)
    return compiled
