"""Serves the folders below a folder as buckets, to whoever speaks S3's protocol; it counts the requests.

python -m benchmarks.training.object_server FOLDER PORT LATENCY_MS
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from pathlib import Path

from aiohttp import web


def main() -> None:
    folder, port, latency_ms = sys.argv[1:]
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", Answers(Path(folder), float(latency_ms) / 1000).answer)
    web.run_app(application, host="127.0.0.1", port=int(port), print=None, access_log=None)


class Answers:
    """The answers for an object, or a range of it, each after the latency."""

    def __init__(self, folder: Path, latency_s: float) -> None:
        self._folder, self._latency_s = folder, latency_s
        self._num_asked = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/requests":
            return web.Response(text=str(self._num_asked))
        self._num_asked += 1
        await asyncio.sleep(self._latency_s)
        path = self._folder / request.path.lstrip("/")
        if not path.is_file():
            return web.Response(status=404)
        size = path.stat().st_size
        headers = {"ETag": f'"{hashlib.md5(str(path).encode()).hexdigest()}"', "Accept-Ranges": "bytes"}
        if request.method == "HEAD":
            return web.Response(headers=headers | {"Content-Length": str(size)})
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        begin, end = (int(wanted[1]), min(int(wanted[2]) + 1, size)) if wanted else (0, size)
        with path.open("rb") as file:
            file.seek(begin)
            body = file.read(end - begin)
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        return web.Response(status=206 if wanted else 200, body=body, headers=headers)


if __name__ == "__main__":
    main()
