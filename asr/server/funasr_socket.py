"""Answer FunASR's clients by WebSocket, at `/`: the modes `offline`, `online` and `2pass`, with hot words."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.routing import BaseRoute

from asr.audio.recording import Waveform, resample
from asr.recognition.decoding.decoder import Decoder, converter_of, spoken
from asr.recognition.long_audio import Segment
from asr.recognition.timed_text import timed_tokens, timed_words
from asr.server.admission import Ticket
from asr.server.received_audio import pcm_waveform, received_waveform, refuse_too_long
from asr.server.refusal import invalid, too_large
from asr.server.service import RecognitionService
from asr.server.sockets import Talk, json_object, rate_of, socket_route

MODES = ("offline", "online", "2pass")
END = '{"is_speaking": false}'
USUAL_WEIGHT = 20.0  # of FunASR's hot words, which is 1 here
CONTAINERS = (b"RIFF", b"fLaC", b"OggS", b"ID3")  # how a file begins that is sent as plain samples


@dataclass
class _Session:
    mode: str = "2pass"
    name: str = "microphone"
    rate_hz: int = 16_000
    wav_format: str = "pcm"
    decoder: Decoder | None = None
    sent: str = field(default="")  # of the open segment
    before: str = field(default="")  # the previous partial transcript


def funasr_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return the route of FunASR's clients."""

    async def talk(client: Talk) -> None:
        session = _Session()
        message = await client.receive()
        if isinstance(message, str):
            session = await service.run(_session, service, json_object(message))
            message = b""
        converse = _offline if session.mode == "offline" else _live
        await converse(service, client, session, message)

    return [socket_route("/", service, talk, END, subprotocol="binary")]


def _session(service: RecognitionService, fields: dict[str, Any]) -> _Session:
    mode = fields.get("mode", "2pass")
    if mode not in MODES:
        raise invalid(f"`mode`: expected offline, online or 2pass, received {mode!r:.40}", "mode")
    return _Session(
        mode,
        str(fields.get("wav_name", "microphone"))[:200],
        rate_of(fields.get("audio_fs", 16_000)),
        str(fields.get("wav_format", "pcm")).lower(),
        _decoder(service, fields, mode),
    )


def _decoder(service: RecognitionService, fields: dict[str, Any], mode: str) -> Decoder | None:
    """Return a session's decoder, None for the usual one; in `online`, text cannot become a number."""
    favouring = service.decoder_favouring(_hot_words(fields.get("hotwords")))
    if mode != "online" and fields.get("itn") is not False:
        return favouring
    usual = service.recognizer.decoder
    decoder = spoken(favouring or usual)
    return None if decoder is usual else decoder


