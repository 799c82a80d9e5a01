"""Uploads of phones and browsers are decoded in memory, within the server's limits."""

import urllib.request

import pytest
from helpers.media import lag_of, written
from helpers.servers import LIMIT_S

from asr.audio.recording import read_audio
from asr.server.requests.received_audio import received_waveform
from asr.server.requests.request_errors import RefusalError

# of OpenAI's list, those that libsndfile does not read, and what phones send
FORMS = ["m4a", "mp4", "webm", "browser.webm", "mpg", "amr", "3gp", "aac", "mkv", "mov", "wma"]


def ignore(num_bytes):
    """Reserve no memory."""


@pytest.fixture(scope="module")
def speech(clips):
    return read_audio(clips[2].audio_path)


@pytest.mark.parametrize("name", FORMS)
def test_upload_is_decoded(name, speech):
    waveform = received_waveform(written(speech, name), 60.0, ignore)
    assert (
        abs(len(waveform) - len(speech)) <= 800
    )  # a frame of WMA, which states no length to the sample, is 46 ms
    assert abs(lag_of(waveform, speech)) <= 400


@pytest.mark.parametrize("name", ["m4a", "browser.webm"])
def test_upload_that_is_too_long_is_refused(name, speech):
    with pytest.raises(RefusalError, match="at most"):
        received_waveform(written(speech, name), len(speech) / 16000 - 0.5, ignore)


def test_upload_that_is_cut_off_is_named(speech):
    data = written(speech, "mp4")
    with pytest.raises(RefusalError, match="file: cut off"):
        received_waveform(data[: len(data) // 2], 60.0, ignore)


@pytest.mark.parametrize("name", ["m4a", "browser.webm", "mpg"])
@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/page/transcribe"])
def test_clients_send_recordings_of_phones(path, name, address, speech):
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="memo.{name}"\r\n\r\n'
    body = head.encode() + written(speech, name) + b"\r\n--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    with urllib.request.urlopen(
        urllib.request.Request(address + path, body, headers), timeout=LIMIT_S
    ) as answer:
        assert answer.status == 200
        assert b"text" in answer.read()
