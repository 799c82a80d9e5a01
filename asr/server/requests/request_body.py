"""Receive the bodies of requests within limits: never on disk, and never more than was reserved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from asr.base.text.wording import counted
from asr.server.requests.admission import Ticket
from asr.server.requests.limits import Limits
from asr.server.requests.request_errors import RefusalError, invalid, too_large

MAX_FIELDS = 64
MAX_FIELD_BYTES = 64 << 10
BODY_IDLE_S = 20.0  # in which a body must continue
MIN_BYTES_PER_S = 1024  # of a body as a whole, a third of the slowest speech codec's
GONE = 499  # status in logs, where the client did not wait for an answer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Form:
    """The parts of a form.

    Attributes:
        fields: the values of each field.
        files: the contents of files.
    """

    fields: Mapping[str, list[str]]
    files: Mapping[str, bytes]

    def one(self, name: str, default: str = "") -> str:
        """Return the last value of a field."""
        return self.fields.get(name, [default])[-1]


class _InMemoryParser(MultiPartParser):
    spool_max_size = 0  # of a file in memory: without a limit, since the body has one


async def body_chunks(request: Request, ticket: Ticket, limits: Limits) -> AsyncGenerator[bytes, None]:
    """Yield a body as it arrives, and reserve its memory.

    Raises:
        RefusalError: it is compressed, larger than the limit, or too slow, or the client is gone.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusalError(415, "unsupported_encoding", "a compressed body is not accepted; send it as it is")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.max_body_bytes:
        raise _body_too_large(limits)
    num_bytes = 0
    async for chunk in _in_time(request):
        num_bytes += len(chunk)
        if num_bytes > limits.max_body_bytes:
            raise _body_too_large(limits)
        ticket.reserve(len(chunk))
        yield chunk


async def _in_time(request: Request) -> AsyncGenerator[bytes, None]:
    """Yield a body as it arrives; refuse one that pauses for too long, or comes in drops."""
    loop = asyncio.get_running_loop()
    began_s, num_bytes = loop.time(), 0
    chunks = request.stream()
    try:
        while True:
            late_s = BODY_IDLE_S + min(loop.time(), began_s + num_bytes / MIN_BYTES_PER_S)
            async with asyncio.timeout_at(late_s):
                chunk = await anext(chunks)
            num_bytes += len(chunk)
            yield chunk
    except StopAsyncIteration:
        return
    except ClientDisconnect:
        raise RefusalError(GONE, "client_gone", "the client closed the connection") from None
    except TimeoutError:
        received = counted(num_bytes, "byte")
        reason = f"{received} of the body came, then too little for {BODY_IDLE_S:g} s; send it again"
        raise RefusalError(408, "timeout", reason) from None


def _body_too_large(limits: Limits) -> RefusalError:
    return too_large(f"expected a body of at most {limits.max_body_mb} MiB; cut or compress the recording")


async def receive_body(request: Request, ticket: Ticket, limits: Limits) -> bytes:
    """Return the whole body of a request; see `body_chunks`."""
    with ticket.arriving():
        return b"".join([chunk async for chunk in body_chunks(request, ticket, limits)])


async def receive_form(request: Request, ticket: Ticket, limits: Limits) -> Form:
    """Return the parts of a form with at most one file; see `body_chunks`.

    Raises:
        RefusalError: the body is no form, or a broken one.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise invalid("expected a form (multipart/form-data)", code="invalid_form")
    chunks = body_chunks(request, ticket, limits)
    parser = _InMemoryParser(
        request.headers, chunks, max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
    )
    try:
        with ticket.arriving():
            parts = await parser.parse()
    except MultiPartException as error:
        raise invalid(f"expected a form ({_reason(error)})", code="invalid_form") from None
    fields: dict[str, list[str]] = {}
    files: dict[str, bytes] = {}
    for name, value in parts.multi_items():
        if isinstance(value, UploadFile):
            files[name] = value.file.read()
            value.file.close()
        else:
            fields.setdefault(name, []).append(value)
    return Form(fields, files)


def _reason(error: MultiPartException) -> str:
    """Return why a form cannot be read; the parser's own words where Starlette has none but "invalid"."""
    reason = str(error.__cause__ or error.message)
    if "header" in reason.lower() and "size" in reason.lower():
        return "the headers of a part are longer than 4 KiB; shorten the name of the file"
    return reason


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work for a client whose body was received; see `unless`."""
    return await unless(_disconnected(request), work)


async def unless(gone: Coroutine[Any, Any, None], work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work; cancel it if its client goes away.

    Args:
        gone: ends when the client goes away.
        work: for the client.

    Raises:
        RefusalError: the client is gone.
    """
    job, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait((job, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise RefusalError(GONE, "client_gone", "the client closed the connection")
        return job.result()
    finally:
        leaving.cancel()
        await drop(job)


async def drop(job: asyncio.Future[Any]) -> None:
    """Cancel a job whose result nobody needs, and wait until it ends; until then its request counts."""
    job.cancel()
    await asyncio.wait((job,))
    if not job.cancelled():
        job.exception()  # an error that nobody reads would be logged as a failure of the server


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
