"""Answer Vosk's clients by WebSocket: each message of samples gets exactly one answer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from asr.server.hot_words import hot_word_weights
from asr.server.received_audio import pcm_waveform
from asr.server.refusal import invalid
from asr.server.service import RecognitionService
from asr.server.sockets import Message, Talk, json_object, rate_of
from asr.server.streams import LiveStream
from asr.transcription.decoder import Decoder, converter_of
from asr.transcription.long_audio import Segment, joined
from asr.transcription.segmented_stream import Update
from asr.transcription.timed_text import timed_words

DEFAULT_RATE_HZ = 8000
FIELDS = {"sample_rate", "words", "max_alternatives", "phrase_list", "hot_words"}  # of `config`
MAX_ALTERNATIVES = 100


@dataclass(frozen=True)
class _Settings:
    rate_hz: int = DEFAULT_RATE_HZ
    words: bool = True
    max_alternatives: int = 0
    decoder: Decoder | None = None


async def talk_vosk(service: RecognitionService, client: Talk, first: Message) -> None:
    """Answer one of Vosk's clients, from its first message on."""
    settings, config = _Settings(), dict[str, Any]()
    stream: LiveStream | None = None
    message = first
    while True:
        if isinstance(message, bytes):
            stream = stream or service.streams.open(settings.rate_hz, settings.decoder)
            messages = client.with_received(message, stream.samples_behind)
            update = await stream.feed(np.concatenate([pcm_waveform(one) for one in messages]))
            for answer in _answers(service, settings, update, len(messages)):
                await client.send(answer)
        else:
            fields = json_object(message)
            if isinstance(fields.get("config"), dict):
                config |= {name: value for name, value in fields["config"].items() if name in FIELDS}
                settings = await client.while_connected(_settings(service, config))
            if "eof" in fields or "reset" in fields:
                segments = await stream.finish() if stream else ()
                stream = None
                await client.send(_result(service, settings, segments))
            if "eof" in fields:
                return
        message = await client.receive()


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


def _answers(
    service: RecognitionService, settings: _Settings, update: Update, count: int
) -> list[dict[str, Any]]:
    """Return one answer to each of the messages of samples that led to an update."""
    if not update.segments:
        return [{"partial": update.partial.text}] * count
    text = joined(update.segments, "-").text
    return [*[{"partial": text}] * (count - 1), _result(service, settings, update.segments)]


def _result(
    service: RecognitionService, settings: _Settings, segments: tuple[Segment, ...]
) -> dict[str, Any]:
    if settings.max_alternatives > 0:
        return {"alternatives": _alternatives(service, settings, segments)}
    text = joined(segments, "-").text
    if not (settings.words and segments):
        return {"text": text}
    return {"result": _words(service, settings, segments), "text": text}


def _alternatives(
    service: RecognitionService, settings: _Settings, segments: tuple[Segment, ...]
) -> list[dict[str, Any]]:
    """Return the possibilities of a segment, best first; of several segments together, the best."""
    found = [segments]
    if len(segments) == 1:
        (segment,) = segments
        others = segment.hypothesis.alternatives[: settings.max_alternatives - 1]
        found += [(dataclasses.replace(segment, hypothesis=other),) for other in others]
    alternatives = []
    for one in found:
        hypothesis = joined(one, "-")
        fields: dict[str, Any] = {"confidence": round(hypothesis.score, 4), "text": hypothesis.text}
        if settings.words and one:
            words = _words(service, settings, one)
            fields["result"] = [{key: word[key] for key in ("end", "start", "word")} for word in words]
        alternatives.append(fields)
    return alternatives


def _words(
    service: RecognitionService, settings: _Settings, segments: tuple[Segment, ...]
) -> list[dict[str, Any]]:
    recognizer = service.recognizer
    converter = converter_of(settings.decoder or recognizer.decoder)
    return [
        {
            "conf": round(word.confidence, 6),
            "end": round(word.end_s, 3),
            "start": round(word.start_s, 3),
            "word": word.token,
        }
        for segment in segments
        for word in timed_words(segment, recognizer.vocabulary, converter)
    ]
