"""Test connecting to a scheduler, and what is none, in processes of their own, which must end in time."""

import contextlib
import json
import socket
import subprocess
import sys
import threading

import pytest
from helpers import ROOT
from helpers.dask_cluster import dask_cluster
from helpers.processes import free_ports

pytest.importorskip("distributed", reason="needs the extra cluster")

LIMIT_S = 240  # far more than it takes; a client that waits for its scheduler does not end
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from asr.base.errors import UserError
from asr.base.system.scheduler import scheduler_client
def error_of(address):
    try:
        scheduler_client(address).close()
    except UserError as error:
        return error
with ThreadPoolExecutor(len(sys.argv)) as pool:
    for error in pool.map(error_of, sys.argv[1:]):
        print(error, file=sys.stderr)
"""


def errors_of(addresses, folder):
    """Return the line that a program prints about each address to which it connects, all at once."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *addresses],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return dict(zip(addresses, done.stderr.splitlines(), strict=True))


@contextlib.contextmanager
def server(answer):
    """Return the address of a server that is none of Dask's."""

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connections.append(listening.accept()[0])
                connections[-1].sendall(answer)

    connections = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()


def test_what_is_no_address_is_one_line_with_the_remedy(tmp_path):
    (tmp_path / "text.txt").write_text("text")
    (tmp_path / "other.json").write_text(json.dumps({"id": 1}))
    problems = {
        "": "is empty; expected an address",
        "nonsense": "no such file; expected an address",
        "missing.json": "no such file; expected an address",
        "tcp://127.0.0.1": "expected an address",
        "http://127.0.0.1:8911": "expected an address",
        "text.txt": "no scheduler file",
        "other.json": "no scheduler file",
    }
    for address, line in errors_of(problems, tmp_path).items():
        assert line.startswith(f"`cluster={address}`: {problems[address]}")


def test_what_is_no_server_of_dask_is_one_line_with_the_remedy(tmp_path):
    (port,) = free_ports(1)
    with (
        server(b"") as silent,
        server(b"SSH-2.0-OpenSSH_9.6\r\n") as ssh,
        server(b"HTTP/1.0 400 Bad Request\r\n\r\n") as http,
    ):
        lines = errors_of([silent, ssh, http, f"tcp://127.0.0.1:{port}"], tmp_path)
    for address, line in lines.items():
        assert line.startswith(f"`cluster={address}`: no scheduler answers (")
        assert "start one with `dask scheduler`, or correct the address" in line


def test_scheduler_is_connected_and_a_worker_is_refused(tmp_path):
    with dask_cluster(tmp_path, 1) as running:
        log = (tmp_path / "log").read_text()
        worker = log.partition("Start worker at:")[2].split()[0]
        lines = errors_of([running.address, "scheduler.json", worker], tmp_path)
    assert lines == {
        running.address: "None",
        "scheduler.json": "None",
        worker: f"`cluster={worker}`: is the address of a worker, expected a scheduler's",
    }
