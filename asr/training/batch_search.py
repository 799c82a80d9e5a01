"""Search for the largest batch that fits; sizes are tried in a process that may be killed by the trial.

with Worker(serve, settings) as worker:
    for trial in search(worker.try_size, 30.0, total_s):
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

from asr.base.errors import UserError

FIRST_S = 60.0  # the first size is at most this, and the configured size divided by a power of two
PRECISION = 1.12  # the search ends when the smallest size that fails is this many times one that fits
WORTHWHILE_GAIN = 1.05  # in throughput, for sizes to keep doubling
LARGE_SHARE = 0.25  # of the training set: with larger batches an epoch has only a handful of steps
USABLE_SHARE = 0.8  # of the machine's memory
_ENDED = (EOFError, BrokenPipeError, ConnectionResetError)  # a connection's errors when its process has died


@dataclass(frozen=True)
class Trial:
    """The result of trying one batch size.

    Attributes:
        batch_s: seconds of audio in a batch, including padding.
        num_batches: in an epoch.
        num_rows: clips in the batch with the most of them; 0 if unknown.
        audio_s_per_s: seconds of audio trained on per second; 0 if not measured.
        peak_bytes: peak memory of the device, or of the process if the device is the CPU.
        failure: why the size does not fit; empty if it fits.
    """

    batch_s: float
    num_batches: int = 0
    num_rows: int = 0
    audio_s_per_s: float = 0.0
    peak_bytes: int = 0
    failure: str = ""


@dataclass(frozen=True)
class Started:
    """What a worker reports before its first trial.

    Attributes:
        on_cpu: whether batches use the machine's own memory.
        base_bytes: memory of the process before the first batch.
    """

    on_cpu: bool
    base_bytes: int


def search(attempt: Callable[[float], Trial], configured_s: float, total_s: float) -> Iterator[Trial]:
    """Try sizes: double the size while it fits, then bisect between the last that fits and the first failure.

    Args:
        attempt: tries a size.
        configured_s: the configured size, which is one of those tried.
        total_s: seconds of audio in the training set.
    """
    size = configured_s / 2.0 ** max(0, math.ceil(math.log2(configured_s / FIRST_S)))
    fitting: list[Trial] = []
    while not (trial := attempt(size)).failure:
        yield trial
        fitting.append(trial)
        if reason_to_stop(fitting, total_s):
            return
        size *= 2
    yield trial
    too_large = size
    while not fitting and trial.num_rows != 1 and size > 1:  # no batch is smaller than a single clip
        size /= 2
        yield (trial := attempt(size))
        if trial.failure:
            too_large = size
        else:
            fitting.append(trial)
    fits = fitting[-1].batch_s if fitting else too_large
    while too_large / fits > PRECISION:
        middle = float(f"{math.sqrt(fits * too_large):.2g}")
        if not fits < middle < too_large:
            return
        yield (trial := attempt(middle))
        fits, too_large = (fits, middle) if trial.failure else (middle, too_large)


def reason_to_stop(fitting: Sequence[Trial], total_s: float) -> str:
    """Return why sizes larger than the last that fits are useless; empty if they may be useful."""
    last = fitting[-1]
    if last.num_batches == 1 or last.batch_s >= total_s:
        return "the whole training set is one batch"
    best_before = max((trial.audio_s_per_s for trial in fitting[:-1]), default=0.0)
    if last.batch_s >= LARGE_SHARE * total_s and last.audio_s_per_s <= WORTHWHILE_GAIN * best_before:
        share = last.batch_s / total_s
        return f"a batch is {share:.0%} of the training set, and throughput no longer grows"
    return ""


def worst_batches(
    plan: Sequence[Sequence[int]], padded: Sequence[int], num_labels: Sequence[int]
) -> list[int]:
    """Return which batches of a plan need the most memory.

    Args:
        plan: indices of the clips in each batch.
        padded: samples that each clip is padded to.
        num_labels: of each clip.

    Returns:
        Indices of the batches with the most samples, the longest clip, and the most labels with padding.
    """
    longest = [max(padded[place] for place in places) for places in plan]
    samples = [length * len(places) for length, places in zip(longest, plan, strict=True)]
    labels = [max(num_labels[place] for place in places) * len(places) for places in plan]
    numbers = range(len(plan))
    return list(dict.fromkeys(max(numbers, key=sizes.__getitem__) for sizes in (samples, longest, labels)))


def predicted_bytes(fitting: Sequence[Trial], base_bytes: int, batch_s: float) -> float:
    """Return the memory that a size will need, extrapolated from the last two that fit and the base."""
    if not fitting:
        return 0.0
    last = fitting[-1]
    slopes = [(last.peak_bytes - base_bytes) / last.batch_s]
    if len(fitting) > 1:
        before = fitting[-2]
        slopes.append((last.peak_bytes - before.peak_bytes) / (last.batch_s - before.batch_s))
    return last.peak_bytes + max(slopes) * (batch_s - last.batch_s)


class Worker:
    """Tries sizes in a child process, and in a new one after each failure.

    The child ignores Ctrl-C; it ends with the `with` block, or when this process ends.

    Args:
        serve: (connection, *arguments), run in the child: sends a `Started` or an exception, then a
            `Trial` for each size that it receives, until one fails or the connection ends.
        arguments: for `serve`; they are pickled.
        limit_bytes: memory that the child may use on the CPU; sizes that need more are not tried.
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

    def try_size(self, batch_s: float) -> Trial:
        """Try a batch size in the child process."""
        needed = predicted_bytes(self._fitting, self._started.base_bytes, batch_s)
        if self._started.on_cpu and needed > self._limit_bytes:
            limit = _gb(self._limit_bytes)
            return Trial(batch_s, failure=f"not tried: needs about {_gb(needed)}, {limit} may be used")
        connection = self._connected()
        try:
            connection.send(batch_s)
            trial: Trial = connection.recv()
        except _ENDED:
            return Trial(batch_s, failure=self._cause_of_death())
        if self._started.on_cpu and not trial.failure and trial.peak_bytes > self._limit_bytes:
            used = f"used {_gb(trial.peak_bytes)}, {_gb(self._limit_bytes)} may be used"
            trial = dataclasses.replace(trial, failure=used)
        if trial.failure:
            self._end()  # memory that a failed size left behind must not count against the next
        else:
            self._fitting = sorted([*self._fitting, trial], key=lambda trial: trial.batch_s)
        return trial

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs, *self._arguments), daemon=True)
        with _children_ignore_interrupts():
            self._process.start()
        theirs.close()
        try:
            started = self._connection.recv()
        except _ENDED:
            raise UserError(f"before the first batch: {self._cause_of_death()}") from None
        if isinstance(started, Exception):
            raise started
        if started.on_cpu and started.base_bytes > self._limit_bytes:
            raise UserError(
                f"training uses {_gb(started.base_bytes)} before its first batch, and "
                f"{_gb(self._limit_bytes)} may be used: free memory, or choose a smaller model.size"
            )
        self._started = started
        return self._connection

    def _cause_of_death(self) -> str:
        """Return which signal killed the child; raise a UserError if the child failed by itself."""
        self._process.join()
        code = self._process.exitcode
        self._end()
        if code >= 0:
            raise UserError("the process that tries batches has failed; its own error message is above")
        return f"its process was killed by {Signals(-code).name}, which usually means too little memory"

    def _end(self) -> None:
        if self._process is not None and self._process.pid is not None:  # started
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None


def available_bytes() -> int:
    """Return the memory that a new process can use without swapping, within the limits of this container."""
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
def _children_ignore_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C; this process handles a Ctrl-C after they have started."""
    received: list[int] = []
    resource_tracker.ensure_running()  # its start would unblock the signal
    handler = signal.signal(SIGINT, lambda number, frame: received.append(number))  # in any thread
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {SIGINT})  # which the new process inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(SIGINT, handler)
    if received:
        raise KeyboardInterrupt


def _gb(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2g} GB"
