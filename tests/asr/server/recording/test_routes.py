"""Test the requests of the recording page: what is stored, who may ask, and what is refused."""

import contextlib
import http.client
import io
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile
from helpers.full_disk import largest_file
from helpers.servers import LIMIT_S, app_in_thread, wait_until
from helpers.takes import ask, collection_in, noise, wav_of

from asr.server.recording.app import make_recording_app
from asr.server.recording.service import RecordingService
from asr.server.requests.limits import Limits

KEYS = {"key-of-anna-0001": "anna", "key-of-bo-000002": "bo"}


@contextlib.contextmanager
def recording_server(folder, speakers=None, **limits):
    """Yield the takes, the collection, the service and the links of speakers by name."""
    with collection_in(folder) as (takes, collection):
        service = RecordingService(collection, speakers or KEYS, Limits(**{"max_body_mb": 1, **limits}))
        with app_in_thread(make_recording_app(service), service) as address:
            links = {name: f"{address}/#{key}" for key, name in (speakers or KEYS).items()}
            yield takes, collection, service, links


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with recording_server(tmp_path_factory.mktemp("studio")) as made:
        yield made


@pytest.fixture
def anna(studio):
    return studio[3]["anna"]


@pytest.fixture
def bo(studio):
    return studio[3]["bo"]


def test_take_is_stored_played_and_removed(anna):
    samples = noise(1, 1.5, 44_100)
    status, answer = ask(anna, "takes/p0?keep=1", wav_of(samples, 44_100))
    assert (status, answer["state"]) == (200, "kept")
    status, flac = ask(anna, "takes/p0")
    read, rate_hz = soundfile.read(io.BytesIO(flac), dtype="int16")
    assert rate_hz == 44_100
    assert len(read) == round(answer["duration_s"] * 44_100)
    assert ask(anna, "session")[1]["prompts"][0]["state"] == "kept"
    assert ask(anna, "takes/p0", method="DELETE")[1]["state"] == "todo"
    assert ask(anna, "takes/p0")[0] == 404
    assert ask(anna, "takes/p0", method="DELETE")[0] == 404


def test_silence_is_to_be_recorded_again(anna):
    status, answer = ask(anna, "takes/p1", wav_of(np.zeros(16_000, np.int16)))
    assert (status, answer["state"]) == (200, "again")
    assert answer["problems"][0]["kind"] == "silent"
    assert ask(anna, "takes/p1")[0] == 404


def test_speakers_reach_only_their_own_takes(anna, bo):
    ask(anna, "takes/p2?keep=1", wav_of(noise(2)))
    assert ask(bo, "takes/p2")[0] == 404
    assert ask(bo, "takes/p2", method="DELETE")[0] == 404
    assert ask(bo, "takes/p2/accept", b"")[0] == 404
    assert ask(bo, "session")[1]["prompts"][2]["state"] == "todo"
    assert ask(anna, "takes/p2")[0] == 200


@pytest.mark.parametrize("path", ["session", "takes/p2", "checks", "nothing"])
def test_every_path_needs_a_key(anna, path):
    address = anna.partition("/#")[0]
    for link in (address, f"{address}/#wrong-key-of-anna", f"{address}/#"):
        status, answer = ask(link, path)
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
    assert ask(address, "takes/p2", wav_of(noise()))[0] == 401


def test_pages_of_other_sites_and_names_are_refused(tmp_path):
    with recording_server(tmp_path, {"": "me"}) as (*_, links):
        host = urlsplit(links["me"]).netloc
        assert ask(links["me"], "session")[0] == 200
        for headers in ({"Origin": "https://example.org"}, {"Host": "example.org"}):
            connection = http.client.HTTPConnection(host, timeout=LIMIT_S)
            with contextlib.closing(connection):
                connection.request("POST", "/record/finish", headers=headers)
                assert connection.getresponse().status == 403


def float_wav():
    file = io.BytesIO()
    soundfile.write(file, noise() / 32768, 16_000, format="WAV", subtype="FLOAT")
    return file.getvalue()


BODIES = {
    "empty": (b"", 400),
    "text": (b"hello", 400),
    "cut off": (wav_of(noise())[:20_000], 400),
    "stereo": (wav_of(np.stack([noise(), noise()], axis=1)), 400),
    "float": (float_wav(), 400),
    "20 ms": (wav_of(noise(seconds=0.02)), 400),
    "a rate of 1 kHz": (wav_of(noise(rate_hz=1000), 1000), 400),
    "61 s": (wav_of(noise(seconds=61, rate_hz=8000), 8000), 413),
    "over 1 MiB": (wav_of(noise(seconds=40)), 413),
}


@pytest.mark.parametrize("kind", BODIES)
def test_body_that_is_no_take_is_refused(anna, kind):
    body, expected = BODIES[kind]
    status, answer = ask(anna, "takes/p3?keep=1", body)
    assert status == expected
    assert answer["error"]["message"]
    assert ask(anna, "takes/p3")[0] == 404


