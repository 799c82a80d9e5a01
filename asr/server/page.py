"""Show people what the server is, and how to call it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from asr.server.examples import example_calls
from asr.server.service import RecognitionService


def page_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return the route of the page."""

    async def page(request: Request) -> Response:
        from asr.pages.page import render

        address = str(request.base_url).rstrip("/")
        calls = example_calls(address, service.name, "authorization" in request.headers)
        return HTMLResponse(render("asr.server", "home.html", name=service.name, calls=calls))

    return [Route("/", page, methods=["GET"])]
