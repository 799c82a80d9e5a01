"""Start servers: in this process, with limits of your own, or by the command."""

import asyncio
import contextlib
import re
import subprocess
import sys
import threading
import time

from asr.server.app import make_app
from asr.server.protocols.asrt_grpc import AsrtGrpc
from asr.server.requests.limits import Limits
from asr.server.service import RecognitionService
from asr.server.serving import Server, address_of, listen, uvicorn_config
from data_pipeline.labels.from_text import label

LIMIT_S = 120  # far more than a busy machine needs


def wait_until(condition):
    """Return once a condition holds."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.01)


def call_in_time(function):
    """Call a function that must return within a time, so that a test fails where it does not."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"{function} does not return"


@contextlib.contextmanager
def server_in_thread(recognizer, token="", origins=(), host="127.0.0.1", **limits):
    """Yield the service and the address of a server in a thread of this process."""
    service = RecognitionService(recognizer, "model", Limits(**limits), label)
    with app_in_thread(make_app(service, token, origins), service, host) as address:
        yield service, address


@contextlib.contextmanager
def app_in_thread(app, service, host="127.0.0.1"):
    """Yield the address of a server of an application in a thread; its service is closed in the end."""
    ready = threading.Event()
    with contextlib.closing(listen(host, 0)) as listening:
        address = address_of(listening, host, None)
        server = Server(uvicorn_config(app, service.limits, None), service, ready.set)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        assert ready.wait(LIMIT_S)
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(LIMIT_S)
            call_in_time(service.close)
            assert not thread.is_alive()


@contextlib.contextmanager
def grpc_server(recognizer, token="", **limits):
    """Yield the port of ASRT's gRPC interface, served in a thread, which is drained in the end."""
    service = RecognitionService(recognizer, "model", Limits(**limits))
    with contextlib.closing(service), grpc_port_of(service, token) as port:
        yield port
        service.admission.draining = True


@contextlib.contextmanager
def grpc_port_of(service, token=""):
    """Yield the port of ASRT's gRPC interface to a service, served in a thread."""
    ready, started = threading.Event(), []

    async def run():
        stopped = asyncio.Event()
        server = AsrtGrpc(service, "127.0.0.1", 0, token)
        await server.start()
        started.append((asyncio.get_running_loop(), stopped, server.port))
        ready.set()
        await stopped.wait()
        await asyncio.gather(server.stop(), service.streams.stop_all(LIMIT_S))

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(LIMIT_S)
    ((loop, stopped, port),) = started
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(LIMIT_S)


@contextlib.contextmanager
def server_process(*arguments):
    """Yield the process of `asr serve` and its address, once it answers."""
    command = [sys.executable, "-m", "asr", "serve", *map(str, arguments), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            found = re.search(r"is served at (\S+)", line)
            assert found, f"{line}{process.stderr.read() if process.poll() is not None else ''}"
            yield process, found[1]
        finally:
            process.kill()
