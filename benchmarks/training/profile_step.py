"""Shows where the time of a training step goes, by kind of operation and by part of the step.

    python -m benchmarks.training.profile_step [xs] [s] [m] [--towers 1]

The steps are whole ones: features, SpecAugment, forward, CTC, backward, clipping, AdamW. TensorFlow's
profiler records when each thread works on which operation; the columns add that up, in milliseconds.
An operation whose work is divided among cores counts with the thread that began it. So the sum of a table is
neither the time of a step nor that of the cores, which the processor's own clocks report above it.
"""

from __future__ import annotations

import bisect
import collections
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from benchmarks.common import seconds, show
from benchmarks.training.update import SHAPES, make_batch, sizes_and_towers, title_of, training_step

RUNS = {"xs": 60, "s": 60, "m": 12}
WARM_UP = 5
KINDS = {
    "matrix products": "MatMul FusedMatMul BatchMatMulV2",
    "convolutions": "Conv2D FusedConv2D",
    "filter gradients of convolutions": "Conv2DBackpropFilter",
    "input gradients of convolutions": "Conv2DBackpropInput",
    "depthwise convolutions": "DepthwiseConv2dNative FusedDepthwiseConv2dNative",
    "filter gradients of depthwise ones": "DepthwiseConv2dNativeBackpropFilter",
    "input gradients of depthwise ones": "DepthwiseConv2dNativeBackpropInput",
    "multiplications": "Mul",
    "additions": "AddV2 AddN Sub",
    "ReLU and dropout": "Relu ReluGrad SelectV2",
    "sums and maxima": "Sum Max L2Loss BiasAddGrad ArgMax Softmax",
    "copies": "BroadcastTo ConcatV2 GatherV2 OneHot Pack Pad PadV2 Slice StridedSlice Tile Transpose",
    "Fourier transform": "RFFT",
    "random numbers": "StatelessRandomUniformV2",
}
OTHER, COMPILED, STARTING = "other operations", "compiled by XLA", "starting operations"
KIND_OF = {operation: kind for kind, operations in KINDS.items() for operation in operations.split()}
PARTS = {  # of a step, by what is in the names of their operations; the first that fits
    "update": re.compile(r"global_norm"),
    "backward": re.compile(r"gradient|AddN"),
    "input": re.compile(r"/(features|spec_augment)"),
    "forward": re.compile(r"/network"),
}
LOSS = "loss"  # and the tokens that are recognized: what belongs to no other part
COLUMNS = ("input", "forward", LOSS, "backward", "update")

OPERATION = re.compile(r"(?P<name>[\w/.]+):_*(?:Mkl)?(?:Native)?(?P<type>\w+)")  # oneDNN's have the prefix
EXECUTOR = "ExecutorState::Process"
# only what XLA has compiled is asynchronous on a CPU; when it is done, the thread continues with others
ASYNCHRONOUS, AFTERWARDS = "ExecutorState::ProcessAsync::Start", "ExecutorState::ProcessAsync::Done"
LOOP = re.compile(r"while\.\d+")  # of CTC; the update has none


class Event(NamedTuple):
    """What a thread did from one picosecond to another."""

    start: int
    end: int
    name: str


class Spent(NamedTuple):
    """The time that an event took without those within it, in picoseconds."""

    kind: str
    part: str
    own: int


def main() -> None:
    sizes, num_towers = sizes_and_towers("Where the time of a training step goes.")
    for size in sizes:
        num_clips, clip_s, num_outputs, num_labels = SHAPES[size]
        batch = make_batch(num_clips, clip_s, num_outputs, num_labels)
        step = training_step(size, num_outputs, batch, compiled=True, num_towers=num_towers)
        for _ in range(WARM_UP):
            step()
        show(title_of(size, num_towers), {**measured(step, RUNS[size]), **profiled(step, RUNS[size])})


def measured(step: Callable[[], object], runs: int) -> dict[str, str]:
    """Return the time of a step without the profiler, and the share of the cores' time without work."""
    busy_s, began_s = time.process_time(), time.perf_counter()
    step_s = statistics.median(seconds(step) for _ in range(runs))
    all_s = (time.perf_counter() - began_s) * (os.cpu_count() or 1)
    waiting = 1 - (time.process_time() - busy_s) / all_s
    return {"a step": f"{step_s * 1e3:.1f} ms", "a core waits": f"{waiting:.0%} of the time of all cores"}


