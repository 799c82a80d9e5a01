"""Test what paths are answered that no protocol has."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import openai
import pytest
from helpers.servers import LIMIT_S


def answer(address, path, method, body=b"{}", **headers):
    """Return the status, headers and fields of an answer."""
    data = body if method == "POST" else None
    request = urllib.request.Request(f"{address}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as found:
            return found.status, found.headers, json.loads(found.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read() or b"null")


@pytest.mark.parametrize("path", ["", "/openai/deployments/whisper"])
def test_openais_client_with_a_wrong_base_gets_an_error_that_names_the_right_one(address, clips, path):
    with (
        openai.OpenAI(base_url=f"{address}{path}", api_key="none", max_retries=0) as client,
        Path(clips[0].audio_path).open("rb") as file,
        pytest.raises(openai.NotFoundError, match="/v1/audio/transcriptions"),
    ):
        client.audio.transcriptions.create(model="m", file=file)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT"])
@pytest.mark.parametrize("path", ["/foo/bar", "/v1/audio/translations", "/{braces}/%0a"])
def test_path_that_is_nobodys_is_not_found(address, method, path):
    status, _, fields = answer(address, path, method)
    assert status == 404
    assert method == "HEAD" or fields["error"]["code"] == "not_found"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_unknown_level_is_not_found_except_by_asrts_clients(address, method):
    assert answer(address, "/words", method)[0] == 404
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    assert answer(address, "/transcriptions", "POST", b"--x--\r\n", **form)[0] == 404
    sent = {"Content-Type": "application/json"}
    assert answer(address, "/words", "POST", **sent)[2]["status_code"] == 400000


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/speech", "/page/transcribe"])
def test_wrong_method_has_a_code_of_its_own_and_the_right_one(address, path):
    status, headers, fields = answer(address, path, "DELETE")
    assert (status, headers["Allow"]) == (405, "POST")
    assert "POST" in json.dumps(fields)
    if path != "/speech":
        assert fields["error"]["code"] == "method_not_allowed"
