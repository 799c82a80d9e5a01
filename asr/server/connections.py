"""Close connections that send no request: each holds a file of the process, of which there are few."""

from __future__ import annotations

import asyncio

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 20.0  # in which the headers of a request must have come


class Connection(HttpToolsProtocol):
    """Reads HTTP from one connection, and closes it when headers take too long."""

    _timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._has_request():
            self._expect_headers()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect_headers(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADERS_S, self._give_up)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        self._timer = None
        # a connection that has become a WebSocket is no longer one of them
        if self in self.connections and not self._has_request():
            self.transport.close()
