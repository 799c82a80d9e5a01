"""Answer the errors of an application's requests, each in the form of its path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from asr.server.requests.request_errors import RefusalError

Handler = Callable[[Request, Any], Awaitable[Response]]
RefusalForm = Callable[[str, RefusalError], Response]
"""Returns the answer to a request for a path."""


def error_handlers(
    form: RefusalForm, no_route: Callable[[Request, HTTPException], Response]
) -> Mapping[Any, Handler]:
    """Return the handlers of an application's errors.

    Args:
        form: words a refusal.
        no_route: answers a request that has no route, or not by its method.
    """

    async def refused(request: Request, refusal: RefusalError) -> Response:
        return form(request.url.path, refusal)

    async def unrouted(request: Request, error: HTTPException) -> Response:
        response = no_route(request, error)
        response.headers.update(error.headers or {})
        return response

    async def failed(request: Request, error: Exception) -> Response:
        # uvicorn logs the error, which Starlette raises again
        reason = "this server failed to answer; its log has the reason"
        return form(request.url.path, RefusalError(500, "server_error", reason))

    return {RefusalError: refused, HTTPException: unrouted, Exception: failed}
