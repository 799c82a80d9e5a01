"""Answer OpenAI's clients: `/v1/audio/transcriptions` and `/v1/models`."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from asr.base.text.wording import listed
from asr.server.requests.admission import Ticket
from asr.server.requests.received_audio import received_waveform
from asr.server.requests.request_body import Form, receive_form, while_connected
from asr.server.requests.request_errors import RefusalError, invalid
from asr.server.service import RecognitionService
from asr.server.streaming_response import recognized_progressively
from asr.transcription.formats import format_transcript
from asr.transcription.transcript import Segment, Transcript

FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
GRANULARITIES = ("word", "segment")
Answer = Callable[[RecognitionService, Transcript], Response]
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}


def openai_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return the routes of OpenAI's clients."""
    model = {"id": service.name, "object": "model", "created": 0, "owned_by": "polyphone"}

    async def transcriptions(request: Request) -> Response:
        with ExitStack() as stack:
            ticket = stack.enter_context(service.admission.ticket())
            form = await receive_form(request, ticket, service.limits)
            read = functools.partial(
                received_waveform, file_of(form), service.limits.max_audio_s, ticket.reserve_samples
            )
            answer = _answer_of(form)
            if form.one("stream").lower() in ("true", "1"):
                events = _events(service, ticket, read, stack.pop_all())
                return StreamingResponse(events, media_type="text/event-stream")
            return answer(service, await while_connected(request, service.recognize(ticket, read)))

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [model]})

    async def one_model(request: Request) -> Response:
        if request.path_params["name"] != service.name:
            raise RefusalError(404, "model_not_found", f"the model here is {service.name}", param="model")
        return JSONResponse(model)

    return [
        Route("/v1/audio/transcriptions", transcriptions, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", one_model),
    ]


def openai_refusal(refusal: RefusalError) -> Response:
    """Return why a request is refused."""
    return JSONResponse({"error": error_fields(refusal)}, refusal.status, refusal.headers)


def error_fields(refusal: RefusalError) -> dict[str, str | None]:
    """Return the fields of an error."""
    kind = ERROR_TYPES.get(refusal.status, "invalid_request_error")
    return {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}


def file_of(form: Form) -> bytes:
    """Return the recording that a form holds.

    Raises:
        RefusalError: it holds none.
    """
    if "file" not in form.files:
        raise invalid("`file`: expected a recording, received none", "file", "missing_required_parameter")
    return form.files["file"]


def _answer_of(form: Form) -> Answer:
    """Return the function that writes the answer that a form asks for.

    Raises:
        RefusalError: it asks for what does not exist.
    """
    name = form.one("response_format", "json")
    granularities = form.fields.get("timestamp_granularities[]", [])
    if name not in FORMATS:
        expected = listed(list(FORMATS), len(FORMATS))
        raise invalid(f"`response_format`: expected {expected}, received {name!r:.40}", "response_format")
    if not set(granularities) <= set(GRANULARITIES):
        raise invalid("`timestamp_granularities[]`: expected word or segment", "timestamp_granularities[]")
    if granularities and name != "verbose_json":
        reason = "`timestamp_granularities[]`: only verbose_json has times; set `response_format` to it"
        raise invalid(reason, "timestamp_granularities[]")
    if name == "verbose_json":
        return functools.partial(_verbose, granularities or ["segment"], form.one("language"))
    answers: dict[str, Answer] = {
        "json": lambda _, transcript: JSONResponse({"text": transcript.text, "usage": _usage(transcript)}),
        "text": lambda _, transcript: PlainTextResponse(transcript.text + "\n"),
        "srt": lambda _, transcript: PlainTextResponse(format_transcript(transcript, "srt")),
        "vtt": lambda _, transcript: Response(format_transcript(transcript, "vtt"), media_type="text/vtt"),
    }
    return answers[name]


def _verbose(
    granularities: list[str], language: str, service: RecognitionService, transcript: Transcript
) -> Response:
    vocabulary = service.recognizer.vocabulary
    fields: dict[str, Any] = {
        "task": "transcribe",
        "language": "chinese" if vocabulary.is_mandarin else language or "unknown",
        "duration": round(transcript.duration_s, 3),
        "text": transcript.text,
        "usage": _usage(transcript),
    }
    if "segment" in granularities:
        fields["segments"] = [
            _segment(number, segment, vocabulary.encode_known(segment.tokens))
            for number, segment in enumerate(transcript.segments)
        ]
    if "word" in granularities:
        fields["words"] = [
            {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
            for word in transcript.words
        ]
    return JSONResponse(fields)


def _segment(number: int, segment: Segment, token_ids: list[int]) -> dict[str, Any]:
    """Return a segment with the fields of OpenAI's, of which clients miss any that is left out."""
    confidences = segment.confidences
    start_s, end_s = segment.spoken_s
    mean = sum(math.log(max(one, 1e-10)) for one in confidences) / max(1, len(confidences))
    return {
        "id": number,
        "seek": round(start_s * 100),
        "start": round(start_s, 3),
        "end": round(end_s, 3),
        "text": segment.text,
        "tokens": token_ids,
        "temperature": 0.0,
        "avg_logprob": round(mean, 4),
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }


def _usage(transcript: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(transcript.duration_s)}


async def _events(
    service: RecognitionService, ticket: Ticket, read: Callable[[], Any], stack: ExitStack
) -> AsyncIterator[str]:
    """Yield the text of each segment as it is recognized, then the whole; together they are the same."""
    with stack:
        gap = ""
        try:
            async with aclosing(recognized_progressively(service, ticket, read)) as found:
                async for part in found:
                    if isinstance(part, Segment):
                        delta = gap + part.text
                        yield _event({"type": "transcript.text.delta", "delta": delta})
                        gap = " "
                    else:
                        done = {"type": "transcript.text.done", "text": part.text}
                        yield _event({**done, "usage": _usage(part)})
            yield "data: [DONE]\n\n"
        except RefusalError as refusal:
            yield _event({"error": error_fields(refusal)})


def _event(fields: dict[str, Any]) -> str:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n"
