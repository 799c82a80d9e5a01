"""Answer FunASR's clients by WebSocket: the modes `offline`, `online` and `2pass`, with hot words.

A client whose end of speech has `is_end` gets an answer to it, and may send the next recording.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asr.audio.media.kinds import ADTS, PROGRAM_STREAM, TRANSPORT_STREAM, media_kind
from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, resample
from asr.server.protocols.sockets import ClientSocket, Message, json_object, rate_of
from asr.server.requests.admission import Ticket
from asr.server.requests.hot_words import hot_word_weight, hot_word_weights
from asr.server.requests.received_audio import (
    SAMPLE_BYTES,
    pcm_waveform,
    received_waveform,
    refuse_too_long,
)
from asr.server.requests.request_errors import RefusalError, invalid, too_large
from asr.server.service import RecognitionService
from asr.server.streams import LiveStream
from asr.transcription.decoder import Decoder
from asr.transcription.transcript import Segment, Token, Word

MODES = ("offline", "online", "2pass")
SETTINGS = {"mode", "wav_name", "audio_fs", "wav_format", "hotwords", "itn"}
FIELDS = SETTINGS | {"is_speaking", "is_end", "chunk_size", "chunk_interval"}  # of text messages
USUAL_WEIGHT = 20.0  # of FunASR's hot words, which is 1 here
CONTAINERS = (b"RIFF", b"fLaC", b"OggS", b"ID3")  # how a file begins that is sent as plain samples
STREAMED_FORMATS = ("pcm", "wav")  # whose messages are samples; the header of WAV is a millisecond of noise
LIKE_SAMPLES = (ADTS, PROGRAM_STREAM, TRANSPORT_STREAM, None)  # how samples may begin by chance


@dataclass
class _Session:
    mode: str = "2pass"
    name: str = "microphone"
    rate_hz: int = 16_000
    wav_format: str = "pcm"
    decoder: Decoder | None = None
    is_over: bool = False  # whether the end of speech has come
    asks_for_end: bool = False  # whether the client waits for an answer to its end of speech
    sent: str = field(default="")  # of the open segment
    before: str = field(default="")  # the previous partial transcript
    texts: list[str] = field(default_factory=list)  # of the segments that have ended


async def talk_funasr(service: RecognitionService, client: ClientSocket, first: Message) -> None:
    """Answer one of FunASR's clients, from its first message on."""
    fields: dict[str, Any] = {}
    message = first
    while True:
        said: dict[str, Any] = {}
        if isinstance(message, str):
            said, message = json_object(message), b""
            fields |= {name: value for name, value in said.items() if name in SETTINGS}
        session = await client.while_connected(_session(service, fields))
        _note_end(session, said)
        await _converse(service, client, session, message)
        if not session.asks_for_end or client.stopped:
            return
        message = await client.receive()


async def _converse(
    service: RecognitionService, client: ClientSocket, session: _Session, first: bytes
) -> None:
    """Receive a recording and answer, also to the end of speech where the client waits for that."""
    end = {"mode": session.mode, "wav_name": session.name, "text": "", "is_end": True}
    try:
        await (_offline if session.mode == "offline" else _live)(service, client, session, first)
    except RefusalError as refusal:
        if session.asks_for_end:
            await client.send(end | {"is_final": False, "error": refusal.message})
        raise
    if session.asks_for_end:
        await client.send(end | {"is_final": True})


async def _session(service: RecognitionService, fields: dict[str, Any]) -> _Session:
    mode = fields.get("mode", "2pass")
    if mode not in MODES:
        raise invalid(f"`mode`: expected offline, online or 2pass, received {mode!r:.40}", "mode")
    is_spoken = mode == "online" or fields.get("itn") is False  # what was sent cannot become a number
    return _Session(
        mode,
        str(fields.get("wav_name", "microphone"))[:200],
        rate_of(fields.get("audio_fs", 16_000)),
        str(fields.get("wav_format", "pcm")).lower(),
        await service.decoder_favouring(_hot_words(fields.get("hotwords")), is_spoken=is_spoken),
    )


