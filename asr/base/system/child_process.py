"""Processes that answer requests of this one, and end with it.

def double(requests: Iterator[int]) -> Iterator[int]:
    for request in requests:
        yield 2 * request

with ChildProcess(double) as child:
    child.send(4)
    print(child.receive())

A child is a new interpreter: it has in memory only what its function needs, and unlike a fork it takes over
neither threads nor locks. It does not run the main module, which needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from signal import Signals
from typing import IO, Any, TypeAlias
from weakref import WeakSet

from asr.base.errors import UserError

PROGRAM = """
import pickle, sys
try:
    sys.path[:] = pickle.load(sys.stdin.buffer)
except (EOFError, pickle.UnpicklingError):  # the parent has ended
    sys.exit()
from asr.base.system.child_process import main
main()
"""


class ChildEndedError(Exception):
    """The end of a child that was to answer, by a signal or with a status.

    Attributes:
        signal: name of the signal that killed it; empty if it ended by itself.
    """

    def __init__(self, status: int) -> None:
        self.signal = Signals(-status).name if status < 0 else ""
        super().__init__(self.signal or f"status {status}")


class ChildProcess:
    """A process that answers requests; it ends with the `with` block, or when this process ends.

    Ctrl-C in a terminal does not reach it. A fork of this process does not end it.

    Args:
        serve: (requests, *arguments) -> answers; a function of a module other than the main one, which may
            answer before it takes a request.
        arguments: for `serve`; they are pickled, as requests and answers are.
        inbox: receives (child, answer), and at its end (child, error); None if `receive` is called.
    """

    def __init__(
        self, serve: Callable[..., Iterator[Any]], *arguments: Any, inbox: Inbox | None = None
    ) -> None:
        self._inbox: Inbox = SimpleQueue() if inbox is None else inbox
        self._creator = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        _children.add(self)
        self.send(sys.path)
        self.send((serve, arguments))

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def send(self, request: Any) -> None:
        """Send a request; if the child has ended, the next answer says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()

    def receive(self) -> Any:
        """Wait for the next answer, and return it.

        Raises:
            UserError: the child raised it.
            ChildEndedError: there is no answer.
        """
        _, answer = self._inbox.get()
        if isinstance(answer, UserError | ChildEndedError):
            raise answer
        return answer

    def kill(self) -> None:
        """End the process immediately, whatever it does; in a fork of its creator, leave it alone."""
        if os.getpid() != self._creator:
            return
        self._process.kill()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # of a request that was not taken
                pipe.close()  # type: ignore[union-attr]

    def _read(self) -> None:
        """Receive all answers; always in the same thread, so that the child never waits for this process."""
        assert self._process.stdout is not None
        try:
            for answer in _messages(self._process.stdout):
                self._inbox.put((self, answer))
        finally:
            self._inbox.put((self, ChildEndedError(self._process.wait())))


Inbox: TypeAlias = "SimpleQueue[tuple[ChildProcess, Any]]"
_children: WeakSet[ChildProcess] = WeakSet()


@atexit.register
def _end_children() -> None:
    # a thread that still reads from one when the interpreter is taken apart holds a lock: closing aborts it
    for child in list(_children):
        child.kill()


def answers_in_order(children: Sequence[ChildProcess], requests: Iterable[Any]) -> Iterator[Any]:
    """Yield the answer to each request, while every child works at another one."""
    busy: deque[ChildProcess] = deque()
    for number, request in enumerate(requests):
        child = children[number % len(children)]
        answers = [busy.popleft().receive()] if len(busy) == len(children) else []
        child.send(request)
        busy.append(child)
        yield from answers
    for child in busy:
        yield child.receive()


def peak_memory_bytes() -> int:
    """Return the largest resident size of this process since it began to run this program."""
    try:
        # not getrusage's, which counts the process that this one was forked from
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Answer the requests of the process that started this one."""
    # a broken pipe: the other process has ended
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints
        requests = _messages(sys.stdin.buffer)
        first = next(requests, None)
        if first is None:
            return
        serve, arguments = first
        try:
            for answer in serve(requests, *arguments):
                pickle.dump(answer, answers)
                answers.flush()
        except UserError as error:
            pickle.dump(error, answers)


def _messages(pipe: IO[bytes]) -> Iterator[Any]:
    """Yield what the process at the other end of a pipe sends, until it has ended."""
    while True:
        try:
            message = pickle.load(pipe)
        except (EOFError, pickle.UnpicklingError):  # at the end, or within a message
            return
        yield message