def _hot_words(value: Any) -> dict[str, float]:
    """Return words and weights from an object, from JSON of one, or from words separated by spaces."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        value = parsed if isinstance(parsed, dict) else dict.fromkeys(value.split(), USUAL_WEIGHT)
    if not isinstance(value, dict):
        return {}
    return {
        str(word): weight / USUAL_WEIGHT
        for word, weight in value.items()
        if isinstance(weight, int | float) and weight > 0
    }


async def _next_samples(client: Talk) -> bytes | None:
    """Return the samples of the next message; None at the end of speech."""
    while True:
        message = await client.receive()
        if isinstance(message, bytes):
            return message
        fields = json_object(message)
        if fields.get("is_speaking") is False or fields.get("is_end"):
            return None


async def _offline(service: RecognitionService, client: Talk, session: _Session, first: bytes) -> None:
    """Receive a whole recording, and answer once."""
    with service.admission.ticket() as ticket:
        data = await _whole(service, client, ticket, first)
        read = functools.partial(_waveform, data, session, service.limits.max_audio_s)
        recognized = await service.recognize(ticket, read, decoder=session.decoder)
        timed = _timed(service, session, recognized.segments)
        await client.send(_message(session, recognized.hypothesis.text, is_final=True) | timed)


async def _whole(service: RecognitionService, client: Talk, ticket: Ticket, first: bytes) -> bytes:
    parts, num_bytes = [first], len(first)
    while (part := await _next_samples(client)) is not None:
        num_bytes += len(part)
        if num_bytes > service.limits.max_body_bytes:
            raise too_large(f"expected at most {service.limits.max_body_mb} MiB; cut the recording")
        ticket.reserve(len(part))
        parts.append(part)
    return b"".join(parts)


def _waveform(data: bytes, session: _Session, max_audio_s: float) -> Waveform:
    if data and (session.wav_format != "pcm" or data.startswith(CONTAINERS)):
        return received_waveform(data, max_audio_s)
    samples = pcm_waveform(data)
    refuse_too_long(len(samples) / session.rate_hz, max_audio_s)
    return resample(samples, session.rate_hz)


async def _live(service: RecognitionService, client: Talk, session: _Session, first: bytes) -> None:
    """Answer while samples come in; in the mode `2pass`, each segment again as a whole when it ends."""
    stream = service.streams.open(session.rate_hz, session.decoder)
    part: bytes | None = first
    while part is not None:
        parts = client.with_received(part, stream.samples_behind)
        update = await stream.feed(np.concatenate([pcm_waveform(one) for one in parts]))
        for segment in update.segments:
            await _send_segment(service, client, session, segment, is_final=False)
        await _send_increment(client, session, update.partial.text)
        part = await _next_samples(client)
    segments = await stream.finish()
    for place, segment in enumerate(segments, start=1):
        await _send_segment(service, client, session, segment, is_final=place == len(segments))
    if not segments:
        await client.send(_message(session, "", is_final=True, ended=True))


async def _send_increment(client: Talk, session: _Session, text: str) -> None:
    """Send what two transcripts in succession agree on, since what was sent cannot be taken back."""
    agreed = len(_common_prefix(text, session.before))
    session.before = text
    if agreed > len(session.sent) and text.startswith(session.sent):
        await client.send(_message(session, text[len(session.sent) : agreed], is_final=False))
        session.sent = text[:agreed]


async def _send_segment(
    service: RecognitionService, client: Talk, session: _Session, segment: Segment, *, is_final: bool
) -> None:
    """Send the end of a segment: what is missing of it, or in `2pass` all of it."""
    text = segment.hypothesis.text
    rest = text[len(session.sent) :]
    session.sent = session.before = ""
    if session.mode == "2pass":
        timed = _timed(service, session, (segment,))
        await client.send(_message(session, text, is_final=is_final, ended=True) | timed)
    elif rest or is_final:
        await client.send(_message(session, rest, is_final=is_final))


def _message(session: _Session, text: str, *, is_final: bool, ended: bool = False) -> dict[str, Any]:
    mode = session.mode
    if mode == "2pass":
        mode = "2pass-offline" if ended else "2pass-online"
    return {"mode": mode, "text": text, "wav_name": session.name, "is_final": is_final}


def _timed(service: RecognitionService, session: _Session, segments: tuple[Segment, ...]) -> dict[str, Any]:
    """Return the times of tokens in milliseconds, as text, and those of segments."""
    spans = [_spans_ms(segment) for segment in segments]
    times = json.dumps([span for part in spans for span in part], separators=(",", ":"))
    sentences = [
        {
            "text_seg": _spaced(service, session, segment),
            "punc": "",
            "start": part[0][0],
            "end": part[-1][1],
            "ts_list": part,
        }
        for segment, part in zip(segments, spans, strict=True)
    ]
    return {"timestamp": times, "stamp_sents": sentences}


def _spans_ms(segment: Segment) -> list[list[int]]:
    return [[round(1000 * one.start_s), round(1000 * one.end_s)] for one in timed_tokens(segment)]


def _spaced(service: RecognitionService, session: _Session, segment: Segment) -> str:
    """Return the text of a segment with a space between its units: characters in Mandarin."""
    recognizer = service.recognizer
    converter = converter_of(session.decoder or recognizer.decoder)
    words = [word.token for word in timed_words(segment, recognizer.vocabulary, converter)]
    return " ".join("".join(words) if converter else words)


def _common_prefix(text: str, other: str) -> str:
    size = min(len(text), len(other))
    differing = (place for place in range(size) if text[place] != other[place])
    return text[: next(differing, size)]
