"""Send malformed requests to a server by every protocol, and return what it answers."""

import asyncio
import contextlib
import random
import socket
from urllib.parse import urlsplit

import grpc
from websockets.exceptions import ConnectionClosed

from asr.server.protocols.asrt_grpc import SERVICES
from helpers.malformed_requests import SOCKET_PATHS, grpc_call, http_request, socket_messages
from helpers.speech_sockets import LIMIT_S, open_socket, remaining

SIGNS_OF_FAILURE = (
    b"DEADLINE_EXCEEDED",
    b"Traceback",
    b'File "',
    b"server_error",
    b"failed to answer",
    b"this server failed",
)


def failures(answers: list[bytes]) -> list[bytes]:
    """Return the answers that show that a server failed."""
    return [answer for answer in answers if any(sign in answer for sign in SIGNS_OF_FAILURE)]


def http_answers(address: str, wav: bytes, chance: random.Random, count: int) -> list[bytes]:
    """Return all bytes that a server sends to each request until it closes the connection."""
    return [_answer_of(address, http_request(wav, chance)) for _ in range(count)]


def _answer_of(address: str, request: bytes) -> bytes:
    host, port = urlsplit(address).netloc.split(":")
    found = b""
    connection = socket.create_connection((host, int(port)), timeout=LIMIT_S)
    with connection:
        with contextlib.suppress(OSError):  # the server may close the connection before all is sent
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                found += part
    return found


def socket_answers(address: str, wav: bytes, chance: random.Random, count: int) -> list[bytes]:
    """Return the answers to the messages of each WebSocket, with its close code."""
    found = []
    for number in range(count):
        with open_socket(address, SOCKET_PATHS[number % 2]) as client:
            with contextlib.suppress(ConnectionClosed):
                for message in socket_messages(wav, chance):
                    client.send(message)
                client.send('{"is_speaking": false}')
                client.send('{"eof": 1, "is_speaking": false}')
            answers, closed = remaining(client)
        found.append(f"{answers} {closed.code if closed else ''}".encode())
    return found


def grpc_answers(address: str, wav: bytes, chance: random.Random, count: int) -> list[bytes]:
    """Return the answer to each call, or its status and why it was refused."""
    return asyncio.run(_grpc_answers(address, wav, chance, count))


async def _grpc_answers(address: str, wav: bytes, chance: random.Random, count: int) -> list[bytes]:
    async with grpc.aio.insecure_channel(address) as channel:
        return [await _grpc_answer(channel, number, *grpc_call(wav, chance)) for number in range(count)]


async def _grpc_answer(channel: grpc.aio.Channel, number: int, method: str, message: bytes) -> bytes:
    name = f"/{SERVICES[number % 2]}/{method}"
    try:
        if method == "Stream":
            call = channel.stream_stream(name)(iter([message]), timeout=LIMIT_S)
            return b"".join([part async for part in call])
        answer: bytes = await channel.unary_unary(name)(message, timeout=LIMIT_S)
        return answer
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {error.details()}".encode()
