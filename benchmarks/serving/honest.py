"""Ask a server as honest clients of each protocol do, and return the text of its answer."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from asr.server.protocols.asrt_grpc import SERVICES
from asr.server.protocols.asrt_messages import SpeechRequest, TextResponse
from benchmarks.serving.clients import (
    LIMIT_S,
    SAMPLE_RATE_HZ,
    HttpClient,
    asrt_request,
    funasr_texts,
    openai_request,
    vosk_stream,
)
from benchmarks.serving.processes import Started
from benchmarks.serving.recordings import Recording

PARTIAL_ANSWERS = 2  # to a stream by gRPC: one to its piece, one at its end


@dataclass(frozen=True)
class Honest:
    """Honest clients of one kind.

    Attributes:
        ask: sends a recording to a server and returns the text of the answer.
        recordings: which they send: "clips", "long" or "live".
        count: of clients.
    """

    ask: Callable[[Started, Recording], Awaitable[str]]
    recordings: str
    count: int


async def _http(server: Started, request: bytes) -> bytes:
    client = HttpClient(server.address)
    try:
        status, body = await client.request(request)
    finally:
        client.close()
    if status != 200:
        raise RuntimeError(f"status {status}: {body[:200]!r}")
    return body


async def openai(server: Started, recording: Recording) -> str:
    """Ask in OpenAI's form."""
    body = await _http(server, openai_request(recording.path.read_bytes(), model="m"))
    return str(json.loads(body)["text"])


async def openai_verbose(server: Started, recording: Recording) -> str:
    """Ask in OpenAI's form for segments and words, and return the text of the segments."""
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
    body = await _http(server, openai_request(recording.path.read_bytes(), model="m", **fields))
    found = json.loads(body)
    if found["text"] and not found["words"]:
        raise RuntimeError("no words")
    return str(found["text"])


async def asrt_http(server: Started, recording: Recording) -> str:
    """Ask in ASRT's form by HTTP for syllables, and return the recording's text if they are its tokens."""
    found = json.loads(await _http(server, asrt_request(recording.waveform)))
    if found["status_code"] != 200000:
        raise RuntimeError(f"status {found['status_code']}")
    return recording.text if tuple(found["result"]) == recording.tokens else " ".join(found["result"])


def _speech_of(recording: Recording) -> bytes:
    wav = {"samples": recording.waveform.tobytes(), "sample_rate": SAMPLE_RATE_HZ, "channels": 1}
    message: bytes = SpeechRequest(wav_data={**wav, "byte_width": 2}).SerializeToString()
    return message


async def asrt_grpc(server: Started, recording: Recording) -> str:
    """Ask in ASRT's form by gRPC."""
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        answer = await channel.unary_unary(f"/{SERVICES[0]}/All")(_speech_of(recording), timeout=LIMIT_S)
    return str(TextResponse.FromString(answer).text_result)


async def asrt_grpc_stream(server: Started, recording: Recording) -> str:
    """Ask in ASRT's form by gRPC, with a stream of one piece."""
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        call = channel.stream_stream(f"/{SERVICES[1]}/Stream")
        answers = [one async for one in call(iter([_speech_of(recording)]), timeout=LIMIT_S)]
    texts = {TextResponse.FromString(answer).text_result for answer in answers}
    if len(answers) > PARTIAL_ANSWERS or len(texts) != 1:
        raise RuntimeError(f"answers {sorted(texts)}")
    return str(texts.pop())


async def funasr_offline(server: Started, recording: Recording) -> str:
    """Send a file as FunASR's clients do, and receive one answer."""
    return "".join(await funasr_texts(server.address, recording.path.read_bytes(), "offline"))


async def funasr_live(server: Started, recording: Recording) -> str:
    """Send samples in real time as FunASR's clients do."""
    return " ".join(await funasr_texts(server.address, recording.waveform, "2pass"))


async def vosk_live(server: Started, recording: Recording) -> str:
    """Send samples in real time as Vosk's clients do."""
    return (await vosk_stream(server.address, recording.waveform)).text


HONEST: Mapping[str, Honest] = {
    "OpenAI": Honest(openai, "clips", 24),
    "OpenAI, words": Honest(openai_verbose, "clips", 8),
    "OpenAI, a minute": Honest(openai, "long", 4),
    "ASRT, HTTP": Honest(asrt_http, "clips", 10),
    "ASRT, gRPC": Honest(asrt_grpc, "clips", 8),
    "ASRT, gRPC stream": Honest(asrt_grpc_stream, "clips", 4),
    "FunASR, offline": Honest(funasr_offline, "clips", 6),
    "FunASR, live": Honest(funasr_live, "live", 4),
    "Vosk, live": Honest(vosk_live, "live", 8),
}


async def keep_asking(
    kind: Honest,
    server: Started,
    recordings: Mapping[str, list[Recording]],
    chance: random.Random,
    on_answer: Callable[[Recording, Any], bool],
) -> None:
    """Send recordings with pauses between them, as long as `on_answer` asks for more.

    Args:
        kind: of the client.
        server: to ask.
        recordings: by their kind.
        chance: of this client.
        on_answer: receives the recording, and the text of the answer or the error.
    """
    going = True
    while going:
        await asyncio.sleep(chance.uniform(0.1, 2.0))
        recording = chance.choice(recordings[kind.recordings])
        try:
            async with asyncio.timeout(LIMIT_S):
                answer: Any = await kind.ask(server, recording)
        except Exception as error:
            answer = error
        going = on_answer(recording, answer)
