"""Test that what waits runs together, and that no client harms another."""

import asyncio
import contextlib
import threading
from concurrent.futures import CancelledError

import pytest
from helpers.servers import call_in_time

from asr.audio.recording import read_audio
from asr.server.batching import Batcher, JobKind
from asr.server.requests.limits import Limits
from asr.server.service import DECODING_THREADS, LONG_BODY_BYTES, RecognitionService

LIMIT_S = 60


class Model:
    """Doubles numbers; while `gate` is closed it is busy."""

    def __init__(self):
        self.batches, self.busy, self.gate = [], threading.Event(), threading.Event()

    def run(self, items):
        self.batches.append(items)
        self.busy.set()
        assert self.gate.wait(LIMIT_S)
        if "broken" in items:
            raise ValueError("broken")
        return [2 * item for item in items]


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def batcher(model):
    kinds = [JobKind(name, model.run, lambda item: item if isinstance(item, int) else 1, 12) for name in "ab"]
    batcher = Batcher(kinds)
    yield batcher
    model.gate.set()
    call_in_time(batcher.close)


def occupy(batcher, model):
    """Make the model busy, so that what follows waits."""
    first = batcher.submit("a", 1)
    assert model.busy.wait(LIMIT_S)
    return first


def test_jobs_that_wait_run_together_up_to_the_size_of_a_batch_with_padding(batcher, model):
    futures = [occupy(batcher, model), *(batcher.submit("a", item) for item in [2, 4, 3, 4, 5])]
    model.gate.set()
    assert [future.result(LIMIT_S) for future in futures] == [2, 4, 8, 6, 8, 10]
    assert model.batches == [[1], [2, 4, 3], [4, 5]]


def test_a_job_larger_than_a_batch_runs_alone(batcher, model):
    model.gate.set()
    assert batcher.submit("a", 50).result(LIMIT_S) == 100


def test_kinds_take_turns_however_many_jobs_one_has(batcher, model):
    occupy(batcher, model)
    futures = [batcher.submit("a", 12) for _ in range(5)] + [batcher.submit("b", 7) for _ in range(2)]
    model.gate.set()
    for future in futures:
        future.result(LIMIT_S)
    assert model.batches == [[1], [7], [12], [7], [12], [12], [12], [12]]


def test_a_job_that_fails_fails_alone(batcher, model):
    occupy(batcher, model)
    good, bad, other = (batcher.submit("a", item) for item in [3, "broken", 4])
    model.gate.set()
    assert (good.result(LIMIT_S), other.result(LIMIT_S)) == (6, 8)
    with pytest.raises(ValueError, match="broken"):
        bad.result(LIMIT_S)


def test_a_job_that_nobody_waits_for_is_not_run(batcher, model):
    occupy(batcher, model)
    dropped, kept = batcher.submit("a", 3), batcher.submit("a", 4)
    assert dropped.cancel()
    model.gate.set()
    assert kept.result(LIMIT_S) == 8
    assert model.batches == [[1], [4]]


def test_closing_cancels_what_waits(batcher, model):
    running, waiting = occupy(batcher, model), batcher.submit("a", 3)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    with pytest.raises(CancelledError):
        waiting.result(LIMIT_S)
    model.gate.set()
    closing.join(LIMIT_S)
    assert running.result(LIMIT_S) == 2


def test_clip_does_not_wait_until_long_bodies_are_decoded(recognizer, clips):
    waveform, clip_is_done = read_audio(clips[0].audio_path), threading.Event()

    def read_long():
        assert clip_is_done.wait(LIMIT_S)
        return waveform

    async def work(service):
        with contextlib.ExitStack() as stack:
            tickets = [stack.enter_context(service.admission.ticket()) for _ in range(DECODING_THREADS + 1)]
            for ticket in tickets[1:]:
                ticket.reserve(LONG_BODY_BYTES + 1)
            long_ones = [asyncio.ensure_future(service.recognize(one, read_long)) for one in tickets[1:]]
            await asyncio.sleep(0)  # in which they begin
            transcript = await service.recognize(tickets[0], lambda: waveform)
            clip_is_done.set()
            assert {one.text for one in await asyncio.gather(*long_ones)} == {transcript.text}

    with contextlib.closing(RecognitionService(recognizer, "model", Limits())) as service:
        asyncio.run(work(service))