def profiled(step: Callable[[], object], runs: int) -> dict[str, str]:
    """Return the table of what the threads did in some steps."""
    threads, wall_s = record(step, runs)
    none, one = alone([event for events in threads for event in events])
    spent = [each for events in threads for each in spent_in(events)]
    return {
        "operations in progress": f"{none / 1e12 / wall_s:.0%} of it none, {one / 1e12 / wall_s:.0%} one",
        **rows(spent, runs),
    }


def record(step: Callable[[], object], runs: int) -> tuple[list[list[Event]], float]:
    """Run some steps under the profiler; return what each thread did, and the seconds that they took."""
    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)  # of small operations, too
        with tf.profiler.experimental.Profile(folder, options):
            wall_s = seconds(lambda: [step() for _ in range(runs)])
        (path,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    return [events_of(plane, line) for plane in space.planes for line in plane.lines], wall_s


def events_of(plane: Any, line: Any) -> list[Event]:
    """Return what one thread did, in the order in which it began."""
    names = plane.event_metadata
    events = [
        Event(event.offset_ps, event.offset_ps + event.duration_ps, names[event.metadata_id].name)
        for event in line.events
    ]
    return sorted(filter(is_of_interest, events), key=lambda event: (event.start, -event.end))


def is_of_interest(event: Event) -> bool:
    known = event.name in (EXECUTOR, ASYNCHRONOUS, AFTERWARDS)
    return known or bool(OPERATION.fullmatch(event.name) or LOOP.fullmatch(event.name))


def alone(events: Iterable[Event]) -> tuple[int, int]:
    """Return the picoseconds in which no operation was in progress, and those in which one was."""
    changes = collections.Counter[int]()
    for event in events:
        if is_operation(event):
            changes[event.start] += 1
            changes[event.end] -= 1
    in_progress, before, durations = 0, min(changes), collections.Counter[int]()
    for moment in sorted(changes):
        durations[in_progress] += moment - before
        in_progress, before = in_progress + changes[moment], moment
    return durations[0], durations[1]


def is_operation(event: Event) -> bool:
    return event.name == ASYNCHRONOUS or bool(OPERATION.fullmatch(event.name))


def spent_in(events: Sequence[Event]) -> Iterator[Spent]:
    """Yield how long each event of a thread took without those within it."""
    own = [event.end - event.start for event in events]
    around: list[int] = []  # indices of the events that have begun and not ended
    loops = [event.start for event in events if LOOP.fullmatch(event.name)]
    for index, event in enumerate(events):
        if LOOP.fullmatch(event.name):
            continue
        while around and events[around[-1]].end <= event.start:
            around.pop()
        if around:
            own[around[-1]] -= own[index]
        around.append(index)
    for event, picoseconds in zip(events, own, strict=True):
        if event.name == ASYNCHRONOUS:
            has_loop = bisect.bisect(loops, event.end) > bisect.bisect(loops, event.start)
            yield Spent(COMPILED, LOSS if has_loop else "update", picoseconds)
        elif event.name == EXECUTOR:
            yield Spent(STARTING, "", picoseconds)
        elif found := OPERATION.fullmatch(event.name):
            yield Spent(KIND_OF.get(found["type"], OTHER), part_of(found["name"]), picoseconds)


def part_of(name: str) -> str:
    """Return the part of a step that an operation belongs to."""
    return next((part for part, names in PARTS.items() if names.search(name)), LOSS)


def rows(spent: Iterable[Spent], runs: int) -> dict[str, str]:
    """Return a row for each kind of operation: milliseconds of a step by part, their sum, and how many."""
    sums, counts = collections.Counter[tuple[str, str]](), collections.Counter[str]()
    for kind, part, own in spent:
        sums[kind, part] += own
        counts[kind] += 1
    table = {"kind of operation": "".join(f"{name:>10}" for name in (*COLUMNS, "sum", "number"))}
    by_kind = {kind: sum(sums[kind, part] for part in (*COLUMNS, "")) for kind in counts}
    for kind in sorted(counts, key=lambda kind: -by_kind[kind]):
        cells = [sums[kind, part] for part in COLUMNS]
        milliseconds = "".join(f"{cell / 1e9 / runs:>10.1f}" if cell else " " * 10 for cell in cells)
        table[kind] = f"{milliseconds}{by_kind[kind] / 1e9 / runs:>10.1f}{counts[kind] / runs:>10.0f}"
    columns = [sum(sums[kind, part] for kind in counts) / 1e9 / runs for part in COLUMNS]
    table["all"] = "".join(f"{column:>10.1f}" for column in (*columns, sum(by_kind.values()) / 1e9 / runs))
    return table


if __name__ == "__main__":
    main()
