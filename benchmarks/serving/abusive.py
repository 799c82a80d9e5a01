"""Abuse a server as broken and malicious clients do; each abuse ends by itself after half a minute."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import io
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import grpc
import numpy as np
import soundfile
from helpers.malformed_requests import grpc_call, http_request

from asr.server.protocols.asrt_grpc import SERVICES
from benchmarks.serving.clients import BOUNDARY, SAMPLE_RATE_HZ, TRANSCRIPTIONS, openai_request
from benchmarks.serving.processes import Started

SLOW_S, PATIENCE_S = 30.0, 2.0
MIB = 1 << 20
SENT_MIB = 140  # of a body that never ends; servers refuse it at 128


@dataclass(frozen=True)
class Abuse:
    """What an abusive client needs.

    Attributes:
        server: to abuse.
        wav: a sound recording.
        bomb: a small file of two hours of silence.
        chance: of this client.
    """

    server: Started
    wav: bytes
    bomb: bytes
    chance: random.Random

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Yield a connection, which is cut without a word in the end."""
        parts = urlsplit(self.server.address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def sent(self, data: bytes) -> bytes:
        """Return the beginning of what a server answers, if that is soon."""
        async with self.connected() as (reader, writer):
            writer.write(data)
            async with asyncio.timeout(PATIENCE_S):
                return await reader.read(65536)


def silent_hours() -> bytes:
    """Return a small FLAC file of two hours of silence."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(2 * 3600 * SAMPLE_RATE_HZ, np.int16), SAMPLE_RATE_HZ, format="FLAC")
    return file.getvalue()


@functools.cache
def gzip_bomb() -> bytes:
    """Return 32 MiB of zeros, compressed."""
    return gzip.compress(bytes(32 * MIB))


async def vanish_in_body(abuse: Abuse) -> None:
    """Go away before all of a recording is sent."""
    request = openai_request(abuse.wav, model="m")
    async with abuse.connected() as (_, writer):
        writer.write(request[: abuse.chance.randrange(100, len(request))])
        await asyncio.sleep(abuse.chance.uniform(0, 0.2))


async def vanish_before_answer(abuse: Abuse) -> None:
    """Send a recording and do not wait for its transcript."""
    async with abuse.connected() as (_, writer):
        writer.write(openai_request(abuse.wav, model="m"))
        await asyncio.sleep(abuse.chance.uniform(0, 0.02))


async def send_garbage(abuse: Abuse) -> None:
    """Send a malformed request."""
    await abuse.sent(http_request(abuse.wav, abuse.chance))


async def declare_too_much(abuse: Abuse) -> None:
    """Declare a body of ten gigabytes."""
    await abuse.sent(_head("10000000000") + b"x" * 1000)


async def send_too_much(abuse: Abuse) -> None:
    """Send a body in pieces that does not end."""
    async with abuse.connected() as (_, writer):
        writer.write(_head("").replace(b"Content-Length: ", b"Transfer-Encoding: chunked"))
        for _ in range(SENT_MIB):
            writer.write(b"100000\r\n" + bytes(MIB) + b"\r\n")
            await writer.drain()


async def send_gzip_bomb(abuse: Abuse) -> None:
    """Send a compressed body."""
    head = _head(str(len(gzip_bomb())), "Content-Encoding: gzip")
    await abuse.sent(head + gzip_bomb())


async def send_audio_bomb(abuse: Abuse) -> None:
    """Send a small file of two hours."""
    await abuse.sent(openai_request(abuse.bomb, model="m"))


async def send_wrong_container(abuse: Abuse) -> None:
    """Send what is no sound as a recording."""
    begins = (b"\x89PNG\r\n\x1a\n", b"PK\x03\x04", b"RIFF\xff\xff\xff\xffWAVE", b"OggS", b"fLaC", b"ID3")
    await abuse.sent(openai_request(abuse.chance.choice(begins) + os.urandom(50_000), model="m"))


async def send_grpc_garbage(abuse: Abuse) -> None:
    """Call a method with a malformed message."""
    method, message = grpc_call(abuse.wav, abuse.chance)
    async with grpc.aio.insecure_channel(abuse.server.grpc_address) as channel:
        await channel.unary_unary(f"/{SERVICES[0]}/{method}")(message, timeout=SLOW_S)


async def drip_headers(abuse: Abuse) -> None:
    """Send headers byte by byte (slow loris)."""
    async with abuse.connected() as (_, writer):
        await _drip(writer, openai_request(abuse.wav, model="m"))


async def drip_body(abuse: Abuse) -> None:
    """Send a body byte by byte."""
    request = openai_request(abuse.wav, model="m")
    begin = request.index(b"\r\n\r\n") + 4
    async with abuse.connected() as (_, writer):
        writer.write(request[:begin])
        await _drip(writer, request[begin:])


async def half_open_socket(abuse: Abuse) -> None:
    """Open a WebSocket, send some samples, and vanish without closing it."""
    lines = ["GET /vosk HTTP/1.1", "Host: a", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13", "", ""]
    async with abuse.connected() as (reader, writer):
        writer.write("\r\n".join(lines).encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x82\xfe\x0f\xa0" + bytes(4) + bytes(abuse.chance.randrange(4000)))
        await asyncio.sleep(abuse.chance.uniform(0, SLOW_S))


async def half_open_call(abuse: Abuse) -> None:
    """Open a stream by gRPC, and send nothing."""
    async with grpc.aio.insecure_channel(abuse.server.grpc_address) as channel:
        call = channel.stream_stream(f"/{SERVICES[0]}/Stream")(timeout=SLOW_S)
        await asyncio.sleep(abuse.chance.uniform(0, SLOW_S))
        call.cancel()


def _head(length: str, *lines: str) -> bytes:
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    head = [f"POST {TRANSCRIPTIONS} HTTP/1.1", "Host: a", kind, *lines, f"Content-Length: {length}", "", ""]
    return "\r\n".join(head).encode()


async def _drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    until_s = time.monotonic() + SLOW_S
    for byte in data:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.2)
        if time.monotonic() > until_s:
            return


QUICK: Mapping[str, Callable[[Abuse], Awaitable[None]]] = {
    "vanish in mid-body": vanish_in_body,
    "vanish before the answer": vanish_before_answer,
    "garbage": send_garbage,
    "ten gigabytes declared": declare_too_much,
    "a body without end": send_too_much,
    "gzip bomb": send_gzip_bomb,
    "audio bomb": send_audio_bomb,
    "wrong container": send_wrong_container,
    "garbage by gRPC": send_grpc_garbage,
}
SLOW: Mapping[str, Callable[[Abuse], Awaitable[None]]] = {
    "headers drip": drip_headers,
    "body drips": drip_body,
    "half-open WebSocket": half_open_socket,
    "half-open gRPC": half_open_call,
}


async def keep_abusing(
    abuse: Abuse,
    kinds: Mapping[str, Callable[[Abuse], Awaitable[None]]],
    on_done: Callable[[str], bool],
) -> None:
    """Run one abuse after the other, as long as `on_done` asks for more."""
    going = True
    while going:
        await asyncio.sleep(abuse.chance.uniform(0.1, 1.0))
        name = abuse.chance.choice(list(kinds))
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, grpc.RpcError):
            await kinds[name](abuse)
        going = on_done(name)
