"""The search for the largest batch that fits: sizes are tried in a process that may die of it.

with Worker(serve, settings) as worker:
    for trial in search(worker.ask, 30.0, total_s):
        ...
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGINT, Signals
from typing import Any

from asr.base.types import UserError

FIRST_S = 60.0  # sizes begin below it, or at the configured one where that is less
PRECISE = 1.12  # between what fits and what does not
WORTH_IT = 1.05  # what a doubling must bring in throughput
LARGE_SHARE = 0.25  # of the training set: larger batches leave an epoch a handful of steps
USABLE_SHARE = 0.8  # of the machine's memory
_ENDED = (EOFError, BrokenPipeError, ConnectionResetError)  # what a connection says of a process that is gone


@dataclass(frozen=True)
class Trial:
    """What became of a size.

    Attributes:
        batch_s: seconds of audio in a batch, padding counted.
        num_batches: of an epoch.
        num_rows: of the batch with the most clips; 0 where that is not known.
        audio_s_per_s: seconds of audio trained on per second; 0 where it was not measured.
        peak_bytes: of memory, of the device, or of the process where that is the CPU.
        failure: why the size does not fit; empty where it does.
    """

    batch_s: float
    num_batches: int = 0
    num_rows: int = 0
    audio_s_per_s: float = 0.0
    peak_bytes: int = 0
    failure: str = ""


@dataclass(frozen=True)
class Started:
    """What a worker says before its first trial.

    Attributes:
        on_cpu: whether batches take the machine's own memory.
        base_bytes: what the process took before the first batch.
    """

    on_cpu: bool
    base_bytes: int


def search(attempt: Callable[[float], Trial], configured_s: float, total_s: float) -> Iterator[Trial]:
    """Try sizes: twice as large each time, then between the last that fits and the first that does not.

    Args:
        attempt: tries a size.
        configured_s: the size of now, which is one of those tried.
        total_s: seconds of audio in the training set.
    """
    size = configured_s / 2.0 ** max(0, math.ceil(math.log2(configured_s / FIRST_S)))
    fitting: list[Trial] = []
    while not (trial := attempt(size)).failure:
        yield trial
        fitting.append(trial)
        if stops_growing(fitting, total_s):
            return
        size *= 2
    yield trial
    too_large = size
    while not fitting and trial.num_rows != 1 and size > 1:  # a single clip is no smaller in any batch
        size /= 2
        yield (trial := attempt(size))
        if trial.failure:
            too_large = size
        else:
            fitting.append(trial)
    fits = fitting[-1].batch_s if fitting else too_large
    while too_large / fits > PRECISE:
        middle = float(f"{math.sqrt(fits * too_large):.2g}")
        if not fits < middle < too_large:
            return
        yield (trial := attempt(middle))
        fits, too_large = (fits, middle) if trial.failure else (middle, too_large)


def stops_growing(fitting: Sequence[Trial], total_s: float) -> str:
    """Why larger sizes than the last that fits are of no use; empty where they may be."""
    last = fitting[-1]
    if last.num_batches == 1 or last.batch_s >= total_s:
        return "the whole training set is one batch"
    best_before = max((trial.audio_s_per_s for trial in fitting[:-1]), default=0.0)
    if last.batch_s >= LARGE_SHARE * total_s and last.audio_s_per_s <= WORTH_IT * best_before:
        share = last.batch_s / total_s
        return f"a batch is {share:.0%} of the training set, and throughput grows no longer"
    return ""


def worst_batches(
    plan: Sequence[Sequence[int]], padded: Sequence[int], num_labels: Sequence[int]
) -> list[int]:
    """Which batches of a plan need the most memory.

    Args:
        plan: places of the clips of each batch.
        padded: samples that each clip is padded to.
        num_labels: of each clip.

    Returns:
        Numbers of the batches with the most samples, the longest clip, the most label places.
    """
    longest = [max(padded[place] for place in places) for places in plan]
    samples = [length * len(places) for length, places in zip(longest, plan, strict=True)]
    labels = [max(num_labels[place] for place in places) * len(places) for places in plan]
    numbers = range(len(plan))
    return list(dict.fromkeys(max(numbers, key=sizes.__getitem__) for sizes in (samples, longest, labels)))


def predicted_bytes(fitting: Sequence[Trial], base_bytes: int, batch_s: float) -> float:
    """Memory that a size will need, by the last two that fit and by what the process took at its start."""
    if not fitting:
        return 0.0
    last = fitting[-1]
    slopes = [(last.peak_bytes - base_bytes) / last.batch_s]
    if len(fitting) > 1:
        before = fitting[-2]
        slopes.append((last.peak_bytes - before.peak_bytes) / (last.batch_s - before.batch_s))
    return last.peak_bytes + max(slopes) * (batch_s - last.batch_s)


class Worker:
    """Tries sizes in a process of its own, and in another one after each that failed.

    The process hears no Ctrl-C; it ends with the `with` block, or when this process is gone.

    Args:
        serve: (connection, *arguments), run in the process: sends a `Started` or an exception, then a
            `Trial` for each size that it receives, until one fails or the connection ends.
        arguments: for it, to be pickled.
        limit_bytes: what the process may take where it works on the CPU; sizes beyond are not tried.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any, limit_bytes: float) -> None:
        self._serve, self._arguments, self._limit_bytes = serve, arguments, limit_bytes
        self._process: Any = None
        self._connection: Connection | None = None
        self._started = Started(on_cpu=False, base_bytes=0)
        self._fitting: list[Trial] = []

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def ask(self, batch_s: float) -> Trial:
        """Try a size."""
        needed = predicted_bytes(self._fitting, self._started.base_bytes, batch_s)
        if self._started.on_cpu and needed > self._limit_bytes:
            limit = _gb(self._limit_bytes)
            return Trial(batch_s, failure=f"not tried: would take about {_gb(needed)}, {limit} may be used")
        connection = self._connected()
        try:
            connection.send(batch_s)
            trial: Trial = connection.recv()
        except _ENDED:
            return Trial(batch_s, failure=self._cause_of_death())
        if self._started.on_cpu and not trial.failure and trial.peak_bytes > self._limit_bytes:
            took = f"took {_gb(trial.peak_bytes)}, {_gb(self._limit_bytes)} may be used"
            trial = dataclasses.replace(trial, failure=took)
        if trial.failure:
            self._end()  # what is left of a failed size must not count against the next
        else:
            self._fitting = sorted([*self._fitting, trial], key=lambda trial: trial.batch_s)
        return trial

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs, *self._arguments), daemon=True)
        with _deaf_children():
            self._process.start()
        theirs.close()
        try:
            started = self._connection.recv()
        except _ENDED:
            raise UserError(f"before the first batch, {self._cause_of_death()}") from None
        if isinstance(started, Exception):
            raise started
        if started.on_cpu and started.base_bytes > self._limit_bytes:
            raise UserError(
                f"training takes {_gb(started.base_bytes)} before its first batch, and "
                f"{_gb(self._limit_bytes)} may be used: free memory, or take a smaller model.size"
            )
        self._started = started
        return self._connection

    def _cause_of_death(self) -> str:
        """Why the process is gone; only where it is not by a mistake of ours."""
        self._process.join()
        code = self._process.exitcode
        self._end()
        if code >= 0:
            raise UserError("the process that tries batches has failed; what it says stands above")
        return f"its process was ended by {Signals(-code).name}, as happens where memory is short"

    def _end(self) -> None:
        if self._process is not None and self._process.pid is not None:  # started
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None


def available_bytes() -> int:
    """Memory that a new process can take without swapping, within the limits of this container."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        table = {key: int(rest.split()[0]) * 1024 for key, rest in (line.split(":") for line in lines)}
        available = table["MemAvailable"]
    except (OSError, KeyError, ValueError):
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
            group = Path("/sys/fs/cgroup")
            left = int((group / limit).read_text()) - int((group / used).read_text())
            available = min(available, left)
    return available


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C; this one hears it when they are started."""
    heard: list[int] = []
    resource_tracker.ensure_running()  # it would let signals in again
    handler = signal.signal(SIGINT, lambda number, frame: heard.append(number))  # any thread may receive it
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {SIGINT})  # which the new process inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(SIGINT, handler)
    if heard:
        raise KeyboardInterrupt


def _gb(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2g} GB"
