"""Uploads of phones and browsers are decoded in memory, within the server's limits."""

import httpx
import pytest
from helpers.media import lag_of, written

from asr.audio.recording import read_audio
from asr.server.requests.received_audio import received_waveform
from asr.server.requests.request_errors import RefusalError

# of OpenAI's list, those that libsndfile does not read, and what phones send
FORMS = ["m4a", "mp4", "webm", "browser.webm", "mpg", "amr", "3gp", "aac", "mkv", "mov", "wma"]


@pytest.fixture(scope="module")
def speech(clips):
    return read_audio(clips[2].audio_path)


@pytest.mark.parametrize("name", FORMS)
def test_upload_is_decoded(name, speech):
    waveform = received_waveform(written(speech, name), 60.0)
    assert abs(len(waveform) - len(speech)) <= 400
    assert abs(lag_of(waveform, speech)) <= 400


@pytest.mark.parametrize("name", ["m4a", "browser.webm"])
def test_upload_that_is_too_long_is_refused(name, speech):
    with pytest.raises(RefusalError, match="at most"):
        received_waveform(written(speech, name), len(speech) / 16000 - 0.5)


def test_upload_that_is_cut_off_is_named(speech):
    data = written(speech, "mp4")
    with pytest.raises(RefusalError, match="file: cut off"):
        received_waveform(data[: len(data) // 2], 60.0)


@pytest.mark.parametrize("name", ["m4a", "browser.webm", "mpg"])
def test_clients_of_openai_send_recordings_of_phones(name, address, clips, speech):
    url = f"{address}/v1/audio/transcriptions"
    with open(clips[2].audio_path, "rb") as file:  # noqa: PTH123 (an upload)
        expected = httpx.post(url, files={"file": file}, timeout=None)
    answer = httpx.post(url, files={"file": (f"memo.{name}", written(speech, name))}, timeout=None)
    assert (answer.status_code, expected.status_code) == (200, 200)
    assert set(answer.json()) == set(expected.json())
