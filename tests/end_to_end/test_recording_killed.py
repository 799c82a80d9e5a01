"""Test that no confirmed take is lost: three people record while `asr record` is killed and started again."""

import contextlib
import http.client
import io
import random
import threading
import time

import numpy as np
import pytest
import soundfile
from helpers.takes import LIMIT_S, ask, noise, recording_process, wav_of

from data_pipeline.collection.takes import open_takes

SPEAKERS = ("anna", "bo", "小明")
DIGITS = "零一二三四五六七八九"
GONE = (OSError, http.client.HTTPException, ValueError)  # the server, in an answer


class Person:
    """Records sentences one after the other, and each again until the server confirms it.

    Attributes:
        confirmed: the samples that were sent, by the id of the prompt.
    """

    def __init__(self, name, number):
        self.confirmed = {}
        self._name, self._number = name, number
        self._link, self._has_link = "", threading.Event()
        self.thread = threading.Thread(target=self._record)

    def use(self, links):
        """Use the link of a server that was started."""
        self._link = links[self._name]
        self._has_link.set()

    def _record(self):
        assert self._has_link.wait(LIMIT_S)
        for number, prompt in enumerate(self._ask("session")["prompts"][: self._number]):
            samples = noise([number, len(self._name)], 0.4, 48_000)
            answer = self._ask(f"takes/{prompt['id']}?keep=1", wav_of(samples, 48_000))
            assert answer["state"] == "kept"
            self.confirmed[prompt["id"]] = samples

    def _ask(self, path, body=None):
        deadline = time.monotonic() + 5 * LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(*GONE):
                status, answer = ask(self._link, path, body)
                assert status == 200, answer
                return answer
            time.sleep(0.05)
        raise AssertionError("the server does not come back")


def begins_of(part, whole):
    """Return where the first samples of a recording are in another."""
    windows = np.lib.stride_tricks.sliding_window_view(whole, 64)
    return np.flatnonzero((windows == part[:64]).all(axis=1))


@pytest.mark.parametrize(
    ("num_takes", "num_kills"), [(8, 2), pytest.param(67, 12, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_no_confirmed_take_is_lost_when_the_server_is_killed(tmp_path, num_takes, num_kills):
    out, names, sentences = tmp_path / "out", tmp_path / "names", tmp_path / "sentences.txt"
    names.write_text("\n".join(SPEAKERS), encoding="utf-8")
    lines = [f"这是{DIGITS[n // 10]}{DIGITS[n % 10]}号句子" for n in range(num_takes)]
    sentences.write_text("\n".join(lines), encoding="utf-8")
    people = [Person(name, num_takes) for name in SPEAKERS]
    options = ("--speakers", names, "--prompts", sentences, "--units", "characters")
    chance = random.Random(num_takes)
    for person in people:
        person.thread.start()
    kills = 0
    while any(person.thread.is_alive() for person in people):
        with recording_process(out, *options) as (process, links):
            for person in people:
                person.use(links)
            if kills < num_kills:
                await_takes(people, chance.randint(1, max(1, 3 * num_takes // num_kills - 1)))
                time.sleep(chance.uniform(0, 0.1))
                process.kill()
                kills += 1
            else:
                for person in people:
                    person.thread.join()
    assert kills == num_kills
    confirmed = {
        (name, prompt): samples
        for name, person in zip(SPEAKERS, people, strict=True)
        for prompt, samples in person.confirmed.items()
    }
    assert len(confirmed) == 3 * num_takes
    with open_takes(out, None) as takes:
        assert not takes.missing
        stored = {(take.speaker, take.prompt): take for take in takes.all()}
        assert set(stored) == set(confirmed)
        for key, take in stored.items():
            read, rate_hz = soundfile.read(io.BytesIO((out / take.audio).read_bytes()), dtype="int16")
            assert rate_hz == 48_000
            (begin,) = begins_of(read, confirmed[key])
            assert np.array_equal(read, confirmed[key][begin : begin + len(read)])


def await_takes(people, number):
    """Return once a number of further takes is confirmed, or all people have finished."""
    wanted = number + sum(len(person.confirmed) for person in people)
    deadline = time.monotonic() + LIMIT_S
    while sum(len(person.confirmed) for person in people) < wanted and time.monotonic() < deadline:
        if not any(person.thread.is_alive() for person in people):
            return
        time.sleep(0.01)
