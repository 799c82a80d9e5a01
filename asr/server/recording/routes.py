"""The requests of the recording page, below `/record/`; bodies and answers are JSON but for recordings.

GET    /record/session                what the speaker has recorded, and what remains
POST   /record/takes/ID?keep=1        a WAV file; it is on the disk before the answer says "kept"
GET    /record/takes/ID               the take as FLAC
DELETE /record/takes/ID               removes it
POST   /record/takes/ID/accept        keeps a take that is in doubt
GET    /record/checks?after=N         results of the check of what was said, once there are new ones
POST   /record/finish                 writes the manifests

The speaker is known by the key of the link, `Authorization: Bearer KEY`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from asr.base.errors import UserError
from asr.server.recording.received_take import received_take
from asr.server.recording.service import RecordingService
from asr.server.requests.request_body import receive_body
from asr.server.requests.request_errors import RefusalError, invalid

logger = logging.getLogger(__name__)

FOLDER = "/record/"


def recording_routes(service: RecordingService) -> list[BaseRoute]:
    """Return the routes of the recording page's requests."""
    collection = service.collection

    async def found(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            result = await service.run(function, *arguments)
        except UserError as error:
            logger.error("%s", error)  # with the path, which is none of the speaker's business
            reason = "this server cannot write to its disk; free space there, its log has the reason"
            raise RefusalError(507, "not_stored", reason) from None
        if result is None:
            raise RefusalError(404, "not_found", "there is no such sentence, or no take of it")
        return result

    async def answered(function: Callable[..., Any], *arguments: Any) -> Response:
        return JSONResponse(await found(function, *arguments))

    async def session(request: Request) -> Response:
        return await answered(collection.session, service.speaker_of(request))

    async def record(request: Request) -> Response:
        speaker, prompt = service.speaker_of(request), request.path_params["prompt"]
        with service.admission.ticket() as ticket:
            body = await receive_body(request, ticket, service.limits)
            keep = request.query_params.get("keep") == "1"

            def judge_and_store() -> Any:
                samples, rate_hz = received_take(body)
                return collection.record(speaker, prompt, samples, rate_hz, keep=keep)

            # at once, so that only the takes in the hands of a thread are in memory as samples
            return await answered(judge_and_store)

    async def recording(request: Request) -> Response:
        prompt = request.path_params["prompt"]
        flac = await found(collection.recording, service.speaker_of(request), prompt)
        return Response(flac, media_type="audio/flac", headers={"Cache-Control": "no-store"})

    async def drop(request: Request) -> Response:
        return await answered(collection.drop, service.speaker_of(request), request.path_params["prompt"])

    async def accept(request: Request) -> Response:
        return await answered(collection.accept, service.speaker_of(request), request.path_params["prompt"])

    async def checks(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 10):
            raise invalid(f"expected the number `last` of an earlier answer, received {after!r:.40}", "after")
        return JSONResponse(await service.checked(service.speaker_of(request), int(after)))

    async def finish(request: Request) -> Response:
        return await answered(collection.finish)

    take = f"{FOLDER}takes/{{prompt}}"
    return [
        Route(f"{FOLDER}session", session, methods=["GET"]),
        Route(take, record, methods=["POST"]),
        Route(take, recording, methods=["GET"]),
        Route(take, drop, methods=["DELETE"]),
        Route(f"{take}/accept", accept, methods=["POST"]),
        Route(f"{FOLDER}checks", checks, methods=["GET"]),
        Route(f"{FOLDER}finish", finish, methods=["POST"]),
    ]
