"""Bound what a connection may cost before its request is checked: time, and the size of its headers."""

from __future__ import annotations

import asyncio

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 20.0  # in which the headers of a request must have come
MAX_HEADER_BYTES = 64 << 10  # of a request's first line and its headers, as nginx and Node limit them
MAX_HEADERS = 100
READ_BYTES = 16 << 10  # parsed at once
LINGERING_S = 300.0  # in which a refused body may continue: many clients send all of it before they read

TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"expected at most %d headers of %d KiB together\n" % (MAX_HEADERS, MAX_HEADER_BYTES >> 10)
)


class _HeadersTooLargeError(Exception):
    """The headers of a request are too large; its parsing ends."""


class Connection(HttpToolsProtocol):
    """An HTTP connection that is closed when headers take too long or are too large."""

    _timer: asyncio.TimerHandle | None = None
    _answered_s = 0.0  # when the last answer ended
    _header_bytes = 0  # of the request that is being read, trailers included
    _unparsed_bytes = 0  # read since the parser last recognized anything
    _is_too_large = _has_body_to_come = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    @override
    def data_received(self, data: bytes) -> None:
        for begin in range(0, len(data), READ_BYTES):
            self._parse(data[begin : begin + READ_BYTES])
            if self.transport.is_closing() or self not in self.connections:
                return  # refused, or a WebSocket now
        if self._has_request():
            self._cancel_timer()
        elif self._has_body_to_come and self.loop.time() < self._answered_s + LINGERING_S:
            self._cancel_timer()
            self._expect_headers()
        else:
            self._expect_headers()

    def _parse(self, data: bytes) -> None:
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._refuse_headers()

    def _count(self, num_bytes: int) -> None:
        """Count bytes of headers that were recognized; what this raises ends the parsing."""
        self._unparsed_bytes = 0
        self._header_bytes += num_bytes
        if self._header_bytes > MAX_HEADER_BYTES or len(self.headers) > MAX_HEADERS:
            self._is_too_large = True
            raise _HeadersTooLargeError

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = self._unparsed_bytes = 0

    @override
    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    @override
    def on_headers_complete(self) -> None:
        self._has_body_to_come, self._unparsed_bytes = True, 0
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._has_body_to_come = False
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        self._answered_s = self.loop.time()
        super().on_response_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        if self._is_too_large:
            self._refuse_headers()
        else:
            super().send_400_response(msg)

    def _refuse_headers(self) -> None:
        self.transport.write(TOO_LARGE)
        self.transport.close()

    def _expect_headers(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADERS_S, self._give_up)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        self._timer = None
        # a connection that has become a WebSocket is no longer one of them
        if self in self.connections and not self._has_request():
            self.transport.close()
