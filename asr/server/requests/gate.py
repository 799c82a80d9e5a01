"""Guard an application: who may use it, for how long, and how many at a time; log and count what it answers.

A page of another site that a browser shows can send requests to this machine, also by WebSocket. Those carry
the header Origin, and are refused unless their origin was allowed. If its name is bound to this machine's own
address after it was loaded (DNS rebinding), the page and the server have one origin; but then the header Host
has that name, which is refused where the address is all that protects a server.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import logging
import time
from collections.abc import Callable, Collection
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asr.server.metrics import Metrics
from asr.server.requests.limits import Limits
from asr.server.requests.request_errors import RefusalError, unavailable

logger = logging.getLogger(__name__)

OPEN_PATHS = ("/health/live", "/health/ready")  # that need no token
PAGE_FOLDER = "/page/"  # served without a token, as the page itself, which asks for one
READING = ("GET", "HEAD", "OPTIONS")
TOKEN_PROTOCOL = "bearer."  # begins the subprotocol that holds a token in base64, with - and _, without =
REFUSED_CLOSE_CODE = 1008  # of a WebSocket: policy violation
BUSY_CLOSE_CODE = 1013  # try again later


class AccessMiddleware:
    """The checks before an ASGI application.

    Args:
        app: to guard.
        limits: of the server.
        metrics: in which answers are counted.
        form: words a refusal.
        tokens: one of which requests must carry as `Authorization: Bearer TOKEN` or `?token=TOKEN`,
            WebSockets also as a subprotocol; empty if none is needed.
        origins: sites whose pages may use the server, such as "https://example.org", also as a name of it.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        form: Callable[[str, RefusalError], ASGIApp],
        tokens: Collection[str],
        origins: Collection[str] = (),
    ) -> None:
        self._app, self._limits, self._metrics, self._form = app, limits, metrics, form
        self._tokens, self._origins = [token.encode() for token in tokens], origins
        self._num_open = 0
        metrics.watch("asr_open_connections", "Requests and streams that are open", lambda: self._num_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or serve a WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        self._num_open += 1
        answer = _GateAnswer(send)
        try:
            await self._guarded(scope, receive, answer)
        finally:
            self._num_open -= 1
            self._report(scope, answer)

    async def _guarded(self, scope: Scope, receive: Receive, answer: _GateAnswer) -> None:
        try:
            self._check(scope)
            if scope["type"] == "websocket":
                await self._app(scope, receive, answer)
                return
            async with asyncio.timeout(self._limits.request_timeout_s):
                await self._app(scope, receive, answer)
        except RefusalError as refusal:
            await self._refuse(scope, receive, answer, refusal)
        except TimeoutError:
            late = (
                f"not answered within {self._limits.request_timeout_s:g} s; retry later, or cut the recording"
            )
            await self._refuse(scope, receive, answer, unavailable("timeout", late))

    async def _refuse(
        self, scope: Scope, receive: Receive, answer: _GateAnswer, refusal: RefusalError
    ) -> None:
        if answer.status:
            return  # it has begun; what is missing shows the client that it is cut
        if scope["type"] == "websocket":
            code = BUSY_CLOSE_CODE if refusal.status == 503 else REFUSED_CLOSE_CODE
            await answer({"type": "websocket.close", "code": code, "reason": refusal.message[:120]})
            return
        await self._form(scope["path"], refusal)(scope, receive, answer)

    def _check(self, scope: Scope) -> None:
        """Raise a RefusalError if the request may not be answered."""
        headers = Headers(scope=scope)
        if self._num_open > self._limits.max_connections:
            raise unavailable("busy", f"{self._limits.max_connections} connections are open; retry later")
        origin = headers.get("origin")
        reads = scope["type"] == "http" and scope["method"] in READING
        if origin and not reads and not self._is_allowed(origin, headers.get("host", "")):
            raise RefusalError(403, "origin", f"pages of {origin} may not use this server; allow that origin")
        host = headers.get("host", "")
        if host and not self._tokens and _is_loopback(scope) and not self._is_known(host):
            reason = f"expected a request for localhost, received one for {host:.80}; allow its origin"
            raise RefusalError(403, "host", reason)
        if self._needs_token(scope) and not self._has_token(scope):
            raise RefusalError(401, "invalid_api_key", "expected this server's token (Authorization: Bearer)")

    def _needs_token(self, scope: Scope) -> bool:
        asks_what_is_allowed = scope.get("method") == "OPTIONS"  # browsers do, without a token
        path, reads = scope["path"], scope.get("method") in ("GET", "HEAD")
        is_page = reads and (path == "/" or path.startswith(PAGE_FOLDER))
        return bool(self._tokens) and not (path in OPEN_PATHS or asks_what_is_allowed or is_page)

    def _is_allowed(self, origin: str, host: str) -> bool:
        return origin in self._origins or "*" in self._origins or origin.partition("://")[2] == host

    def _is_known(self, host: str) -> bool:
        names = map(_host_of, self._origins)
        return is_local(_host_of(f"//{host}")) or "*" in self._origins or _host_of(f"//{host}") in names

    def _has_token(self, scope: Scope) -> bool:
        sent = sent_token(scope).encode()
        return any(hmac.compare_digest(sent, token) for token in self._tokens)

    def _report(self, scope: Scope, answer: _GateAnswer) -> None:
        method, route = scope.get("method", "WEBSOCKET"), getattr(scope.get("route"), "path", "other")
        client = (scope.get("client") or ("",))[0]
        report(self._metrics, method, route, answer.status, answer.began_s, client)


def report(metrics: Metrics, method: str, route: str, status: int, began_s: float, client: str) -> None:
    """Count and log an answer.

    Args:
        metrics: in which it is counted.
        method: of the request.
        route: of the request.
        status: of HTTP; 0 where there is none.
        began_s: `time.monotonic` at the beginning of the request.
        client: address of the client.
    """
    seconds = time.monotonic() - began_s
    metrics.answered(route, status, seconds)
    fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 4)}
    logger.info("request", extra={"fields": {**fields, "client": client}})


def sent_token(scope: Scope) -> str:
    """Return the token that a request or a WebSocket carries; empty for none."""
    headers = Headers(scope=scope)
    kind, _, sent = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        sent = _token_of_protocols(headers) or _token_of_query(scope)
    return sent.strip()


def _host_of(address: str) -> str:
    """Return the name in an address, without the port; empty where there is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_loopback(scope: Scope) -> bool:
    """Return whether a request came to an address that only this machine can reach."""
    address, _ = scope.get("server") or ("", None)
    return is_local(address or "")


def _token_of_query(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("token", [""])[-1]


def _token_of_protocols(headers: Headers) -> str:
    """Return the token among the subprotocols of a WebSocket, for which browsers can set no other header."""
    offered = (one.strip() for one in headers.get("sec-websocket-protocol", "").split(","))
    found = (one.removeprefix(TOKEN_PROTOCOL) for one in offered if one.startswith(TOKEN_PROTOCOL))
    encoded = next(found, "")
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except ValueError:
        return ""


class _GateAnswer:
    """An answer that is being sent, and its status: 0 while there is none, 101 for a WebSocket."""

    def __init__(self, send: Send) -> None:
        self._send, self.status, self.began_s = send, 0, time.monotonic()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a host name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
