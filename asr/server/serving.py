"""Listen at an address, and stop in good order: SIGTERM and Ctrl-C let the requests in progress end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from asr.base.errors import UserError
from asr.base.system.interrupt import handled_by
from asr.server.certificate import Certificate
from asr.server.logs import without_traceback_of_bad_text
from asr.server.requests.admission import Admission
from asr.server.requests.connections import Connection
from asr.server.requests.limits import Limits

MAX_MESSAGE_BYTES = 4 << 20  # of a WebSocket
KEEP_ALIVE_S = 30  # of a connection without a request
EVERY_ADDRESS = ("0.0.0.0", "::")  # at which a server may listen
MAX_PORT = 65_535
SETTLED_S = 0.5  # grace period before background work, so that a first request is not slowed


class Served(Protocol):
    """What an application serves: its limits, the requests that it admits, and how it ends.

    Attributes:
        limits: of the server.
        admission: the requests in progress.
    """

    limits: Limits
    admission: Admission

    def load_ahead(self) -> None:
        """Begin in a thread what a first request would wait for."""

    async def stop(self, within_s: float) -> None:
        """Let streams in progress end within some seconds; no other begins."""

    def close(self) -> None:
        """End all threads."""


class SideServer(Protocol):
    """A server that runs beside that of HTTP, in the same event loop."""

    async def start(self) -> None:
        """Begin to answer clients."""

    async def stop(self) -> None:
        """Let calls in progress end."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: name or address of this machine.
        port: 0 for any that is free.

    Raises:
        UserError: the address does not exist or is in use.
    """
    refuse_bad_port("port", port)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"`host={host}`, `port={port}`: cannot listen there ({reason}); choose another `port`"
        ) from None


def refuse_bad_port(name: str, port: int) -> None:
    """Raise a UserError for a number that is no port; the system would listen at its last 16 bits."""
    if not 0 <= port <= MAX_PORT:
        raise UserError(f"`{name}={port}`: expected a port from 1 to {MAX_PORT}, or 0 for any that is free")


def address_of(listening: socket.socket, host: str, certificate: Certificate | None) -> str:
    """Return the address that a client on this machine uses, such as "http://127.0.0.1:20001"."""
    name = f"[{host}]" if ":" in host else host
    if host in EVERY_ADDRESS:
        name = "127.0.0.1"
    return f"http{'s' if certificate else ''}://{name}:{listening.getsockname()[1]}"


def name_on_network(host: str) -> str:
    """Return how other machines name this one: its own address where it listens at all of them."""
    if host not in EVERY_ADDRESS:
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; an address of nobody (RFC 5737)
        except OSError:  # without a network
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def serve(
    app: ASGIApp,
    service: Served,
    listening: socket.socket,
    certificate: Certificate | None = None,
    on_ready: Callable[[], None] = lambda: None,
    beside: SideServer | None = None,
) -> None:
    """Answer requests until a signal, and then until those in progress are answered.

    Args:
        app: such as one from `asr.server.app.make_app`.
        service: of the application; it is closed at the end.
        listening: from `listen`.
        certificate: for TLS; None for plain HTTP.
        on_ready: is called once the server answers.
        beside: a server of another protocol, which runs as long.
    """
    config = uvicorn_config(app, service.limits, certificate)
    try:
        Server(config, service, on_ready, beside).run([listening])
    finally:
        service.close()


def uvicorn_config(app: ASGIApp, limits: Limits, certificate: Certificate | None) -> uvicorn.Config:
    """Return the settings of the HTTP server, and shorten its log; see `serve`."""
    logging.getLogger("uvicorn.error").addFilter(without_traceback_of_bad_text)
    return uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws_max_size=MAX_MESSAGE_BYTES,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(limits.drain_s),
        ssl_certfile=certificate.certificate if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
        ssl_ciphers="",  # Python's own choice: that of uvicorn is of TLS 1.0
    )


class Server(uvicorn.Server):
    """A server that runs until a signal, and then until the requests in progress are answered.

    Args:
        config: of the HTTP server.
        service: of the application, which admits no more requests then.
        on_ready: see `serve`.
        beside: see `serve`.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Served,
        on_ready: Callable[[], None],
        beside: SideServer | None = None,
    ) -> None:
        super().__init__(config)
        self._service, self._on_ready, self._beside = service, on_ready, beside

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._beside is not None:
            await self._beside.start()
        await super().startup(sockets)
        self._on_ready()
        asyncio.get_running_loop().call_later(SETTLED_S, self._service.load_ahead)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        beside = self._beside.stop() if self._beside is not None else asyncio.sleep(0)
        await asyncio.gather(self._shutdown_http(sockets), beside)

    async def _shutdown_http(self, sockets: list[socket.socket] | None) -> None:
        for server in self.servers:
            server.close()
        # that of uvicorn closes WebSockets at once
        began_s = time.monotonic()
        await self._service.stop(self._service.limits.drain_s)
        remaining_s = self._service.limits.drain_s - (time.monotonic() - began_s)
        self.config.timeout_graceful_shutdown = max(1, math.ceil(remaining_s))
        await super().shutdown(sockets)

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # that of uvicorn raises the signal again after the server has stopped in good order
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with handled_by(self.handle_exit):
            yield

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.admission.draining = True
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
