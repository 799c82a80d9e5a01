"""Put the recording page and its requests together into one application."""

from __future__ import annotations

from collections.abc import Collection

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from asr.server.protocols.health import operator_routes
from asr.server.recording.page.routes import recording_page_routes
from asr.server.recording.routes import recording_routes
from asr.server.recording.service import RecordingService
from asr.server.requests.gate import AccessMiddleware
from asr.server.requests.request_errors import RefusalError


def make_recording_app(service: RecordingService, origins: Collection[str] = ()) -> ASGIApp:
    """Return the application of `asr record`.

    Args:
        service: answers.
        origins: sites as which the server is known, besides its own address.
    """
    routes = [*operator_routes(service), *recording_routes(service), *recording_page_routes()]
    handlers = {RefusalError: _refused, HTTPException: _no_route, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    return AccessMiddleware(app, service.limits, service.metrics, refusal_of, service.keys, origins)


def refusal_of(path: str, refusal: RefusalError) -> Response:
    """Return why a request is refused."""
    fields = {"code": refusal.code, "message": refusal.message}
    return JSONResponse({"error": fields}, refusal.status, refusal.headers)


async def _refused(request: Request, refusal: RefusalError) -> Response:
    return refusal_of(request.url.path, refusal)


async def _no_route(request: Request, error: HTTPException) -> Response:
    asked = f"{request.method} {request.url.path:.200}"
    refusal = RefusalError(error.status_code, "not_found", f"{asked}: no such path, or not by this method")
    response = refusal_of(request.url.path, refusal)
    response.headers.update(error.headers or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    # uvicorn logs the error, which Starlette raises again
    reason = "this server failed to answer; its log has the reason"
    return refusal_of(request.url.path, RefusalError(500, "server_error", reason))
