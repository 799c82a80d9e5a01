"""Put the recording page and its requests together into one application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from asr.server.protocols.health import operator_routes
from asr.server.recording.page.routes import recording_page_routes
from asr.server.recording.routes import recording_routes
from asr.server.recording.service import RecordingService
from asr.server.requests.error_answers import error_handlers
from asr.server.requests.gate import AccessMiddleware
from asr.server.requests.request_errors import RefusalError


def make_recording_app(service: RecordingService) -> ASGIApp:
    """Return the application of `asr record`."""
    routes = [*operator_routes(service), *recording_routes(service), *recording_page_routes()]
    app = Starlette(routes=routes, exception_handlers=error_handlers(refusal_of, _no_route))
    return AccessMiddleware(app, service.limits, service.metrics, refusal_of, service.keys)


def refusal_of(path: str, refusal: RefusalError) -> Response:
    """Return why a request is refused."""
    fields = {"code": refusal.code, "message": refusal.message}
    return JSONResponse({"error": fields}, refusal.status, refusal.headers)


def _no_route(request: Request, error: HTTPException) -> Response:
    asked = f"{request.method} {request.url.path:.200}"
    refusal = RefusalError(error.status_code, "not_found", f"{asked}: no such path, or not by this method")
    return refusal_of(request.url.path, refusal)
