"""Admit requests up to limits in number and in memory, so that a server under load answers, and answers fast.

with admission.ticket() as ticket:
    ticket.reserve(len(body))       # raises RefusalError where all requests together hold too much
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from asr.server.requests.limits import Limits
from asr.server.requests.request_errors import queue_full, unavailable


class Ticket:
    """The memory that one request has reserved.

    Args:
        admission: that gave it.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission, self.num_bytes, self.is_open = admission, 0, True
        self._sample_bytes = 0  # reserved for samples

    def reserve(self, num_bytes: int) -> None:
        """Reserve more memory; it is released with the ticket, and not counted after that.

        A thread that reads a recording may still do so for a client that has gone.

        Raises:
            RefusalError: all requests together would exceed the limit.
        """
        self._admission.reserve(self, num_bytes)

    def reserve_samples(self, num_bytes: int) -> None:
        """Reserve memory for the samples of a recording, up to a total of `num_bytes`; see `reserve`."""
        self.reserve(max(0, num_bytes - self._sample_bytes))
        self._sample_bytes = max(self._sample_bytes, num_bytes)

    @contextlib.contextmanager
    def arriving(self) -> Iterator[None]:
        """Count the request as arriving for the time of the block, at whose end it needs room in the queue.

        Bodies that do not progress thus keep nobody out; their number and memory have limits of their own.

        Raises:
            RefusalError: the queue is full at the end of the block.
        """
        with self._admission.arriving():
            yield


class Admission:
    """The requests in progress, those of them whose bodies are arriving, and the memory that all hold.

    Args:
        limits: of the server.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self.num_requests, self.num_arriving, self.num_bytes = 0, 0, 0
        self.draining = False

    @contextlib.contextmanager
    def ticket(self, *, begun: bool = False) -> Iterator[Ticket]:
        """Admit a request for the time of the block.

        Args:
            begun: whether it is part of a stream, which a server that is stopping answers to its end.

        Raises:
            RefusalError: too many are in progress, or the server is stopping.
        """
        if self.draining and not begun:
            raise unavailable("stopping", "this server is stopping; send the request to another, or later")
        ticket = Ticket(self)
        with self._lock:
            self._refuse_more_than(self._limits.max_queue - 1)
            self.num_requests += 1
        try:
            yield ticket
        finally:
            with self._lock:
                self.num_requests -= 1
                self.num_bytes -= ticket.num_bytes
                ticket.is_open = False

    @contextlib.contextmanager
    def arriving(self) -> Iterator[None]:
        """Do not count a request as one of the queue; see `Ticket.arriving`."""
        with self._lock:
            self.num_arriving += 1
        try:
            yield
        finally:
            with self._lock:
                self.num_arriving -= 1
        with self._lock:
            self._refuse_more_than(self._limits.max_queue)

    def _refuse_more_than(self, most: int) -> None:
        queued = self.num_requests - self.num_arriving
        if queued > most:
            admitted = self._limits.max_queue
            raise queue_full(f"{admitted} requests are in progress, as many as are admitted")

    def reserve(self, ticket: Ticket, num_bytes: int) -> None:
        """Count memory of a ticket; see `Ticket.reserve`."""
        with self._lock:
            if not ticket.is_open:
                return
            if self.num_bytes + num_bytes > self._limits.max_pending_bytes:
                raise queue_full("the requests in progress hold as much audio as is admitted")
            self.num_bytes += num_bytes
            ticket.num_bytes += num_bytes
