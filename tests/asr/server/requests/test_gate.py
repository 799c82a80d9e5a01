"""Test who may use a server: by token, and from which pages."""

import base64
import contextlib
import http.client
import json
import logging
import socket
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import openai
import pytest
from helpers.servers import LIMIT_S, server_in_thread, wait_until
from helpers.speech_sockets import open_socket

from asr.server.logs import JsonFormatter
from asr.server.requests.gate import is_local

TOKEN = "a secret of some length"


@pytest.fixture(scope="module")
def guarded(recognizer):
    with server_in_thread(recognizer, TOKEN, ["https://example.org"]) as (_, address):
        yield address


def status_of(address, path, method="POST", **headers):
    request = urllib.request.Request(f"{address}{path}", b"" if method == "POST" else None, headers)
    request.method = method
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_token_opens_the_server_to_openais_client(guarded):
    with openai.OpenAI(base_url=f"{guarded}/v1", api_key=TOKEN, max_retries=0) as client:
        assert client.models.list().data
    with openai.OpenAI(base_url=f"{guarded}/v1", api_key="another", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.models.list()
        assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize("path", ["/", "/all", "/metrics", "/v1/models", "/v1/audio/transcriptions"])
def test_every_path_needs_the_token_except_those_of_health(guarded, path):
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Basic {TOKEN}"}):
        assert status_of(guarded, path, **headers)[0] == 401
    assert status_of(guarded, f"{path}?token={TOKEN.replace(' ', '%20')}")[0] != 401
    assert status_of(guarded, "/health/live", "GET")[0] == 200


def test_page_is_read_without_the_token_that_it_asks_for(guarded):
    status, headers, page = status_of(guarded, "/", "GET")
    assert (status, TOKEN.encode() in page) == (200, False)
    assert b"Authorization: Bearer TOKEN" in page
    assert b"none" not in page
    assert status_of(guarded, "/page/main.js", "GET")[1]["Content-Type"].startswith("text/javascript")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert status_of(guarded, "/page/transcribe")[0] == 401
    assert status_of(guarded, "/v1/models", "GET")[0] == 401


def test_pages_of_other_sites_may_not_use_the_server(address, guarded):
    assert status_of(address, "/", Origin="https://elsewhere.example")[0] == 403
    assert status_of(address, "/", Origin="null")[0] == 403
    assert status_of(address, "/", Origin=address)[0] == 200
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    status, headers, _ = status_of(guarded, "/", Origin="https://example.org", **bearer)
    assert (status, headers["Access-Control-Allow-Origin"]) == (200, "https://example.org")
    assert "Access-Control-Allow-Origin" not in status_of(address, "/", Origin=address)[1]


def test_page_of_an_allowed_site_may_ask_what_is_allowed(guarded):
    asking = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    status, headers, _ = status_of(
        guarded, "/all", "OPTIONS", **asking, **{"Access-Control-Request-Headers": "authorization"}
    )
    assert status == 200
    assert headers["Access-Control-Allow-Headers"] == "authorization"


def test_page_of_an_allowed_site_may_read_why_it_is_refused(guarded, recognizer):
    site = "https://example.org"
    status, headers, _ = status_of(guarded, "/v1/models", "GET", Origin=site)
    assert (status, headers["Access-Control-Allow-Origin"]) == (401, site)
    with (
        server_in_thread(recognizer, origins=[site], max_queue=1) as (service, address),
        service.admission.ticket(),
    ):
        status, headers, _ = status_of(address, "/all", Origin=site)
    assert (status, headers["Access-Control-Expose-Headers"]) == (429, "Retry-After")


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_only_this_machine_can_reach_its_own_address(host, local):
    assert is_local(host) == local


def test_log_is_json_without_the_token(guarded, caplog):
    gate = "asr.server.requests.gate"

    def found():  # neither uvicorn's records nor those of earlier requests, written after their answers
        return [
            one
            for one in caplog.records
            if one.name == gate and (one.fields["method"], one.fields["route"]) == ("POST", "/all")
        ]

    with caplog.at_level(logging.INFO, gate):
        status_of(guarded, "/all?token=wrong", Authorization=f"Bearer {TOKEN}")
        wait_until(found)
    (record,) = found()
    line = JsonFormatter().format(record)
    fields = json.loads(line)
    assert (fields["level"], fields["message"], fields["status"]) == ("info", "request", 200)
    assert TOKEN not in line


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:20001", "127.0.0.1.evil.example", "[::1", "10.0.0.1"]
)
def test_name_that_was_bound_to_this_machine_is_refused(address, host):
    for path, method in (("/", "GET"), ("/v1/models", "GET"), ("/metrics", "GET"), ("/all", "POST")):
        status, _, body = status_of(address, path, method, Host=host, Origin=f"http://{host}")
        assert status == 403, body


def test_names_of_this_machine_and_of_allowed_sites_are_accepted(address, recognizer):
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:20001", "[::1]:20001"):
        assert status_of(address, "/v1/models", "GET", Host=host)[0] == 200
    with server_in_thread(recognizer, origins=["https://example.org"]) as (_, behind_proxy):
        assert status_of(behind_proxy, "/v1/models", "GET", Host="example.org")[0] == 200
        assert status_of(behind_proxy, "/v1/models", "GET", Host="evil.example")[0] == 403


def test_name_is_free_where_a_token_protects_the_server(guarded):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert status_of(guarded, "/v1/models", "GET", Host="asr.example", **bearer)[0] == 200
    assert status_of(guarded, "/v1/models", "GET", Host="asr.example")[0] == 401


def own_address():
    """Return the address at which other machines reach this one; that of loopback where none can."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outwards:
        try:
            outwards.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return outwards.getsockname()[0]


@pytest.mark.skipif(is_local(own_address()), reason="no other machine reaches this one")
def test_name_is_free_where_other_machines_reach_the_server(recognizer):
    with server_in_thread(recognizer, host=own_address()) as (_, address):
        assert status_of(address, "/v1/models", "GET", Host="asr.example")[0] == 200


def test_stream_at_a_foreign_name_is_refused(address):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
    for host, status in (("evil.example", 403), ("localhost", 101)):
        with contextlib.closing(connection):
            connection.request("GET", "/vosk", headers={"Host": host, **upgrade})
            assert connection.getresponse().status == status


def test_stream_carries_the_token_as_a_subprotocol(guarded):
    from websockets.exceptions import InvalidStatus

    encoded = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    with open_socket(guarded, "/vosk", subprotocols=["vosk", f"bearer.{encoded}"]) as client:
        assert client.subprotocol == "vosk"
    for wrong in ("bearer.", "bearer.!", f"bearer.{encoded}A"):
        with pytest.raises((InvalidStatus, ValueError)):
            open_socket(guarded, "/vosk", subprotocols=["vosk", wrong])
