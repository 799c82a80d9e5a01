"""Test what is common to the protocols by WebSocket: messages that wait, and a server that stops."""

import asyncio
import contextlib
import logging

import pytest
from helpers.clips import clip_segments
from helpers.servers import LIMIT_S, server_in_thread, wait_until
from helpers.speech_sockets import open_socket, remaining
from starlette.websockets import WebSocketDisconnect

from asr.audio.recording import read_audio
from asr.server.protocols.sockets import END, ClientSocket
from asr.server.requests.inbox import MAX_WAITING_BYTES
from asr.server.requests.request_errors import RefusalError


class Socket:
    """Stands for an accepted socket whose messages the test puts into a queue."""

    def __init__(self, *messages):
        self.queue = asyncio.Queue()
        for message in messages:
            kind = "bytes" if isinstance(message, bytes) else "text"
            self.queue.put_nowait({"type": "websocket.receive", kind: message})

    async def receive(self):
        return await self.queue.get()

    def vanish(self):
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})


async def until(condition):
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def talk_of(socket, idle_s=LIMIT_S):
    talk = ClientSocket(socket, idle_s)
    listening = asyncio.ensure_future(talk.listen())
    await until(socket.queue.empty)
    yield talk
    listening.cancel()


def test_samples_that_wait_are_joined_up_to_a_limit_and_not_beyond_a_message_of_text():
    async def work():
        socket = Socket(bytes(2000), bytes(1998), b"ab", b"cd", "text", b"ef")
        async with talk_of(socket) as talk:
            first = await talk.receive()
            assert [len(one) for one in talk.with_received(first, 2000)] == [2000, 1998, 2]
            assert talk.with_received(await talk.receive(), 2000) == [b"cd"]
            assert [await talk.receive(), await talk.receive()] == ["text", b"ef"]

    asyncio.run(work())


def test_what_was_received_precedes_the_end_that_a_stopping_server_gives():
    async def work():
        async with talk_of(Socket(b"ab", "text")) as talk:
            talk.stop()
            assert [await talk.receive() for _ in range(4)] == [b"ab", "text", END, END]

    asyncio.run(work())


def test_what_was_received_precedes_the_news_that_the_client_has_gone():
    async def work():
        socket = Socket(b"ab")
        socket.vanish()
        async with talk_of(socket) as talk:
            assert await talk.receive() == b"ab"
            with pytest.raises(WebSocketDisconnect):
                await talk.receive()

    asyncio.run(work())


def test_silent_client_is_refused():
    async def work():
        async with talk_of(Socket(), idle_s=0.01) as talk:
            with pytest.raises(RefusalError, match="no message"):
                await talk.receive()

    asyncio.run(work())


def test_no_more_is_received_while_much_is_waiting():
    async def work():
        large = bytes(MAX_WAITING_BYTES // 2 + 1)
        socket = Socket(large, large)
        async with talk_of(socket) as talk:
            for _ in range(2):
                socket.queue.put_nowait({"type": "websocket.receive", "bytes": b"ab"})
            await asyncio.sleep(0.01)
            assert socket.queue.qsize() == 2
            await talk.receive()
            await until(socket.queue.empty)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("path", "begin"), [("/vosk", '{"config": {"sample_rate": 16000}}'), ("/", '{"mode": "2pass"}')]
)
def test_server_that_stops_gives_open_streams_their_final_answer(recognizer, clips, path, begin):
    speech = read_audio(clips[2].audio_path)
    with contextlib.ExitStack() as stack:
        with server_in_thread(recognizer) as (service, address):
            socket = stack.enter_context(open_socket(address, path))
            socket.send(begin)
            socket.send(speech.tobytes())
            wait_until(lambda: b'asr_batch_size_count{kind="stream"} ' in service.metrics.text())
            silent = stack.enter_context(open_socket(address, path))
            wait_until(lambda: service.streams.num_open == 2)
        found, closed = remaining(socket)
        assert closed.code == 1012
        assert found[-1]["text"] == clip_segments(recognizer, [speech])[0].text
        assert remaining(silent)[1].code == 1012


@pytest.mark.parametrize(
    ("path", "begin"), [("/vosk", '{"config": {"sample_rate": 16000}}'), ("/", '{"mode": "2pass"}')]
)
@pytest.mark.parametrize(("limit", "code"), [("stream_idle_s", 1008), ("max_audio_s", 1009)])
def test_stream_over_a_limit_has_its_final_answer_before_the_error(
    recognizer, clips, path, begin, limit, code
):
    speech = read_audio(clips[2].audio_path)
    limits = {"stream_idle_s": 2.0} if limit == "stream_idle_s" else {"max_audio_s": clips[2].duration_s}
    with server_in_thread(recognizer, **limits) as (_, address), open_socket(address, path) as socket:
        socket.send(begin)
        socket.send(speech.tobytes())
        if limit == "max_audio_s":
            socket.send(bytes(16_000))
        (*_, final, error), closed = remaining(socket)
    assert final["text"] == clip_segments(recognizer, [speech])[0].text
    assert ("error" in error, closed.code) == (True, code)


def test_text_that_is_no_utf8_is_one_line_in_the_log(address, caplog):
    with open_socket(address, "/vosk") as socket:
        socket.send(b"\xff\xfe", text=True)
        assert remaining(socket)[1].code == 1007
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
