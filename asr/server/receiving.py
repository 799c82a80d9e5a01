"""Receive the bodies of requests within limits: never on disk, and never more than was reserved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from asr.server.admission import Ticket
from asr.server.limits import Limits
from asr.server.refusal import RefusalError, invalid, too_large

MAX_FIELDS = 64
MAX_FIELD_BYTES = 64 << 10
GONE = 499  # status in logs, where the client did not wait for an answer

Result = TypeVar("Result")


@dataclass(frozen=True)
class Form:
    """Holds the parts of a form.

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
        RefusalError: it is compressed, larger than the limit, or the client is gone.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusalError(415, "unsupported_encoding", "a compressed body is not accepted; send it as it is")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.max_body_bytes:
        await _discard(request, limits)
        raise _body_too_large(limits)
    num_bytes = 0
    try:
        async for chunk in request.stream():
            num_bytes += len(chunk)
            if num_bytes > limits.max_body_bytes:
                await _discard(request, limits)
                raise _body_too_large(limits)
            ticket.reserve(len(chunk))
            yield chunk
    except ClientDisconnect:
        raise RefusalError(GONE, "client_gone", "the client closed the connection") from None


async def _discard(request: Request, limits: Limits) -> None:
    """Read the rest of a body up to the limit again: a client that still sends would not read the answer."""
    num_bytes = 0
    while num_bytes < limits.max_body_bytes:
        message = await request.receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
        num_bytes += len(message["body"])


def _body_too_large(limits: Limits) -> RefusalError:
    return too_large(f"expected a body of at most {limits.max_body_mb} MiB; cut or compress the recording")


async def receive_body(request: Request, ticket: Ticket, limits: Limits) -> bytes:
    """Return the whole body of a request; see `body_chunks`."""
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
        parts = await parser.parse()
    except MultiPartException as error:
        raise invalid(f"expected a form ({error.message})", code="invalid_form") from None
    fields: dict[str, list[str]] = {}
    files: dict[str, bytes] = {}
    for name, value in parts.multi_items():
        if isinstance(value, UploadFile):
            files[name] = value.file.read()
            value.file.close()
        else:
            fields.setdefault(name, []).append(value)
    return Form(fields, files)


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of work for a client whose body was received; cancel it if the client goes away.

    Raises:
        RefusalError: the client is gone.
    """
    job = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((job, gone), return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise RefusalError(GONE, "client_gone", "the client closed the connection")
        return job.result()
    finally:
        gone.cancel()
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
