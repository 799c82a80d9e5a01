"""Put the protocols together into one application.

A protocol is a module with a function that returns its routes, and one that words a refusal; both are listed
here. Its handlers raise `RefusalError`, and do their work within a ticket of `service.admission`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from asr.server.page.routes import page_routes
from asr.server.protocols.asrt_http import PATHS, asrt_refusal, asrt_routes, is_unknown_level, unknown_level
from asr.server.protocols.health import operator_routes
from asr.server.protocols.openai_http import openai_refusal, openai_routes
from asr.server.protocols.stream_routes import stream_routes
from asr.server.requests.error_answers import error_handlers
from asr.server.requests.gate import AccessMiddleware
from asr.server.requests.request_errors import RefusalError
from asr.server.service import RecognitionService


def make_app(service: RecognitionService, token: str = "", origins: Collection[str] = ()) -> ASGIApp:
    """Return the application of a server.

    Args:
        service: recognizes.
        token: that clients must send; empty for none.
        origins: sites whose pages may use the server.
    """
    page = functools.partial(page_routes, needs_token=bool(token))
    makers = (operator_routes, openai_routes, page, asrt_routes, stream_routes)
    routes = [route for make in makers for route in make(service)]
    app: ASGIApp = Starlette(routes=routes, exception_handlers=error_handlers(refusal_of, _no_route))
    tokens = [token] if token else []

    def readable(answer: ASGIApp) -> ASGIApp:
        """Return an answer that pages of the sites may read, the gate's refusals included."""
        if not origins:
            return answer
        every, shown = ["*"], ["Retry-After"]
        return CORSMiddleware(answer, origins, allow_methods=every, allow_headers=every, expose_headers=shown)

    def gate_refusal(path: str, refusal: RefusalError) -> ASGIApp:
        return readable(refusal_of(path, refusal))

    return AccessMiddleware(readable(app), service.limits, service.metrics, gate_refusal, tokens, origins)


def refusal_of(path: str, refusal: RefusalError) -> Response:
    """Return the answer to a refused request, in the form of the path's protocol."""
    return asrt_refusal(refusal) if path in PATHS else openai_refusal(refusal)


def _no_route(request: Request, error: HTTPException) -> Response:
    asked = f"{request.method} {request.url.path:.200}"
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        refusal = RefusalError(405, "method_not_allowed", f"{asked}: expected {allowed}")
    elif is_unknown_level(request):
        return unknown_level()
    else:
        reason = "no such path; transcriptions are made by /v1/audio/transcriptions"
        refusal = RefusalError(404, "not_found", f"{asked}: {reason} (base URL: {request.base_url}v1)")
    return refusal_of(request.url.path, refusal)
