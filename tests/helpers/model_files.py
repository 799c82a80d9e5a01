"""Model files that no run is needed for, and a server of files that resumes as real servers do."""

import contextlib
import hashlib
import http.server
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

CHECKPOINT = "checkpoints/epoch-0003.npz"
CONFIG = '[features]\nkind = "log_mel"\n[model]\nfamily = "separable"\n'
VOCABULARY = "<blank>\nhao3\nni3\n"


def weights_of(**arrays: object) -> bytes:
    """Return the bytes of a checkpoint with these arrays, or with one of its own."""
    file = io.BytesIO()
    np.savez(file, **(arrays or {"about": np.zeros(3, np.uint8), "kernel": np.ones((2, 5), np.float32)}))
    return file.getvalue()


def members_of(weights: bytes | None = None, **about: object) -> dict[str, bytes]:
    """Return the members of a whole model file by name; `about` changes what it says about itself."""
    weights = weights_of() if weights is None else weights
    digest = hashlib.sha256(weights).hexdigest()
    says = {
        "format": "polyphone",
        "file_version": 1,
        "polyphone": "9.9",
        "run": "small",
        "recognizes": True,
        "dev_error_rate": 0.25,
        "weights_sha256": digest,
        **about,
    }
    return {
        "model.json": json.dumps(says).encode(),
        "config.toml": CONFIG.encode(),
        "vocabulary.txt": VOCABULARY.encode(),
        CHECKPOINT: weights,
    }


def write_members(path: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write members as one file."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked, begin = self.headers.get("Range", ""), 0
        self.server.asked.append((self.path, asked))
        content = self.server.files.get(self.path.partition("?")[0])
        if content is None:
            self.send_error(404)
            return
        if wanted := re.fullmatch(r"bytes=(\d+)-", asked):
            begin = int(wanted[1])
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        end = len(content)
        if self.server.cuts:
            end = begin + self.server.cuts.pop(0)
        self.wfile.write(content[begin:end])

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(files: Mapping[str, bytes]) -> Iterator[http.server.ThreadingHTTPServer]:
    """Serve files by their paths; each number in the server's `cuts` is that of the bytes of an answer."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.files, server.asked, server.cuts = dict(files), [], []
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
