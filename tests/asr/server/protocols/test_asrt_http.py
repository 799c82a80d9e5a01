"""Test ASRT's protocol as its clients speak it, those with one alphabet of base64 and with the other."""

import base64
import json
import urllib.error
import urllib.request

import numpy as np
import pytest

from asr.audio.recording import read_audio


def post(address, path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.status == 200
        text = answer.read().decode("ascii")
    fields = json.loads(text)
    assert list(fields) == ["result", "status_code", "status_message"]
    return fields


def samples_of(waveform, encode=base64.b64encode, **changes):
    fields = {"channels": 1, "sample_rate": 16000, "byte_width": 2} | changes
    return {"samples": encode(waveform.tobytes()).decode(), **fields}


@pytest.fixture(scope="module")
def waveform(clips):
    return read_audio(clips[4].audio_path)


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_both_alphabets_of_base64_give_the_transcript_of_asr_transcribe(
    address, recognizer, clips, waveform, encode
):
    assert set(samples_of(waveform, encode)["samples"]) & set("+/-_")
    expected = recognizer.transcribe(clips[4].audio_path)
    speech = post(address, "/speech", samples_of(waveform, encode))
    everything = post(address, "/all", samples_of(waveform, encode))
    assert speech == {
        "result": list(expected.tokens),
        "status_code": 200000,
        "status_message": "speech level",
    }
    assert everything == {"result": expected.text, "status_code": 200000, "status_message": "all level"}
    assert expected.text


def test_recording_of_more_than_16_s_is_recognized(address, recognizer, long_file):
    expected = recognizer.transcribe(long_file)
    waveform = read_audio(long_file)
    assert len(waveform) > 16 * 16000
    assert post(address, "/speech", samples_of(waveform))["result"] == list(expected.tokens)


def test_only_the_first_channel_is_used_and_wider_samples_are_read(address, waveform):
    expected = post(address, "/all", samples_of(waveform))["result"]
    stereo = np.stack([waveform, np.roll(waveform, 9000)], axis=1)
    assert post(address, "/all", samples_of(stereo, channels=2))["result"] == expected
    wide = waveform.astype(np.int32) << 16
    assert post(address, "/all", samples_of(wide, byte_width=4))["result"] == expected


def test_empty_last_piece_is_not_an_error(address):
    nothing = np.zeros(0, np.int16)
    assert post(address, "/all", samples_of(nothing)) == {
        "result": "",
        "status_code": 200000,
        "status_message": "all level",
    }
    assert post(address, "/speech", samples_of(nothing))["result"] == []


def test_syllables_are_converted(address):
    for syllables, text in ((["ni3", "hao3"], "你好"), ([], "")):
        answer = post(address, "/language", {"sequence_pinyin": syllables})
        assert answer == {"result": text, "status_code": 200000, "status_message": "language level"}


def test_post_to_the_root_and_unknown_paths_have_their_own_answers(address):
    assert post(address, "/", b"anything") == {
        "result": "",
        "status_code": 200000,
        "status_message": "ok",
    }
    assert post(address, "/other", b"{}") == {"result": "", "status_code": 400000, "status_message": ""}
    with urllib.request.urlopen(address, timeout=120) as page:
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "/v1/audio/transcriptions" in page.read().decode()


@pytest.mark.parametrize(
    ("changes", "status_code", "named"),
    [
        ({"sample_rate": 8000}, 500000, "sample_rate"),
        ({"byte_width": 1}, 500000, "byte_width"),
        ({"channels": 0}, 500000, "channels"),
        ({"channels": 10**9}, 500000, "channels"),
        ({"channels": True}, 500000, "channels"),
        ({"samples": None}, 500000, "samples"),
        ({"samples": "A"}, 500000, "base64"),
        ({"samples": "你好"}, 500000, "base64"),
    ],
)
def test_what_cannot_be_processed_has_status_500000_and_http_200(
    address, waveform, changes, status_code, named
):
    answer = post(address, "/all", samples_of(waveform) | changes)
    assert (answer["status_code"], answer["result"]) == (status_code, "")
    assert named in answer["status_message"]


@pytest.mark.parametrize(
    "body", [b"", b"no JSON", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000, b"1" * 9999]
)
@pytest.mark.parametrize("path", ["/speech", "/all", "/language"])
def test_a_body_that_is_no_object_has_status_400001(address, path, body):
    assert post(address, path, body)["status_code"] == 400001


def test_a_body_that_would_be_many_objects_is_not_parsed(address):
    body = b'{"a": [' + b"1," * 30_000 + b"1]}"
    assert post(address, "/all", body)["status_code"] == 400001
