"""Serve the files of pages, with headers that let them load nothing from elsewhere."""

from __future__ import annotations

import mimetypes
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from asr.server.requests.gate import PAGE_FOLDER
from asr.server.requests.request_errors import RefusalError

SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "media-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": SECURITY_POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def file_route(*packages: str) -> BaseRoute:
    """Return the route of the files in the folders `static` of packages."""
    folders = [files(package) / "static" for package in packages]
    contents = {file.name: file.read_bytes() for folder in folders for file in folder.iterdir()}

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in contents:
            raise RefusalError(404, "not_found", f"the page has no file {name!r:.40}")
        return Response(contents[name], headers=HEADERS, media_type=mimetypes.guess_type(name)[0])

    return Route(f"{PAGE_FOLDER}{{name}}", file, methods=["GET"])
