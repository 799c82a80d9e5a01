"""Answer Vosk's clients by WebSocket: each message of samples gets exactly one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asr.server.protocols.sockets import ClientSocket, Message, json_object, rate_of
from asr.server.requests.hot_words import hot_word_weights
from asr.server.requests.request_errors import RefusalError, invalid
from asr.server.service import RecognitionService
from asr.server.streams import LiveStream
from asr.transcription.decoder import Decoder
from asr.transcription.streaming.stream import Update
from asr.transcription.transcript import Segment

DEFAULT_RATE_HZ = 8000
FIELDS = {"sample_rate", "words", "max_alternatives", "phrase_list", "hot_words"}  # of `config`
MAX_ALTERNATIVES = 100


@dataclass(frozen=True)
class _Settings:
    rate_hz: int = DEFAULT_RATE_HZ
    words: bool = True
    max_alternatives: int = 0
    decoder: Decoder | None = None


async def talk_vosk(service: RecognitionService, client: ClientSocket, first: Message) -> None:
    """Answer one of Vosk's clients; a refused one has the result of what it sent before the error."""
    settings, config = _Settings(), dict[str, Any]()
    stream: LiveStream | None = None
    message = first
    try:
        while True:
            if isinstance(message, bytes):
                stream = stream or service.streams.open(settings.rate_hz, settings.decoder)
                messages = client.with_received(message, stream.samples_behind)
                update = await stream.feed(messages)
                for answer in _answers(settings, update, len(messages)):
                    await client.send(answer)
            else:
                fields = json_object(message)
                if isinstance(fields.get("config"), dict):
                    config |= {name: value for name, value in fields["config"].items() if name in FIELDS}
                    settings = await client.while_connected(_settings(service, config))
                if "eof" in fields or "reset" in fields:
                    segments = await stream.finish() if stream else ()
                    stream = None
                    await client.send(_result(settings, segments))
                if "eof" in fields:
                    return
            message = await client.receive()
    except RefusalError:
        if stream is not None:
            await client.send(_result(settings, await stream.finish()))
        raise


async def _settings(service: RecognitionService, config: dict[str, Any]) -> _Settings:
    rate_hz = rate_of(config.get("sample_rate", DEFAULT_RATE_HZ))
    max_alternatives = _alternatives_of(config.get("max_alternatives", 0))
    decoder = await service.decoder_favouring(_hot_words(config), max_alternatives)
    return _Settings(rate_hz, bool(config.get("words", True)), max_alternatives, decoder)


def _alternatives_of(value: object) -> int:
    """Return how many alternatives a client asks for, as a number or as text."""
    try:
        return min(int(value), MAX_ALTERNATIVES) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        reason = f"`max_alternatives`: expected a number, received {value!r:.40}"
        raise invalid(reason, "max_alternatives") from None


def _hot_words(config: dict[str, Any]) -> dict[str, float]:
    """Return the words of `phrase_list` as Vosk's clients send it, and of the page's line with weights."""
    words, line = config.get("phrase_list"), config.get("hot_words")
    weights = {str(word): 1.0 for word in words} if isinstance(words, list) else {}
    return weights | (hot_word_weights(line) if isinstance(line, str) else {})


def _answers(settings: _Settings, update: Update, count: int) -> list[dict[str, Any]]:
    """Return one answer to each of the messages of samples that led to an update."""
    if not update.segments:
        return [{"partial": update.text}] * count
    return [*[{"partial": _text(update.segments)}] * (count - 1), _result(settings, update.segments)]


def _result(settings: _Settings, segments: tuple[Segment, ...]) -> dict[str, Any]:
    if settings.max_alternatives > 0:
        return {"alternatives": _alternatives(settings, segments)}
    text = _text(segments)
    return {"result": _words(segments), "text": text} if settings.words and segments else {"text": text}


def _alternatives(settings: _Settings, segments: tuple[Segment, ...]) -> list[dict[str, Any]]:
    """Return the possibilities of a segment, best first; of several segments together, the best."""
    found = [segments]
    if len(segments) == 1:
        found += [(other,) for other in segments[0].alternatives[: settings.max_alternatives - 1]]
    alternatives = []
    for one in found:
        score = sum((segment.score for segment in one), 0.0)
        fields: dict[str, Any] = {"confidence": round(score, 4), "text": _text(one)}
        if settings.words and one:
            words = _words(one)
            fields["result"] = [{key: word[key] for key in ("end", "start", "word")} for word in words]
        alternatives.append(fields)
    return alternatives


def _words(segments: tuple[Segment, ...]) -> list[dict[str, Any]]:
    return [
        {
            "conf": round(1.0 if word.confidence is None else word.confidence, 6),
            "end": round(word.end_s, 3),
            "start": round(word.start_s, 3),
            "word": word.text,
        }
        for segment in segments
        for word in segment.words
    ]


def _text(segments: tuple[Segment, ...]) -> str:
    return " ".join(segment.text for segment in segments)
