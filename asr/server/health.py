"""Answer operators: whether the server lives and is ready, and its counters."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from asr.server.service import RecognitionService


def operator_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return `/health/live`, `/health/ready` and `/metrics`.

    The server listens once its model is loaded; it is not ready while it stops.
    """

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if service.admission.draining:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok", "model": service.name, "exact_streams": service.streams.exact})

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/health/live", live), Route("/health/ready", ready), Route("/metrics", metrics)]
