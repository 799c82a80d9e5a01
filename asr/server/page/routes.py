"""Serve the page at `/`, its files, and what it asks of the server."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from asr.base.version import __version__
from asr.server.page.examples import example_calls
from asr.server.page.files import HEADERS, file_route
from asr.server.page.transcript import segment_fields, transcript_fields
from asr.server.protocols.openai_http import error_fields, file_of
from asr.server.requests.gate import PAGE_FOLDER
from asr.server.requests.hot_words import hot_word_weights
from asr.server.requests.limits import MAX_HOT_WORD_CHARS
from asr.server.requests.received_audio import received_waveform
from asr.server.requests.request_body import receive_form, while_connected
from asr.server.requests.request_errors import RefusalError
from asr.server.service import RecognitionService
from asr.server.streaming_response import recognized_progressively
from asr.transcription.transcript import Segment, Transcript

LINES = "application/x-ndjson"


def page_routes(service: RecognitionService, *, needs_token: bool) -> list[BaseRoute]:
    """Return the routes of the page.

    Args:
        service: recognizes.
        needs_token: whether clients must send a token.
    """

    async def page(request: Request) -> Response:
        from asr.pages.page import render

        values = {
            "name": service.name,
            "calls": example_calls(str(request.base_url).rstrip("/"), service.name, needs_token),
            "version": __version__,
            "max_audio_s": service.limits.max_audio_s,
            "max_body_mb": service.limits.max_body_mb,
            "max_hot_words": service.limits.max_hot_words,
            "max_hot_word_chars": MAX_HOT_WORD_CHARS,
        }
        return HTMLResponse(render(__package__, "home.html", **values), headers=HEADERS)

    async def transcribe(request: Request) -> Response:
        with ExitStack() as stack:
            ticket = stack.enter_context(service.admission.ticket())
            form = await receive_form(request, ticket, service.limits)
            read = functools.partial(
                received_waveform, file_of(form), service.limits.max_audio_s, ticket.reserve_samples
            )
            weights = hot_word_weights(form.one("hot_words"))
            decoder = await while_connected(request, service.decoder_favouring(weights))
            parts = recognized_progressively(service, ticket, read, decoder)
            lines = _lines(parts, stack.pop_all())
            return StreamingResponse(lines, media_type=LINES, headers=HEADERS)

    return [
        Route("/", page, methods=["GET"]),
        Route(f"{PAGE_FOLDER}transcribe", transcribe, methods=["POST"]),
        file_route(__package__),
    ]


async def _lines(parts: AsyncGenerator[Segment | Transcript, None], stack: ExitStack) -> AsyncIterator[str]:
    """Yield a line of JSON for each segment as it is recognized, then one for the whole, or for an error."""
    with stack:
        try:
            async with aclosing(parts):
                async for part in parts:
                    if isinstance(part, Segment):
                        yield _line({"segment": segment_fields(part)})
                    else:
                        yield _line({"done": transcript_fields(part)})
        except RefusalError as refusal:
            yield _line({"error": error_fields(refusal)})


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"
