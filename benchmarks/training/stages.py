"""Measures what training in stages promises, on simulated devices, against one device in the same run.

    python -m benchmarks.training.stages

Equality, placement and memory do not depend on the machine. Speed does: two stages run on two cores, the one
device is pinned to one of them, each in a process of its own, and the two run in turn. Memory is what
TensorFlow's allocator reports: each buffer counts for the device whose operation allocated it, from there to
its release; weights and the batch, allocated before the step, do not count.
"""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"  # the allocator that reports what it does

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.common import seconds, show

RUNS, STEPS = 9, 5
MICRO_BATCHES = 8
CHANNELS = 32
PARTS = {"gradients": 3, "backward": 3, "memory": 4, "replicas": 4}  # and the number of devices of each


def main() -> None:
    found = {part: json.loads(run_part(part)) for part in PARTS}
    plain, synchronized = found["gradients"]
    placed, total = found["backward"]
    shares = found["memory"]
    ratios = sorted(speedups())
    rows = {
        "gradients, 3 stages x 4 micro-batches, float64": (f"{plain:.1e}", "at most 1e-12"),
        "the same with synchronized batch normalisation": (f"{synchronized:.1e}", "at most 1e-10"),
        "backward ops on the device of their stage": (f"{placed} of {total}", "all"),
        "peak memory of a step, 4 stages x 8 micro-batches, most of any device": (
            f"{max(shares):.0%} of one device's ({', '.join(f'{share:.0%}' for share in shares)})",
            "at most 40%",
        ),
        "2 stages on 2 cores to 1 device on 1 core": (
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            "at least 1.5",
        ),
        "2 replicas x 2 stages, losses of 20 steps": (
            f"differ by {found['replicas']:.1e}",
            "the same, 1e-5 in float32",
        ),
    }
    width = max(len(figure) for figure, _ in rows.values())
    show(
        "training in stages",
        {what: f"{figure:<{width}}  ({to_reach})" for what, (figure, to_reach) in rows.items()},
    )


def run_part(part):
    command = [sys.executable, "-m", __spec__.name, part]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


# equality


def gradients(devices):
    """Return the largest relative difference without batch statistics and with synchronized ones."""
    import keras
    import tensorflow as tf

    from multigpu.checking.check import compiled, largest_difference
    from multigpu.stages.check import loss_of, make_batch
    from multigpu.stages.staged_model import StagedModel

    layers = keras.layers

    def make(synchronized):
        keras.utils.set_random_seed(1)
        x = inputs = keras.Input((32, 32, 8), dtype="float64")
        for index in range(6):
            x = layers.Conv2D(8, 3, padding="same", activation="tanh", dtype="float64", name=f"conv{index}")(
                x
            )
            if synchronized:
                x = layers.BatchNormalization(synchronized=True, dtype="float64", name=f"norm{index}")(x)
        x = layers.GlobalAveragePooling2D(dtype="float64", name="pool")(x)
        return keras.Model(inputs, layers.Dense(40, dtype="float64", name="logits")(x))

    def difference(synchronized):
        inner, plain = make(synchronized), make(synchronized)
        names = [layer.name for layer in inner.layers[1:]]
        third = (len(names) - 2) // 3
        stages = [names[:third], names[third : 2 * third], names[2 * third :]]
        staged = StagedModel(inner, stages, devices, num_micro_batches=4)

        def on_one(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(plain(x, training=True), y)
            return tape.gradient(loss, plain.trainable_variables)

        in_stages = compiled(lambda x, y: staged.loss_and_gradients(loss_of, x, y).gradients)
        batches = [make_batch(num_rows, "float64", 8) for num_rows in (16, 18)]
        return max(largest_difference(in_stages(*batch), compiled(on_one)(*batch)) for batch in batches)

    return [difference(synchronized=False), difference(synchronized=True)]


def backward(devices):
    """Return the number of backward ops on the device of their stage, and of all backward ops."""
    from multigpu.stages.check import check_stages

    work = check_stages(devices).work
    total = sum(device.backward_ops for device in work)
    return [total - sum(len(device.misplaced) + device.unpaired_ops for device in work), total]


def replicas(devices):
    """Return the largest relative difference of the loss in 20 steps of two replicas from one device's."""
    import keras
    import numpy as np
    import tensorflow as tf

    from multigpu.engines import make_engine
    from multigpu.stages.check import loss_of, make_batch, make_model

    def losses(engine):
        keras.utils.set_random_seed(1)
        with engine.scope():
            model = engine.place(make_model(2, "float32", 8))
            optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
            optimizer.build(model.trainable_variables)

        def loss_and_logits(model, x, y):
            logits = model(x, training=True)
            return loss_of(logits, y), logits

        batches = [make_batch(num_rows, "float32", 8) for num_rows in range(14, 34)]
        signature = [tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype) for tensor in batches[0]]

        def clipped(gradients):
            return tf.clip_by_global_norm(gradients, 1.0)

        step = engine.train_step(model, optimizer, loss_and_logits, clipped, signature)
        return np.array([float(step(len(batch[0]), *batch)[0]) for batch in batches])

    ours, theirs = losses(make_engine("stages", devices, 2)), losses(make_engine("single", devices[:1]))
    return float(np.max(np.abs(ours - theirs) / theirs))


