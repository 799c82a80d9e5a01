"""Decode containers in processes of their own, which a crafted file may crash or block without harm.

A file of 74 kB that declares 80 million samples makes FFmpeg allocate 2.8 GB within 18 s. A process that
decodes has a limit of memory, and one of the time until it answers.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, NamedTuple

import numpy.typing as npt

from asr.audio.formats import conversion
from asr.audio.media.kinds import Kind, MediaHeader
from asr.base.errors import UserError
from asr.base.system.child_process import ChildEndedError, ChildProcess, Inbox

MEMORY_BYTES = 1 << 30  # beyond the interpreter's own; an index of ten hours has less than a tenth of it
CPU_S = 20  # of processor time until the next answer, which takes a few seconds at most
WAIT_S = 600.0  # until the next answer, on a disk or in a queue
NEXT = None  # a request for the next answer


class Request(NamedTuple):
    """What a process is to decode.

    Attributes:
        data: contents of the file, or a path that opens it.
        kind: its container.
        name: for errors.
        begin_s: of the first sample; None for the duration.
        longest_s: of all samples.
    """

    data: bytes | str
    kind: Kind
    name: str
    begin_s: float | None = None
    longest_s: float = math.inf


_idle: list[_Worker] = []
_lock = threading.Lock()


@contextlib.contextmanager
def open_media(
    stream: BinaryIO, kind: Kind, name: str, begin_s: float = 0.0, longest_s: float = math.inf
) -> Iterator[tuple[MediaHeader, Iterator[npt.NDArray[Any]]]]:
    """Open a container's audio: return its header and (S, channels) int16 or float32 samples in blocks.

    Args:
        stream: seekable; its position is not used.
        kind: see `media_kind`.
        name: for errors.
        begin_s: of the first sample, in seconds.
        longest_s: of all samples, in seconds.

    Raises:
        UserError: the container is damaged, or its audio cannot be decoded; at its end where it is cut off.
    """
    with _answers(stream, Request(_reopened(stream), kind, name, begin_s, longest_s)) as answers:
        header = next(answers)
        assert isinstance(header, MediaHeader)
        yield header, (block for block in answers if len(block))


def media_header(stream: BinaryIO, kind: Kind, name: str) -> tuple[MediaHeader, float]:
    """Return a container's header, and the length of its audio in seconds, by its packets.

    Raises:
        UserError: see `open_media`.
    """
    with _answers(stream, Request(_reopened(stream), kind, name)) as answers:
        header, *durations_s = answers
        return header, durations_s[-1]


@contextlib.contextmanager
def _answers(stream: BinaryIO, request: Request) -> Iterator[Iterator[Any]]:
    """Ask a process, and return its answers up to the last one; a process that is not finished is ended."""
    worker = _idle_worker()
    is_finished = False

    def received() -> Iterator[Any]:
        nonlocal is_finished
        worker.child.send(request)
        while True:
            answer = worker.answer(request.name)
            if answer is None or isinstance(answer, UserError):
                is_finished = True
            if answer is None:
                return
            if isinstance(answer, UserError):
                raise answer
            if isinstance(answer, OSError):  # the file cannot be opened again
                worker.child.send(request._replace(data=_contents(stream)))
                continue
            worker.child.send(NEXT)  # it works while this process uses the answer
            yield answer

    try:
        yield received()
    finally:
        if is_finished:
            worker.release()
        else:
            worker.child.kill()


class _Worker:
    """A process that decodes one container after the other."""

    def __init__(self) -> None:
        self._inbox: Inbox = SimpleQueue()
        self.child = ChildProcess(_serve, inbox=self._inbox)

    def answer(self, name: str) -> Any:
        """Wait for the next answer, and return it."""
        try:
            _, answer = self._inbox.get(timeout=WAIT_S)
        except Empty:
            answer = f"takes more than {WAIT_S:g} s"
        if isinstance(answer, ChildEndedError):
            is_slow = answer.signal == "SIGXCPU"
            answer = f"takes more than {CPU_S} s to decode" if is_slow else f"crashes the decoder ({answer})"
        if isinstance(answer, str):
            raise UserError(
                f"{name}: damaged, or made to do harm: it {answer}; copy it again, or convert it: "
                f"{conversion(name)}"
            )
        return answer

    def has_ended(self) -> bool:
        """Return whether the process has ended while nothing was asked of it."""
        return not self._inbox.empty()

    def release(self) -> None:
        """Keep the process for the next container."""
        with _lock:
            if len(_idle) < (os.cpu_count() or 1):
                _idle.append(self)
                return
        self.child.kill()


def _idle_worker() -> _Worker:
    with _lock:
        while _idle:
            if not (worker := _idle.pop()).has_ended():
                return worker
    return _Worker()


def _begin_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the other process may have had it
    _idle.clear()  # they answer the other process


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_fork)


def _reopened(stream: BinaryIO) -> bytes | str:
    """Return what another process opens to read a stream: a path, or its contents where it has none."""
    with contextlib.suppress(OSError, AttributeError):  # io.UnsupportedOperation, of one in memory
        link = Path(f"/proc/{os.getpid()}/fd/{stream.fileno()}")
        if link.exists():
            return str(link)
    return _contents(stream)


def _contents(stream: BinaryIO) -> bytes:
    stream.seek(0)
    return stream.read()


def _opened(data: bytes | str) -> BinaryIO:
    return io.BytesIO(data) if isinstance(data, bytes) else Path(data).open("rb")


def _serve(requests: Iterator[Request | None]) -> Iterator[Any]:
    """Yield the header of each container and its blocks, or durations, and None at its end, one by one."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders print warnings there
    for request in requests:
        assert request is not None
        try:
            stream = _opened(request.data)
        except OSError as error:  # as where the other process has more rights than this one
            yield error
            continue
        try:
            with stream:
                yield from _decoded(request, stream, requests)
            yield None
        except UserError as error:
            yield error
        except MemoryError:
            yield f"takes more than {MEMORY_BYTES >> 20} MiB to decode"


def _decoded(request: Request, stream: BinaryIO, requests: Iterator[Request | None]) -> Iterator[Any]:
    try:
        from asr.audio.media.reader import Media
    except ImportError as error:
        raise UserError(
            f"{request.name}: needs PyAV, which cannot be imported ({error}): `pip install av`, or convert "
            f"it: {conversion(request.name)}"
        ) from None
    data_bytes = len(request.data) if isinstance(request.data, bytes) else 0
    with contextlib.suppress(ImportError, OSError, ValueError):  # where the system has no such limits
        _set_limit("RLIMIT_AS", _own_bytes() + data_bytes + MEMORY_BYTES)
    _limit_time()
    media = Media(stream, request.kind, request.name)
    yield media.header
    next(requests)
    begin_s, longest_s = request.begin_s, request.longest_s
    for answer in media.duration_s() if begin_s is None else media.blocks(begin_s, longest_s):
        yield answer
        next(requests)
        _limit_time()


@functools.cache
def _own_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _limit_time() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        _set_limit("RLIMIT_CPU", math.ceil(time.process_time()) + CPU_S)


def _set_limit(name: str, most: int) -> None:
    import resource

    kind = getattr(resource, name)
    resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
