"""Test `asr serve`: what it refuses before it loads a model, and how it starts and stops."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from helpers.object_storage import object_storage
from helpers.servers import LIMIT_S, server_process, wait_until

from asr.cli.main import main


def error_of(capsys, *arguments):
    assert main(["serve", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_other_hosts_need_a_token_or_a_clear_wish(exported, capsys):
    error = error_of(capsys, exported.folder, "--host", "0.0.0.0")
    assert "--token-file" in error
    assert "--insecure" in error


def test_port_in_use_is_named(exported, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = error_of(capsys, exported.folder, "--port", taken.getsockname()[1])
    assert "--port" in error
    assert "in use" in error


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
@pytest.mark.parametrize("port", [65_536, 99_999, -3])
def test_number_that_is_no_port_is_refused(exported, capsys, option, port):
    error = error_of(capsys, exported.folder, "--port", 0, "--no-browser", option, port)
    assert f"{option} {port}: expected a port" in error


def test_wrong_files_and_limits_are_named(exported, capsys, tmp_path):
    (tmp_path / "token").write_text("short\n")
    assert "at least 8" in error_of(capsys, exported.folder, "--token-file", tmp_path / "token")
    assert "cannot read this token" in error_of(capsys, exported.folder, "--token-file", tmp_path / "none")
    assert "--key" in error_of(capsys, exported.folder, "--cert", tmp_path / "token")
    assert "--max-queue 0" in error_of(capsys, exported.folder, "--max-queue", 0)
    assert "no run here" in error_of(capsys, tmp_path, "--port", 0)


def test_missing_packages_are_named_with_the_extra(exported):
    program = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from asr.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "serve", str(exported.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 2
    assert "polyphone[serve]" in done.stderr
    assert "Traceback" not in done.stderr


def test_grpc_port_in_use_ends_the_server_with_its_option(exported):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "asr", "serve", str(exported.folder), "--no-browser", "--port", "0"]
        command += ["--grpc-port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 2
    assert f"--grpc-port {port}: cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_exported_folder_is_served_without_tensorflow_and_drained(exported, clips, stop):
    data = Path(clips[0].audio_path).read_bytes()
    with server_process(exported.folder, "--name", "mine") as (process, address):
        assert "tensorflow" not in Path(f"/proc/{process.pid}/maps").read_text()
        host = urlsplit(address).netloc
        connection = http.client.HTTPConnection(host, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", "/v1/models")
            assert json.loads(connection.getresponse().read())["data"][0]["id"] == "mine"
            head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            body = head + data + b"\r\n--x--\r\n"
            connection.putrequest("POST", "/v1/audio/transcriptions")
            connection.putheader("Content-Type", "multipart/form-data; boundary=x")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body[:1000])
            wait_until(lambda: "asr_requests_in_progress 1.0" in metrics_of(host))
            process.send_signal(stop)
            wait_until_closed(host)
            connection.send(body[1000:])
            answer = connection.getresponse()
            assert answer.status == 200
            assert json.loads(answer.read())["text"]
        assert process.wait(LIMIT_S) == 0
        lines = process.stderr.read().splitlines()
        assert json.loads(lines[-1])["route"] == "/v1/audio/transcriptions"


@pytest.mark.slow
def test_exported_folder_in_a_bucket_is_served(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # of the server, with its copy of the folder
    with (
        object_storage() as bucket,
        server_process(bucket.put(exported.folder, "mine")) as (_, address),
        urllib.request.urlopen(f"{address}/v1/models", timeout=LIMIT_S) as answer,
    ):
        assert json.loads(answer.read())["data"][0]["id"] == "mine"


def metrics_of(host):
    with urllib.request.urlopen(f"http://{host}/metrics", timeout=LIMIT_S) as answer:
        return answer.read().decode()


def wait_until_closed(host):
    """Return when nothing listens there any more."""
    name, port = host.split(":")
    while True:
        try:
            socket.create_connection((name, int(port)), timeout=LIMIT_S).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # it was closing
