"""Test what runs the server on a machine: the Dockerfile, its packages, systemd's unit, and nginx's lines."""

import configparser
import contextlib
import http.client
import json
import re
import shlex
import subprocess
import sys
import tomllib
import urllib.request
from itertools import chain
from urllib.parse import urlsplit

import pytest
from helpers import ROOT
from helpers.servers import LIMIT_S, server_in_thread

from asr.cli.main import make_parser
from asr.server.requests.gate import OPEN_PATHS
from asr.server.requests.limits import Limits

FOLDER = ROOT / "docs" / "deploy"
IMPORTED_AS = {"pillow": "PIL"}
CONDITION = re.compile(r"\s*[<>=;\[].*")

SERVE = """
import sys
from asr.cli.main import main
missing = sys.argv[1].split(",")
class NotInstalled:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotInstalled)
main(["serve", sys.argv[2], "--port", "0", "--no-browser"])
"""


@pytest.fixture(scope="module")
def needed():
    """Return the requirements of the image."""
    lines = (FOLDER / "requirements.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


@pytest.fixture(scope="module")
def known():
    """Return all requirements of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())}


@pytest.fixture(scope="module")
def instructions():
    """Return the instructions of the Dockerfile with their arguments."""
    text = (FOLDER / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()]


def values(instructions, name):
    return [value for instruction, value in instructions if instruction == name]


def test_packages_are_those_of_the_project_without_tensorflow(needed, known):
    assert needed <= known
    assert not {"tensorflow", "keras"} & {CONDITION.sub("", one) for one in needed}


def test_server_answers_where_no_other_package_of_the_project_is_installed(needed, known, exported):
    names = {CONDITION.sub("", one) for one in known - needed}
    missing = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}
    command = [sys.executable, "-c", SERVE, ",".join(missing), exported.folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"is served at (\S+)", process.stdout.readline())
            assert found, process.stderr.read()
            for path in ("/", "/health/ready", "/v1/models", "/metrics"):
                with urllib.request.urlopen(f"{found[1]}{path}", timeout=60) as answer:
                    assert answer.status == 200
            body = json.dumps({"sequence_pinyin": ["ni3", "hao3"]}).encode()
            with urllib.request.urlopen(f"{found[1]}/language", body, timeout=60) as answer:
                assert json.load(answer)["result"] == "你好"
        finally:
            process.kill()


def test_what_is_copied_exists_and_is_not_ignored(instructions):
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for value in values(instructions, "COPY"):
        if value.startswith("--from"):
            continue
        *sources, _ = value.split()
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored


def test_image_runs_the_server_as_another_user_and_asks_whether_it_is_ready(instructions):
    (entry,), (options,) = values(instructions, "ENTRYPOINT"), values(instructions, "CMD")
    words = [*json.loads(entry), *json.loads(options)]
    assert words[0] == "asr"
    arguments = make_parser().parse_args(words[1:])
    assert values(instructions, "EXPOSE") == [str(arguments.port)]
    assert values(instructions, "USER")[-1] not in ("root", "0")
    (check,) = values(instructions, "HEALTHCHECK")
    path = re.search(rf"http://127\.0\.0\.1:{arguments.port}(/[\w/]+)", check)[1]
    assert path in OPEN_PATHS


def test_unit_runs_the_server_and_gives_it_time_to_end():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(FOLDER / "polyphone.service")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/asr")
    assert make_parser().parse_args(words).port == 20001
    assert int(unit["Service"]["TimeoutStopSec"]) > Limits().drain_s


def headers_by_nginx(page, upgrade=""):
    """Return the headers that nginx sets by the block of a page; it leaves out those that are empty."""
    (block,) = re.findall(r"```nginx\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    values = {"$host": "asr.example", "$scheme": "https", "$http_upgrade": upgrade}
    found = re.findall(r'proxy_set_header (\S+) "?([^";]+)"?;', block)
    return {name: values.get(value, value) for name, value in found if values.get(value, value)}


@pytest.mark.parametrize("folder", ["docs", "docs/zh"])
def test_page_and_streams_work_behind_nginx(recognizer, folder):
    page = ROOT / folder / "tutorials" / "serve.md"
    key = {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with server_in_thread(recognizer, origins=["https://asr.example"]) as (_, address):
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", "/", headers=headers_by_nginx(page))
            assert b"https://asr.example/v1" in connection.getresponse().read()
            connection.request("GET", "/vosk", headers=key | headers_by_nginx(page, "websocket"))
            assert connection.getresponse().status == 101
