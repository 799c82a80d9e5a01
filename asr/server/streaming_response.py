"""Recognize a recording for a client that reads its segments while the rest is recognized."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from asr.audio.recording import Waveform
from asr.server.requests.admission import Ticket
from asr.server.requests.request_body import drop
from asr.server.service import RecognitionService
from asr.transcription.decoder import Decoder
from asr.transcription.transcript import Segment, Transcript


async def recognized_progressively(
    service: RecognitionService, ticket: Ticket, read: Callable[[], Waveform], decoder: Decoder | None = None
) -> AsyncGenerator[Segment | Transcript, None]:
    """Yield each segment of a recording once it is recognized, then the whole transcript.

    Closing the generator drops the work; see `RecognitionService.recognize`.

    Raises:
        RefusalError: the recording cannot be read.
    """
    segments: asyncio.Queue[Segment | None] = asyncio.Queue()
    job = asyncio.ensure_future(service.recognize(ticket, read, segments.put_nowait, decoder))
    job.add_done_callback(lambda _: segments.put_nowait(None))
    try:
        while (segment := await segments.get()) is not None:
            yield segment
        yield job.result()
    finally:
        await drop(job)
