"""Answer operators: whether the server lives and is ready, and its counters."""

from __future__ import annotations

from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from asr.server.metrics import Metrics
from asr.server.requests.admission import Admission


class Watched(Protocol):
    """A service that operators watch.

    Attributes:
        admission: the requests in progress.
        metrics: the counters.
    """

    admission: Admission
    metrics: Metrics

    @property
    def status(self) -> dict[str, Any]:
        """Return what operators are shown of a server that is ready."""


def operator_routes(service: Watched) -> list[BaseRoute]:
    """Return `/health/live`, `/health/ready` and `/metrics`.

    The server listens once its model is loaded; it is not ready while it stops.
    """

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if service.admission.draining:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok", **service.status})

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/health/live", live), Route("/health/ready", ready), Route("/metrics", metrics)]
