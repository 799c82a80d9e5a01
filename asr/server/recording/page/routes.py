"""Serve the recording page at `/`, and its files, some of which are the transcription page's as well."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from asr.server.page.files import HEADERS, file_route


def recording_page_routes() -> list[BaseRoute]:
    """Return the routes of the page."""

    async def page(request: Request) -> Response:
        from asr.pages.page import render

        return HTMLResponse(render(__package__, "record.html"), headers=HEADERS)

    return [Route("/", page, methods=["GET"]), file_route("asr.server.page", __package__)]
