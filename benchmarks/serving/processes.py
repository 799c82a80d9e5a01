"""Start the servers that are measured, each in a process of its own, and ask what memory they have."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

SHERPA_SERVER = "sherpa-onnx-offline-websocket-server"  # of the package sherpa-onnx-bin
START_LIMIT_S = 120.0


@dataclass(frozen=True)
class Started:
    """A server that runs.

    Attributes:
        address: of HTTP.
        grpc_address: empty for none.
        seconds: from its start until it was ready.
        process: of the server.
        log: what it writes on standard error.
    """

    address: str
    grpc_address: str
    seconds: float
    process: subprocess.Popen[str]
    log: Path


@contextlib.contextmanager
def asr_serve(model: Path, *options: str) -> Iterator[Started]:
    """Run `asr serve` with any free port for the time of a block."""
    command = [sys.executable, "-m", "asr", "serve", str(model), "--port", "0", "--no-browser", *options]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with path.open("w") as log:
            began_s = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        with process, _ended(process):
            assert process.stdout is not None
            found = re.search(r"is served at (\S+)", process.stdout.readline())
            if not found:
                sys.exit(f"the server did not start: {path.read_text()}")
            with urlopen(f"{found[1]}/health/ready") as answer:
                assert answer.status == 200
            seconds = time.monotonic() - began_s
            grpc_address = _grpc_address(process) if "--grpc-port" in options else ""
            yield Started(found[1], grpc_address, seconds, process, path)


def _grpc_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("# gRPC"):
            return process.stdout.readline().strip()
    return ""


@contextlib.contextmanager
def sherpa_serve(folder: Path) -> Iterator[str | None]:
    """Run sherpa-onnx's server for the time of a block; yield its address, None where it is not installed."""
    if shutil.which(SHERPA_SERVER) is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        SHERPA_SERVER,
        f"--port={port}",
        f"--tokens={folder / 'tokens.txt'}",
        f"--omnilingual-asr-model={folder / 'model.onnx'}",
        f"--rule-fsts={folder / 'hanzi.fst'}",
        "--num-work-threads=2",
        "--max-batch-size=32",
        f"--log-file={folder / 'server.log'}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with process, _ended(process):
        _wait_for(port)
        yield f"ws://127.0.0.1:{port}"


def _wait_for(port: int) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    sys.exit(f"{SHERPA_SERVER} did not start")


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def memory_mb(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024 / 1e6  # type: ignore[index]