# memory


def memory(devices):
    """Return the peak memory of each stage's device in a step, relative to that of one device."""
    import tensorflow as tf

    from multigpu.stages.check import loss_of, make_batch, make_model, stage_names
    from multigpu.stages.staged_model import StagedModel

    inner = make_model(len(devices), "float32", CHANNELS)
    batch = make_batch(4 * MICRO_BATCHES, "float32", CHANNELS)

    @tf.function
    def on_one(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(inner(x, training=True), y)
        return tape.gradient(loss, inner.trainable_variables)

    one = peaks(lambda: on_one(*batch))
    staged = StagedModel(inner, stage_names(len(devices)), devices, num_micro_batches=MICRO_BATCHES)
    in_stages = tf.function(lambda x, y: staged.loss_and_gradients(loss_of, x, y).gradients)
    of_stages = peaks(lambda: in_stages(*batch))
    return [of_stages[device] / one[devices[0]] for device in devices]


def peaks(step):
    """Return the largest number of bytes that each device's operations hold at a time in a compiled step."""
    import tensorflow as tf

    from multigpu.checking.executed_graph import executed_graph
    from multigpu.replication.keras_internals import parse_profile

    step()
    device_of = executed_graph(step).devices
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        step()
        time.sleep(0.2)  # threads close events only after their results are available
        tf.profiler.experimental.stop()
        (file,) = Path(folder).rglob("*.xplane.pb")
        planes = parse_profile(file.read_bytes()).planes
    held, most, owners = Counter(), Counter(), {}
    for _, address, num_bytes, operation in sorted(allocations(planes)):
        if num_bytes and operation in device_of:
            owners[address] = (device_of[operation], num_bytes)
            held[device_of[operation]] += num_bytes
            most[device_of[operation]] = max(most[device_of[operation]], held[device_of[operation]])
        elif not num_bytes and address in owners:
            device, num_bytes = owners.pop(address)
            held[device] -= num_bytes
    return most


def allocations(planes):
    """Yield the time, address, bytes (0 for a release) and operation of each event of the allocator."""
    for plane in planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                if name not in ("MemoryAllocation", "MemoryDeallocation"):
                    continue
                stats = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
                operation = ""
                if "tf_op" in stats:
                    stat = stats["tf_op"]
                    operation = stat.str_value or plane.stat_metadata[stat.ref_value].name
                num_bytes = stats["allocation_bytes"].int64_value if name == "MemoryAllocation" else 0
                at = line.timestamp_ns * 1000 + event.offset_ps
                yield at, stats["addr"].uint64_value or stats["addr"].int64_value, num_bytes, operation


# speed


def speedups():
    """Return the ratio of one device's time to that of two stages, for pairs of runs."""
    workers = [Worker("one"), Worker("two")]
    for worker in workers:
        worker.run()
    ratios = [one / two for one, two in ([worker.run() for worker in workers] for _ in range(RUNS))]
    for worker in workers:
        worker.close()
    return ratios


class Worker:
    """A process that takes steps on request, and returns their seconds."""

    def __init__(self, mode):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self):
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def take_steps(mode):
    """Take some steps for each line of standard input; runs in the worker's process."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores if mode == "two" else cores[:1])
    import keras
    import tensorflow as tf

    from multigpu.devices import simulate_devices
    from multigpu.stages.check import loss_of, make_batch, make_model, stage_names
    from multigpu.stages.staged_model import StagedModel

    tf.config.threading.set_intra_op_parallelism_threads(1)  # of each of the two devices
    if mode == "one":
        tf.config.threading.set_inter_op_parallelism_threads(1)
    devices = simulate_devices(2 if mode == "two" else 1)
    inner = make_model(2, "float32", CHANNELS)
    optimizer = keras.optimizers.SGD(0.01)
    if mode == "two":
        staged = StagedModel(inner, stage_names(2), devices, num_micro_batches=MICRO_BATCHES)
        optimizer = staged.place_optimizer(optimizer)
    optimizer.build(inner.trainable_variables)

    @tf.function
    def step(x, y):
        if mode == "two":
            loss, _, gradients = staged.loss_and_gradients(loss_of, x, y)
        else:
            with tf.GradientTape() as tape:
                loss = loss_of(inner(x, training=True), y)
            gradients = tape.gradient(loss, inner.trainable_variables)
        optimizer.apply(gradients, inner.trainable_variables)
        return loss

    batch = make_batch(8 * MICRO_BATCHES, "float32", CHANNELS)
    for _ in sys.stdin:
        print(json.dumps(seconds(lambda: [float(step(*batch)) for _ in range(STEPS)])), flush=True)


def work(part):
    """Print what one part of the benchmark finds; runs in a process of its own."""
    from multigpu.devices import simulate_devices

    print(json.dumps(globals()[part](simulate_devices(PARTS[part]))))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] in PARTS:
        work(sys.argv[1])
    else:
        take_steps(sys.argv[1])
