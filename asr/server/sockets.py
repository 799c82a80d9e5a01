"""Serve WebSockets within limits: idle ones are closed, and each refusal has its close code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from asr.server.refusal import RefusalError, invalid, unavailable
from asr.server.service import RecognitionService

logger = logging.getLogger(__name__)

CLOSE_CODES = {400: 1007, 413: 1009, 429: 1013, 503: 1013}  # by the status that HTTP would have
POLICY, FAILED = 1008, 1011
MAX_REASON_BYTES = 120

Message = str | bytes


class Talk:
    """Receives and sends the messages of one client.

    Args:
        socket: accepted.
        idle_s: seconds without a message, or in which none can be sent, after which it is closed.
    """

    def __init__(self, socket: WebSocket, idle_s: float) -> None:
        self._socket, self._idle_s = socket, idle_s

    async def receive(self) -> Message:
        """Return the next message.

        Raises:
            WebSocketDisconnect: the client has gone.
            RefusalError: it has been silent for too long.
        """
        try:
            async with asyncio.timeout(self._idle_s):
                message = await self._socket.receive()
        except TimeoutError:
            raise unavailable("idle", f"no message for {self._idle_s:g} s") from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        data: Message = message["bytes"] if message.get("bytes") is not None else message["text"]
        return data

    async def send(self, fields: dict[str, Any]) -> None:
        """Send fields as JSON."""
        try:
            async with asyncio.timeout(self._idle_s):
                await self._socket.send_text(json.dumps(fields, ensure_ascii=False))
        except TimeoutError:
            raise WebSocketDisconnect(FAILED) from None


def socket_route(
    path: str,
    service: RecognitionService,
    talk: Callable[[Talk], Awaitable[None]],
    subprotocol: str | None = None,
) -> BaseRoute:
    """Return the route of a protocol by WebSocket.

    The answer to the client's request has the header `X-Stream`: "exact", or "by-pauses" where the model
    recognizes each stretch of speech as a clip of its own.

    Args:
        path: of the route.
        service: recognizes.
        talk: speaks the protocol; the socket is closed when it returns.
        subprotocol: that clients of the protocol ask for; None for none.
    """
    header = [(b"x-stream", b"exact" if service.streams.exact else b"by-pauses")]

    async def endpoint(socket: WebSocket) -> None:
        asked = socket.headers.get("sec-websocket-protocol", "")
        offered = [one.strip() for one in asked.split(",")]
        chosen = subprotocol if subprotocol in offered else None
        await socket.accept(chosen, header)
        code, reason = 1000, ""
        talking = Talk(socket, service.limits.stream_idle_s)
        try:
            if service.admission.draining:
                raise unavailable("stopping", "this server is stopping")
            with service.streams.slot():
                await talk(talking)
        except WebSocketDisconnect:
            return
        except RefusalError as refusal:
            code = POLICY if refusal.code == "idle" else CLOSE_CODES.get(refusal.status, POLICY)
            reason = refusal.message
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await talking.send({"error": reason})
        except Exception:
            logger.exception("a stream failed")
            code, reason = FAILED, "this server failed; its log has the reason"
        if socket.client_state is WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                cut = reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
                await socket.close(code, cut)

    return WebSocketRoute(path, endpoint)


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
    """Return a sample rate that a client states.

    Raises:
        RefusalError: it is none.
    """
    if isinstance(value, int | float) and 4000 <= value <= 192_000:
        return round(value)
    raise invalid(f"expected a sample rate of 4000 to 192000 Hz, received {value!r:.40}", "sample_rate")
