"""Answer Vosk's clients by WebSocket, at `/vosk`: each message of samples gets exactly one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.routing import BaseRoute

from asr.recognition.decoding.decoder import Decoder, converter_of
from asr.recognition.long_audio import Segment, joined
from asr.recognition.timed_text import timed_words
from asr.recognition.utterances import Update
from asr.server.hot_words import hot_word_weights
from asr.server.received_audio import pcm_waveform
from asr.server.service import RecognitionService
from asr.server.sockets import Talk, json_object, rate_of, socket_route
from asr.server.streams import LiveStream

DEFAULT_RATE_HZ = 8000
END = '{"eof": 1}'


@dataclass(frozen=True)
class _Settings:
    rate_hz: int = DEFAULT_RATE_HZ
    words: bool = True
    max_alternatives: int = 0
    decoder: Decoder | None = None


def vosk_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return the route of Vosk's clients."""

    async def talk(client: Talk) -> None:
        settings = _Settings()
        stream: LiveStream | None = None
        while True:
            message = await client.receive()
            if isinstance(message, bytes):
                stream = stream or service.streams.open(settings.rate_hz, settings.decoder)
                messages = client.with_received(message, stream.samples_behind)
                update = await stream.feed(np.concatenate([pcm_waveform(one) for one in messages]))
                for answer in _answers(service, settings, update, len(messages)):
                    await client.send(answer)
                continue
            fields = json_object(message)
            if "config" in fields:
                settings = await service.run(_settings, service, fields["config"])
            if "eof" in fields or "reset" in fields:
                segments = await stream.finish() if stream else ()
                stream = None
                await client.send(_result(service, settings, segments))
                if "eof" in fields:
                    return

    return [socket_route("/vosk", service, talk, END)]


def _settings(service: RecognitionService, config: Any) -> _Settings:
    if not isinstance(config, dict):
        config = {}
    alternatives = config.get("max_alternatives", 0)
    return _Settings(
        rate_of(config.get("sample_rate", DEFAULT_RATE_HZ)),
        bool(config.get("words", True)),
        alternatives if isinstance(alternatives, int) else 0,
        service.decoder_favouring(_hot_words(config)),
    )


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
    hypothesis = joined(segments, "-")
    if settings.max_alternatives > 0:
        others = segments[0].hypothesis.alternatives if len(segments) == 1 else ()
        found = [hypothesis, *others][: settings.max_alternatives]
        return {"alternatives": [{"confidence": round(one.score, 4), "text": one.text} for one in found]}
    if not (settings.words and segments):
        return {"text": hypothesis.text}
    recognizer = service.recognizer
    converter = converter_of(settings.decoder or recognizer.decoder)
    words = [
        {
            "conf": round(word.confidence, 6),
            "end": round(word.end_s, 3),
            "start": round(word.start_s, 3),
            "word": word.token,
        }
        for segment in segments
        for word in timed_words(segment, recognizer.vocabulary, converter)
    ]
    return {"result": words, "text": hypothesis.text}
