"""Answer ASRT's clients by HTTP: `/speech`, `/language` and `/all`.

The HTTP status is 200 for every answer to a request that was understood or not, also where it asks for an
unknown level such as `/words`; only overload, a missing token and a server that is stopping have another one.
There is no limit of 16 s.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform
from asr.server.requests.admission import Ticket
from asr.server.requests.limits import MAX_CHANNELS, MAX_SYLLABLES, Limits
from asr.server.requests.received_audio import pcm_waveform, refuse_too_long
from asr.server.requests.request_body import receive_body, while_connected
from asr.server.requests.request_errors import RefusalError
from asr.server.service import RecognitionService
from asr.transcription.transcript import Transcript

OK = 200_000
CLIENT_ERROR = 400_000
FORMAT_ERROR = 400_001
SERVER_ERROR = 500_000  # ASRT's answer to whatever it cannot process

HTTP_STATUSES = (401, 403, 404, 405, 408, 429, 503)  # that clients are to see as such
PATHS = ("/", "/speech", "/language", "/all")
URL_SAFE = bytes.maketrans(b"-_", b"+/")


class _UnprocessableError(RefusalError):
    def __init__(self, message: str, status_code: int = SERVER_ERROR) -> None:
        super().__init__(400, str(status_code), message)


def asrt_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return the routes of ASRT's clients."""

    async def recognized(request: Request, ticket: Ticket) -> Transcript:
        body = await receive_body(request, ticket, service.limits)
        read = functools.partial(_waveform, body, service.limits)
        return await while_connected(request, service.recognize(ticket, read))

    async def speech(request: Request) -> Response:
        with service.admission.ticket() as ticket:
            found = await recognized(request, ticket)
        return asrt_answer(OK, "speech level", list(found.tokens))

    async def everything(request: Request) -> Response:
        with service.admission.ticket() as ticket:
            found = await recognized(request, ticket)
        return asrt_answer(OK, "all level", found.text)

    async def language(request: Request) -> Response:
        with service.admission.ticket() as ticket:
            body = await receive_body(request, ticket, service.limits)
            text = await while_connected(request, service.run(_converted, service, body))
        return asrt_answer(OK, "language level", text)

    async def nothing(request: Request) -> Response:
        return asrt_answer(OK, "ok", "")

    return [
        Route("/speech", speech, methods=["POST"]),
        Route("/all", everything, methods=["POST"]),
        Route("/language", language, methods=["POST"]),
        Route("/", nothing, methods=["POST"]),
    ]


def asrt_answer(
    status_code: int, message: str, result: str | list[str], status: int = 200, **headers: str
) -> Response:
    """Return an answer: JSON in ASCII with sorted keys."""
    fields = {"result": result, "status_code": status_code, "status_message": message}
    text = json.dumps(fields, sort_keys=True)
    return Response(text, status, headers, media_type="application/json")


def asrt_refusal(refusal: RefusalError) -> Response:
    """Return why a request is refused."""
    if isinstance(refusal, _UnprocessableError):
        return asrt_answer(int(refusal.code), refusal.message, "")
    status = refusal.status if refusal.status in HTTP_STATUSES else 200
    code = SERVER_ERROR if refusal.status >= 500 else CLIENT_ERROR
    return asrt_answer(code, refusal.message, "", status, **refusal.headers)


def is_unknown_level(request: Request) -> bool:
    """Return whether a request asks for a level that ASRT has not, not for a path of another protocol."""
    has_form = request.headers.get("content-type", "").startswith("multipart/")
    return request.method == "POST" and request.url.path.count("/") == 1 and not has_form


def unknown_level() -> Response:
    """Return ASRT's answer to a request for a level that it has not."""
    return asrt_answer(CLIENT_ERROR, "", "")


def _fields(body: bytes) -> dict[str, Any]:
    try:
        # as objects of Python, a body of brackets and commas would take a hundred times its memory
        fields = json.loads(body) if sum(map(body.count, b"[{,")) <= MAX_SYLLABLES + 10 else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise _UnprocessableError("expected a body that is a JSON object", FORMAT_ERROR)
    return fields


def _waveform(body: bytes, limits: Limits) -> Waveform:
    """Return the samples of a body, none for an empty last piece of a recording that a client has cut."""
    fields = _fields(body)
    samples = fields.get("samples")
    if not isinstance(samples, str):
        raise _UnprocessableError("`samples`: expected plain samples in base64")
    try:
        data = base64.b64decode(samples.encode("ascii").translate(URL_SAFE))
    except (binascii.Error, ValueError) as error:
        raise _UnprocessableError(f"`samples`: expected base64 ({error})") from None
    return plain_waveform(
        data, fields.get("sample_rate"), fields.get("channels"), fields.get("byte_width"), limits
    )


def plain_waveform(
    data: bytes, rate_hz: object, num_channels: object, byte_width: object, limits: Limits
) -> Waveform:
    """Return the first channel of plain samples, nothing of what is shorter than a window.

    Args:
        data: interleaved samples.
        rate_hz: as a client states it, as the next two.
        num_channels: at least 1.
        byte_width: of a sample.
        limits: of the server.

    Raises:
        RefusalError: they are not what ASRT's clients send, or too many.
    """
    if rate_hz != SAMPLE_RATE_HZ:
        raise _UnprocessableError(f"`sample_rate`: expected {SAMPLE_RATE_HZ}, received {rate_hz!r:.40}")
    if byte_width not in (2, 4):
        raise _UnprocessableError(f"`byte_width`: expected 2 or 4, received {byte_width!r:.40}")
    if type(num_channels) is not int or not 1 <= num_channels <= MAX_CHANNELS:  # true is an int, too
        raise _UnprocessableError(f"`channels`: expected 1 to {MAX_CHANNELS}, received {num_channels!r:.40}")
    waveform = pcm_waveform(data, num_channels, 2 if byte_width == 2 else 4)
    refuse_too_long(len(waveform) / SAMPLE_RATE_HZ, limits.max_audio_s, "samples")
    return waveform if len(waveform) >= WINDOW_SAMPLES else np.zeros(0, np.int16)


def _converted(service: RecognitionService, body: bytes) -> str:
    syllables = _fields(body).get("sequence_pinyin")
    if not isinstance(syllables, list) or not all(isinstance(one, str) for one in syllables):
        raise _UnprocessableError("`sequence_pinyin`: expected a list of syllables")
    if len(syllables) > MAX_SYLLABLES:
        raise _UnprocessableError(f"`sequence_pinyin`: expected at most {MAX_SYLLABLES} syllables")
    return service.converted(syllables)
