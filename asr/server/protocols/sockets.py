"""Serve WebSockets within limits: idle ones are closed, and each refusal has its close code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from asr.server.requests.inbox import Inbox
from asr.server.requests.received_audio import SAMPLE_BYTES
from asr.server.requests.request_body import unless
from asr.server.requests.request_errors import RefusalError, invalid, unavailable
from asr.server.service import RecognitionService

logger = logging.getLogger(__name__)

CLOSE_CODES = {400: 1007, 413: 1009, 429: 1013, 503: 1013}  # by the status that HTTP would have
POLICY, FAILED, STOPPING = 1008, 1011, 1012
MAX_REASON_BYTES = 120

END = '{"eof": 1, "is_speaking": false}'  # by which a client ends its stream, Vosk's and FunASR's

Message = str | bytes
Result = TypeVar("Result")


class ClientSocket:
    """The messages of one client, which are received while others are answered.

    Args:
        socket: accepted.
        idle_s: seconds without a message, or in which none can be sent, after which it is closed.
    """

    def __init__(self, socket: WebSocket, idle_s: float) -> None:
        self._socket, self._idle_s = socket, idle_s
        self._inbox: Inbox[Message] = Inbox(idle_s, len)
        self._close_code = FAILED  # of a client that has gone

    @property
    def stopped(self) -> bool:
        """Return whether the server ends the stream."""
        return self._inbox.stopped

    async def receive(self) -> Message:
        """Return the next message; that which ends the stream, once the server is stopping.

        Raises:
            WebSocketDisconnect: the client has gone.
            RefusalError: it has been silent for too long.
        """
        message = await self._inbox.take()
        if message is not None:
            return message
        if self.stopped:
            return END
        raise WebSocketDisconnect(self._close_code)

    def with_received(self, first: bytes, max_samples: int) -> list[bytes]:
        """Return a message of samples with those that have been received since, as many as fit.

        A stream that is behind thus catches up: the model runs once for all of them.

        Args:
            first: message of samples.
            max_samples: of all together; `first` alone may have more.
        """
        found, num_bytes = [first], len(first)
        while isinstance(message := self._inbox.peek(), bytes):
            num_bytes += len(message)
            if num_bytes > SAMPLE_BYTES * max_samples:
                break
            self._inbox.next()
            found.append(message)
        return found

    async def while_connected(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of work; see `unless`."""
        return await unless(self._inbox.until_ended(), work)

    async def send(self, fields: dict[str, Any]) -> None:
        """Send fields as JSON."""
        try:
            async with asyncio.timeout(self._idle_s):
                text = json.dumps(fields, ensure_ascii=False)
                await self._socket.send_text(text.encode(errors="replace").decode())  # half a surrogate pair
        except TimeoutError:
            raise WebSocketDisconnect(FAILED) from None

    def stop(self) -> None:
        """End the stream after the messages that were received, as if its client did."""
        self._inbox.stop()

    async def listen(self) -> None:
        """Receive messages until the client has gone."""
        while not self.stopped:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._close_code = message.get("code", 1000)
                self._inbox.end()
                return
            data = message["bytes"] if message.get("bytes") is not None else message["text"]
            await self._inbox.put(data)


def socket_route(
    path: str,
    service: RecognitionService,
    talk: Callable[[ClientSocket], Awaitable[None]],
    subprotocol: str,
) -> BaseRoute:
    """Return the route of a protocol by WebSocket.

    The answer to the client's request has the header `X-Stream`: "exact", or "by-pauses" where the model
    recognizes each stretch of speech as a clip of its own.

    Args:
        path: of the route.
        service: recognizes.
        talk: speaks the protocol; the socket is closed when it returns.
        subprotocol: that clients of the protocol may ask for.
    """
    header = [(b"x-stream", b"exact" if service.streams.exact else b"by-pauses")]

    async def endpoint(socket: WebSocket) -> None:
        asked = socket.headers.get("sec-websocket-protocol", "")
        offered = [one.strip() for one in asked.split(",")]
        await socket.accept(subprotocol if subprotocol in offered else None, header)
        talking = ClientSocket(socket, service.limits.stream_idle_s)
        listening = asyncio.ensure_future(talking.listen())
        try:
            code, reason = await _result(service, talk, talking)
        except WebSocketDisconnect:
            return
        finally:
            listening.cancel()
        if socket.client_state is WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                cut = reason.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore")
                await socket.close(code, cut)

    return WebSocketRoute(path, endpoint)


async def _result(
    service: RecognitionService,
    talk: Callable[[ClientSocket], Awaitable[None]],
    talking: ClientSocket,
) -> tuple[int, str]:
    """Let a client talk, and return the code and the reason with which its socket is to be closed."""
    try:
        if service.admission.draining:
            raise unavailable("stopping", "this server is stopping")
        with service.streams.slot(talking.stop):
            await talk(talking)
    except RefusalError as refusal:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await talking.send({"error": refusal.message})
        if refusal.code == "idle":
            return POLICY, refusal.message
        return CLOSE_CODES.get(refusal.status, POLICY), refusal.message
    except WebSocketDisconnect:
        raise
    except Exception:
        logger.exception("a stream failed")
        return FAILED, "this server failed; its log has the reason"
    return (STOPPING, "this server is stopping") if talking.stopped else (1000, "")


def json_object(message: str) -> dict[str, Any]:
    """Return the object that a message holds.

    Raises:
        RefusalError: it holds none.
    """
    try:
        fields = json.loads(message)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise invalid("expected a JSON object, or samples in a binary message", code="invalid_message")
    return fields


def rate_of(value: object) -> int:
    """Return a sample rate that a client states as a number or as text.

    Raises:
        RefusalError: it is none.
    """
    try:
        rate_hz = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        rate_hz = 0.0
    if 4000 <= rate_hz <= 192_000:
        return round(rate_hz)
    raise invalid(f"expected a sample rate of 4000 to 192000 Hz, received {value!r:.40}", "sample_rate")
