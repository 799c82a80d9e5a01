"""Serve files over HTTP as OpenSLR does: with ranges, tags, and connections that break."""

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override


class ArchiveServer(http.server.ThreadingHTTPServer):
    """A server of files by their paths.

    Args:
        files: by path.
        cut: a part of paths for whose files the first answer ends in the middle; none if it is empty.
    """

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], *, cut: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.cut = files, cut
        self.asked: list[tuple[str, int]] = []  # path and first byte of each request

    @property
    def address(self) -> str:
        """Return the address that precedes the paths."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        content = self.server.files.get(path)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(wanted[1]) if wanted else 0
        is_first = path not in [asked for asked, _ in self.server.asked]
        self.server.asked.append((path, begin))
        if content is None:
            self.send_error(404)
            return
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", f'"{len(content)}"')
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        is_cut = is_first and self.server.cut and self.server.cut in path
        end = len(content) // 2 if is_cut else len(content)
        self.wfile.write(content[begin:end])

    @override
    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def archive_server(files: Mapping[str, bytes], *, cut: str = "") -> Iterator[ArchiveServer]:
    """Serve files until the block ends; see `ArchiveServer`."""
    with ArchiveServer(files, cut=cut) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