def test_sentence_path_or_number_that_does_not_exist_is_refused(anna):
    assert ask(anna, "takes/p99?keep=1", wav_of(noise()))[0] == 404
    assert ask(anna, "takes/..%2F..%2Fspeakers.tsv")[0] == 404
    assert ask(anna, "nothing")[0] == 404
    assert ask(anna, "session", method="PUT")[0] == 405
    for after in ("x", "-1", "1" * 30, "²"):
        assert ask(anna, f"checks?after={after.replace('²', '%C2%B2')}")[0] == 400


def test_client_that_vanishes_in_the_middle_stores_nothing_and_harms_nobody(studio, anna):
    *_, service, _ = studio
    split = urlsplit(anna)
    body = wav_of(noise(5))
    head = (
        f"POST /record/takes/p4?keep=1 HTTP/1.1\r\nHost: {split.netloc}\r\n"
        f"Authorization: Bearer {split.fragment}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((split.hostname, split.port), timeout=LIMIT_S) as client:
        client.sendall(head.encode() + body[:10_000])
        wait_until(lambda: service.admission.num_requests)
    wait_until(lambda: not service.admission.num_requests)
    assert ask(anna, "takes/p4")[0] == 404
    assert ask(anna, "takes/p4?keep=1", body)[1]["state"] == "kept"


def test_takes_that_arrive_at_once_share_a_limit_of_memory(tmp_path):
    body = wav_of(noise(seconds=10, rate_hz=48_000), 48_000)  # 0.9 MiB
    with recording_server(tmp_path, max_pending_mb=2) as (*_, service, links):
        with ThreadPoolExecutor(20) as clients:
            answers = list(clients.map(lambda _: ask(links["anna"], "takes/p0?keep=1", body)[0], range(20)))
        assert set(answers) <= {200, 429}
        assert 200 in answers
        assert service.admission.num_bytes == 0
        assert ask(links["anna"], "takes/p1?keep=1", body)[0] == 200
        assert [path.is_file() for path in (tmp_path / "audio" / "anna").iterdir()] == [True, True]


def test_full_disk_is_answered_and_the_server_lives(tmp_path, caplog):
    with recording_server(tmp_path, {"a key of me": "me"}) as (*_, links):
        me = links["me"]
        assert ask(me, "takes/p0?keep=1", wav_of(noise(0, 0.2)))[0] == 200
        with largest_file(2000):
            status, answer = ask(me, "takes/p0?keep=1", wav_of(noise(1)))
            assert (status, answer["error"]["code"]) == (507, "not_stored")
            assert "free space" in answer["error"]["message"]
            assert str(tmp_path) not in answer["error"]["message"]  # where it is stored is for the log
            assert str(tmp_path) in caplog.text
            assert ask(me, "session")[1]["prompts"][0]["state"] == "kept"
        assert [path.name for path in (tmp_path / "audio" / "me").iterdir()] == ["p0-1.flac"]
        assert ask(me, "takes/p0?keep=1", wav_of(noise(1)))[0] == 200


def test_results_of_the_check_arrive_while_the_page_waits(tmp_path):
    free = threading.Event()

    def check(path, tokens):
        assert free.wait(LIMIT_S)
        return [{"kind": "missing", "start": 0, "end": 1, "recognized": ""}]

    with recording_server(tmp_path) as (_, collection, service, links):
        collection.start_checks(check, service.on_checked)
        assert ask(links["anna"], "session")[1]["checks"]
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(ask(links["anna"], "checks?after=0")))
        waiting.start()
        assert ask(links["anna"], "takes/p0?keep=1", wav_of(noise()))[1]["state"] == "kept"  # not delayed
        assert not answers
        free.set()
        waiting.join(LIMIT_S)
        ((status, answer),) = answers
        assert status == 200
        assert answer["results"][0] == {
            "id": "p0",
            "state": "again",
            "differences": [{"kind": "missing", "start": 0, "end": 1, "recognized": ""}],
        }
        assert ask(links["anna"], "takes/p0/accept", b"")[1]["state"] == "kept"
        assert ask(links["anna"], f"checks?after={answer['last']}")[1]["results"][0]["state"] == "kept"
        assert ask(links["bo"], "session")[1]["prompts"][0]["state"] == "todo"


def test_server_that_stops_answers_those_who_wait(tmp_path):
    answers = []
    with recording_server(tmp_path) as (*_, service, links):
        waiting = threading.Thread(target=lambda: answers.append(ask(links["anna"], "checks?after=0")))
        waiting.start()
        wait_until(lambda: service._waiting)
        began_s = time.monotonic()
    waiting.join(LIMIT_S)
    assert answers[0][1]["results"] == []
    assert time.monotonic() - began_s < LIMIT_S


def test_finish_writes_the_manifests(tmp_path):
    with recording_server(tmp_path) as (*_, links):
        assert ask(links["bo"], "finish", b"")[1]["manifests"] == {}
        for number in range(5):
            ask(links["bo"], f"takes/p{number}?keep=1", wav_of(noise(number)))
        status, answer = ask(links["bo"], "finish", b"")
    assert (status, sum(answer["manifests"].values())) == (200, 5)
    assert "doctor" in answer["next"]
    assert (tmp_path / "train.jsonl").exists()