def _hot_words(value: Any) -> dict[str, float]:
    """Return words and weights from an object, from JSON of one, or from words between spaces or commas."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            return hot_word_weights(value, USUAL_WEIGHT)
        value = parsed
    if not isinstance(value, dict):
        return {}
    return {str(word): hot_word_weight(weight, USUAL_WEIGHT) for word, weight in value.items()}


def _note_end(session: _Session, fields: dict[str, Any]) -> None:
    """Note the end of speech if a message has it; the first one may, where a recording is empty."""
    if fields.get("is_speaking") is False or fields.get("is_end"):
        session.is_over, session.asks_for_end = True, bool(fields.get("is_end"))


async def _next_samples(client: ClientSocket, session: _Session) -> bytes | None:
    """Return the samples of the next message; None at the end of speech."""
    while not session.is_over:
        message = await client.receive()
        if isinstance(message, bytes):
            return message
        _note_end(session, json_object(message))
    return None


async def _offline(
    service: RecognitionService, client: ClientSocket, session: _Session, first: bytes
) -> None:
    """Receive a whole recording, and answer once."""
    with service.admission.ticket() as ticket:
        with ticket.arriving():
            data = await _whole(service, client, session, ticket, first)
        read = functools.partial(_waveform, data, session, service.limits.max_audio_s, ticket)
        work = service.recognize(ticket, read, decoder=session.decoder)
        transcript = await client.while_connected(work)
        await client.send(_message(session, transcript.text, is_final=True) | _timed(transcript.segments))


async def _whole(
    service: RecognitionService, client: ClientSocket, session: _Session, ticket: Ticket, first: bytes
) -> bytes:
    parts, num_bytes = [first], len(first)
    while (part := await _next_samples(client, session)) is not None:
        num_bytes += len(part)
        if num_bytes > service.limits.max_body_bytes:
            raise too_large(f"expected at most {service.limits.max_body_mb} MiB; cut the recording")
        ticket.reserve(len(part))
        parts.append(part)
    return b"".join(parts)


def _waveform(data: bytes, session: _Session, max_audio_s: float, ticket: Ticket) -> Waveform:
    if data and (session.wav_format != "pcm" or _is_file(data)):
        return received_waveform(data, max_audio_s, ticket.reserve_samples)
    samples = pcm_waveform(data)
    duration_s = len(samples) / session.rate_hz
    refuse_too_long(duration_s, max_audio_s)
    ticket.reserve_samples(SAMPLE_BYTES * round(duration_s * SAMPLE_RATE_HZ))
    return resample(samples, session.rate_hz)


def _is_file(data: bytes) -> bool:
    """Return whether data begins like a file, which some clients call `pcm`."""
    return data.startswith(CONTAINERS) or media_kind(io.BytesIO(data)) not in LIKE_SAMPLES


def _refuse_file(data: bytes, session: _Session) -> None:
    """Raise a RefusalError for a file in a mode whose samples are recognized while they come in."""
    is_wav = data.startswith(b"RIFF")
    if session.wav_format not in STREAMED_FORMATS or (_is_file(data) and not is_wav):
        expected = f"`wav_format`: the mode {session.mode} expects plain samples (pcm)"
        raise invalid(f"{expected}; send files in the mode offline", "wav_format")


async def _live(service: RecognitionService, client: ClientSocket, session: _Session, first: bytes) -> None:
    """Answer while samples come in; in the mode `2pass`, each segment again as a whole when it ends.

    In the mode `online`, where increments can differ from what is found in the end, the last message has the
    whole text in a field of its own.
    """
    part = first or await _next_samples(client, session)
    _refuse_file(part or b"", session)
    stream = service.streams.open(session.rate_hz, session.decoder)
    try:
        await _send_while_spoken(client, session, stream, part)
    except RefusalError:
        await _send_rest(client, session, stream)
        raise
    await _send_rest(client, session, stream)


async def _send_while_spoken(
    client: ClientSocket, session: _Session, stream: LiveStream, part: bytes | None
) -> None:
    while part is not None:
        update = await stream.feed(client.with_received(part, stream.samples_behind))
        for segment in update.segments:
            await _send_segment(client, session, segment, is_final=False)
        await _send_increment(client, session, update.text)
        part = await _next_samples(client, session)


async def _send_rest(client: ClientSocket, session: _Session, stream: LiveStream) -> None:
    segments = await stream.finish()
    for number, segment in enumerate(segments, start=1):
        await _send_segment(client, session, segment, is_final=number == len(segments))
    if not segments:
        await client.send(_message(session, "", is_final=True, ended=True))


async def _send_increment(client: ClientSocket, session: _Session, text: str) -> None:
    """Send what two transcripts in succession agree on, since what was sent cannot be taken back."""
    agreed = len(_common_prefix(text, session.before))
    session.before = text
    if agreed > len(session.sent) and text.startswith(session.sent):
        await client.send(_message(session, text[len(session.sent) : agreed], is_final=False))
        session.sent = text[:agreed]


async def _send_segment(client: ClientSocket, session: _Session, segment: Segment, *, is_final: bool) -> None:
    """Send the end of a segment: what is missing of it, or in `2pass` all of it."""
    text = segment.text
    session.texts.append(text)
    rest = text[len(session.sent) :]
    session.sent = session.before = ""
    if session.mode == "2pass":
        message = _message(session, text, is_final=is_final, ended=True)
        await client.send(message | _timed((segment,)))
    elif rest or is_final:
        await client.send(_message(session, rest, is_final=is_final))


def _message(session: _Session, text: str, *, is_final: bool, ended: bool = False) -> dict[str, Any]:
    mode = session.mode
    if mode == "2pass":
        mode = "2pass-offline" if ended else "2pass-online"
    whole = {"whole_text": " ".join(session.texts)} if is_final and mode == "online" else {}
    return {"mode": mode, "text": text, "wav_name": session.name, "is_final": is_final} | whole


def _timed(segments: tuple[Segment, ...]) -> dict[str, Any]:
    """Return the times of tokens in milliseconds, as text, and those of segments."""
    sentences: list[dict[str, Any]] = []
    for segment in segments:
        if any(word.gap for word in segment.words):
            units: Sequence[Word | Token] = segment.words
            spaced = " ".join(word.text for word in segment.words)
        else:  # characters
            units = [token for word in segment.words for token in word.tokens]
            spaced = " ".join(segment.text)
        spans = [[round(1000 * unit.start_s), round(1000 * unit.end_s)] for unit in units]
        times = {"start": spans[0][0], "end": spans[-1][1], "ts_list": spans}
        sentences.append({"text_seg": spaced, "punc": "", **times})
    timestamp = [span for sentence in sentences for span in sentence["ts_list"]]
    return {"timestamp": json.dumps(timestamp, separators=(",", ":")), "stamp_sents": sentences}


def _common_prefix(text: str, other: str) -> str:
    size = min(len(text), len(other))
    differing = (index for index in range(size) if text[index] != other[index])
    return text[: next(differing, size)]
