"""Test that names of uvicorn and starlette that are not documented exist, and are used in three modules."""

import asyncio
import re

import uvicorn
from helpers import ROOT
from starlette.formparsers import MultiPartParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from asr.server.requests.connections import Connection
from asr.server.serving import Server

USERS = {
    "serving.py": ["uvicorn"],
    "connections.py": ["uvicorn"],
    "request_body.py": ["starlette.formparsers"],
}
CONFIG = uvicorn.Config(app=lambda *_: None)


def overridden(cls):
    """Return the methods by which a class replaces those of its bases."""
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    return {name for name in vars(cls) if name in inherited and not name.startswith("__")}


def test_methods_that_a_connection_overrides_are_called_by_uvicorn():
    parsed = {
        "on_message_begin",
        "on_url",
        "on_header",
        "on_headers_complete",
        "on_body",
        "on_message_complete",
    }
    others = {"connection_made", "data_received", "on_response_complete", "send_400_response"}
    assert overridden(Connection) == parsed | others


def test_methods_that_the_server_overrides_are_called_by_uvicorn():
    assert overridden(Server) == {"startup", "shutdown", "capture_signals", "handle_exit"}


def test_attributes_that_a_connection_reads_exist():
    async def attributes():
        CONFIG.load()
        return vars(HttpToolsProtocol(CONFIG, ServerState(), {}))

    assert {"cycle", "connections", "loop", "transport"} <= set(asyncio.run(attributes()))


def test_attributes_that_the_server_sets_exist():
    server = uvicorn.Server(CONFIG)
    assert {"should_exit", "force_exit", "config"} <= set(vars(server))
    assert isinstance(CONFIG.timeout_graceful_shutdown, int | None)


def test_parser_of_forms_keeps_small_files_in_memory_by_an_attribute():
    assert isinstance(MultiPartParser.spool_max_size, int)


def test_other_modules_use_neither_uvicorn_nor_the_parser_of_forms():
    imports = re.compile(r"^\s*(?:import|from) (uvicorn|starlette\.formparsers)\b", re.MULTILINE)
    files = ((path, imports.findall(path.read_text("utf-8"))) for path in (ROOT / "asr").rglob("*.py"))
    assert {path.name: used for path, used in files if used} == USERS
