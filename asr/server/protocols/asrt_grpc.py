"""Answer ASRT's clients by gRPC: Speech, Language, All and Stream, under both names that its SDKs call."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from typing_extensions import override

from asr.base.errors import UserError
from asr.server.certificate import Certificate
from asr.server.protocols.asrt_http import OK, plain_waveform
from asr.server.protocols.asrt_messages import LanguageRequest, SpeechRequest, SpeechResponse, TextResponse
from asr.server.requests.gate import report
from asr.server.requests.inbox import Inbox
from asr.server.requests.limits import MAX_SYLLABLES
from asr.server.requests.request_errors import RefusalError, invalid, unavailable
from asr.server.service import RecognitionService
from asr.server.serving import SideServer, refuse_bad_port
from asr.transcription.text_writer import TextWriter
from asr.transcription.transcript import Transcript

SERVICES = ("asrt.AsrtGrpcService", "ailemon.asrt.grpc.AsrtGrpcService")  # the latter by the C# SDK
PARTIAL = 206_000  # of an answer that a later one replaces
SENTENCE_TOKENS = 40  # after which an answer is final

STATUSES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}

Context = Any  # grpc.aio.ServicerContext, which is generic in its stubs only


class AsrtGrpc(SideServer):
    """The server of ASRT's gRPC interface.

    Args:
        service: recognizes.
        host: address to listen at.
        port: of that address; 0 for any that is free, which `start` then puts in its place.
        token: that clients must send in the metadata `authorization`, as by HTTP; empty for none.
        certificate: for TLS; None for none.
    """

    def __init__(
        self,
        service: RecognitionService,
        host: str,
        port: int,
        token: str = "",
        certificate: Certificate | None = None,
    ) -> None:
        refuse_bad_port("grpc_port", port)
        self._service, self._token, self._certificate = service, token.encode(), certificate
        self._host, self.port = host, port
        self._server: Any = None

    @override
    async def start(self) -> None:
        """Listen at the address, in the running event loop.

        Raises:
            UserError: the address is in use.
        """
        limits = self._service.limits
        options = [("grpc.max_receive_message_length", limits.max_body_bytes), ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=limits.max_connections)
        for name in SERVICES:
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, self._methods()),))
        host, certificate = self._host, self._certificate
        address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        try:
            if certificate is None:
                self.port = server.add_insecure_port(address)
            else:
                pair = (certificate.key.read_bytes(), certificate.certificate.read_bytes())
                self.port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        except RuntimeError:
            raise UserError(f"`grpc_port={self.port}`: cannot listen there; choose another") from None
        self._server = server
        await server.start()

    @override
    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(self._service.limits.drain_s)

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        return {
            "Speech": _unary(self._speech),
            "Language": _unary(self._language),
            "All": _unary(self._all),
            "Stream": grpc.stream_stream_rpc_method_handler(
                self._stream, response_serializer=TextResponse.SerializeToString
            ),
        }

    async def _speech(self, requests: AsyncIterator[bytes], context: Context) -> Any:
        found = await self._answer("Speech", requests, context, self._recognized)
        return SpeechResponse(status_code=OK, result_data=found.tokens)

    async def _all(self, requests: AsyncIterator[bytes], context: Context) -> Any:
        found = await self._answer("All", requests, context, self._recognized)
        return TextResponse(status_code=OK, text_result=found.text)

    async def _language(self, requests: AsyncIterator[bytes], context: Context) -> Any:
        text = await self._answer("Language", requests, context, self._converted)
        return TextResponse(status_code=OK, text_result=text)

    async def _stream(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        """Answer each piece of audio with the text of the open sentence, which ends with a silent piece."""
        inbox: Inbox[bytes] = Inbox(self._service.limits.stream_idle_s, len)
        receiving = asyncio.ensure_future(_receive(requests, inbox))
        try:
            with self._reported("Stream", context):
                self._check(context)
                with self._service.streams.slot(inbox.stop):
                    async for answer in self._sentences(inbox):
                        yield answer
                if inbox.stopped:
                    raise unavailable("stopping", "this server is stopping")
        except RefusalError as refusal:
            await _abort(context, refusal)
        finally:
            receiving.cancel()

    async def _sentences(self, inbox: Inbox[bytes]) -> AsyncIterator[Any]:
        sentence: list[str] = []
        text = ""
        try:
            while (request := await inbox.take()) is not None:
                found = await self._recognized(request, begun=True)
                sentence += found.tokens
                text = await self._service.run(self._text_of, sentence)
                if sentence and (not found.tokens or len(sentence) >= SENTENCE_TOKENS):
                    yield TextResponse(status_code=OK, text_result=text)
                    sentence, text = [], ""
                elif sentence:
                    yield TextResponse(status_code=PARTIAL, text_result=text)
        except RefusalError:
            if text:
                yield TextResponse(status_code=OK, text_result=text)
            raise
        yield TextResponse(status_code=OK, text_result=text)

    async def _answer(
        self,
        method: str,
        requests: AsyncIterator[bytes],
        context: Context,
        work: Callable[[bytes], Awaitable[Any]],
    ) -> Any:
        """Return the result of work on a call's message, or end the call with the status of its refusal."""
        try:
            with self._reported(method, context):
                self._check(context)
                return await work(await self._message(requests))
        except RefusalError as refusal:
            await _abort(context, refusal)

    @contextlib.contextmanager
    def _reported(self, method: str, context: Context) -> Iterator[None]:
        """Count and log a call, with the status that HTTP would have; 0 where the client has gone."""
        began_s, status = time.monotonic(), 0
        peer = unquote(context.peer())  # now: grpc crashes if it is asked after the call
        client = peer.partition(":")[2].rpartition(":")[0].strip("[]")
        try:
            yield
            status = 200
        except RefusalError as refusal:
            status = refusal.status
            raise
        except Exception:
            status = 500
            raise
        finally:
            report(self._service.metrics, "GRPC", f"grpc/{method}", status, began_s, client)

    async def _message(self, requests: AsyncIterator[bytes]) -> bytes:
        limit_s = self._service.limits.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await anext(requests)
        except StopAsyncIteration:
            raise invalid("expected a message, received none") from None
        except TimeoutError:
            raise RefusalError(408, "timeout", f"no message within {limit_s:g} s; send it again") from None

    def _check(self, context: Context) -> None:
        sent = dict(context.invocation_metadata() or ()).get("authorization", "")
        if self._token and not hmac.compare_digest(str(sent).encode(), b"Bearer " + self._token):
            raise RefusalError(401, "invalid_api_key", "expected this server's token (authorization: Bearer)")

    async def _recognized(self, request: bytes, *, begun: bool = False) -> Transcript:
        with self._service.admission.ticket(begun=begun) as ticket:
            ticket.reserve(len(request))
            data = _parsed(SpeechRequest, request).wav_data
            read = functools.partial(
                plain_waveform,
                data.samples,
                data.sample_rate,
                data.channels,
                data.byte_width,
                self._service.limits,
            )
            return await self._service.recognize(ticket, read)

    async def _converted(self, request: bytes) -> str:
        syllables = list(_parsed(LanguageRequest, request).pinyins)
        if len(syllables) > MAX_SYLLABLES:
            raise invalid(f"`pinyins`: expected at most {MAX_SYLLABLES} syllables")
        with self._service.admission.ticket():
            text: str = await self._service.run(self._service.converted, syllables)
            return text

    def _text_of(self, tokens: list[str]) -> str:
        vocabulary = self._service.recognizer.vocabulary
        if vocabulary.is_mandarin:
            return TextWriter(vocabulary, self._service.converter).text(tokens)
        return vocabulary.join(tokens)


def _parsed(kind: Any, message: bytes) -> Any:
    """Return a message; grpc itself would answer one that is broken as if the server had failed."""
    try:
        return kind.FromString(message)
    except DecodeError:
        raise invalid("expected a message of ASRT's interface, received other bytes") from None


async def _receive(requests: AsyncIterator[bytes], inbox: Inbox[bytes]) -> None:
    try:
        async for request in requests:
            await inbox.put(request)
    finally:
        inbox.end()


async def _abort(context: Context, refusal: RefusalError) -> None:
    """End a call with the status of its refusal."""
    await context.abort(STATUSES.get(refusal.status, grpc.StatusCode.UNKNOWN), refusal.message)


def _unary(function: Any) -> grpc.RpcMethodHandler:
    # grpc itself would wait for a single message without a limit, before it calls the function
    return grpc.stream_unary_rpc_method_handler(
        function, response_serializer=lambda answer: answer.SerializeToString()
    )
