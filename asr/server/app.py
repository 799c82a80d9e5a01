"""Put the protocols together into one application.

A protocol is a module with a function that returns its routes, and one that words a refusal; both are listed
here. Its handlers raise `RefusalError`, and do their work within a ticket of `service.admission`.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from asr.server.asrt_http import asrt_refusal, asrt_routes
from asr.server.funasr_socket import funasr_routes
from asr.server.gate import PAGE_FOLDER, Gate
from asr.server.openai_http import openai_refusal, openai_routes
from asr.server.operators import operator_routes
from asr.server.page.routes import page_routes
from asr.server.refusal import RefusalError
from asr.server.service import RecognitionService
from asr.server.vosk_socket import vosk_routes


def make_app(service: RecognitionService, token: str = "", origins: Collection[str] = ()) -> ASGIApp:
    """Return the application of a server.

    Args:
        service: recognizes.
        token: that clients must send; empty for none.
        origins: sites whose pages may use the server.
    """
    makers = (operator_routes, openai_routes, page_routes, asrt_routes, vosk_routes, funasr_routes)
    routes = [route for make in makers for route in make(service)]
    handlers = {RefusalError: _refused, HTTPException: _not_found, Exception: _failed}
    app: ASGIApp = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    if origins:
        app = CORSMiddleware(app, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])
    return Gate(app, service.limits, service.metrics, refusal_of, token, origins)


def refusal_of(path: str, refusal: RefusalError) -> Response:
    """Return the answer to a refused request, in the form of the path's protocol."""
    in_openais_form = path.startswith(("/v1/", PAGE_FOLDER))
    return openai_refusal(refusal) if in_openais_form else asrt_refusal(refusal)


async def _refused(request: Request, refusal: RefusalError) -> Response:
    return refusal_of(request.url.path, refusal)


async def _not_found(request: Request, error: HTTPException) -> Response:
    reason = f"{request.method} {request.url.path}: {error.detail}"
    return refusal_of(request.url.path, RefusalError(404, "not_found", reason))


async def _failed(request: Request, error: Exception) -> Response:
    # uvicorn logs the error, which Starlette raises again
    reason = "this server failed to answer; its log has the reason"
    return refusal_of(request.url.path, RefusalError(500, "server_error", reason))
