"""Describe transcripts for the page: what is written and how it is read, with times and confidences."""

from __future__ import annotations

import itertools
from typing import Any

from asr.base.pinyin import with_tone_mark
from asr.language.hanzi.converter import Converter, Word
from asr.recognition.alignment.time_formats import TimedToken, as_json, srt, textgrid
from asr.recognition.decoding.decoder import converter_of
from asr.recognition.long_audio import Segment
from asr.recognition.recognizer import Recognizer
from asr.server.service import Recognized
from asr.server.timing import timed_tokens, timed_words


def segment_fields(segment: Segment, recognizer: Recognizer) -> dict[str, Any]:
    """Return a segment as the page shows it.

    Args:
        segment: of a recording.
        recognizer: that recognized it.

    Returns:
        `start_s`, `end_s`, `text`, `alternatives` (texts, best first) and `units`: what one can click, with
        `text`, `reading` (pinyin, empty for what is read as it is written), `start_s`, `end_s` and
        `confidence` (None if the decoder gives none).
    """
    is_rated = bool(segment.hypothesis.confidences)
    return {
        "start_s": round(segment.start_s, 3),
        "end_s": round(segment.end_s, 3),
        "text": segment.hypothesis.text,
        "alternatives": [other.text for other in segment.hypothesis.alternatives],
        "units": [
            {
                "text": unit.text.strip(),
                "reading": _reading(unit),
                "start_s": round(unit.start_s, 3),
                "end_s": round(unit.end_s, 3),
                "confidence": round(unit.confidence, 4) if is_rated else None,
            }
            for unit in timed_units(segment, recognizer)
        ],
    }


def transcript_files(recognized: Recognized, recognizer: Recognizer) -> dict[str, str]:
    """Return the contents of the files of a transcript, by their suffix."""
    units = list(
        itertools.chain.from_iterable(timed_units(segment, recognizer) for segment in recognized.segments)
    )
    tier = recognizer.vocabulary.unit
    return {
        "txt": "".join(f"{segment.hypothesis.text}\n" for segment in recognized.segments),
        "srt": srt(units),
        "TextGrid": textgrid(units, recognized.duration_s, tier),
        "json": as_json(units, recognized.duration_s, tier),
    }


def timed_units(segment: Segment, recognizer: Recognizer) -> list[TimedToken]:
    """Return the syllables of a segment with the characters they are written with, or its words.

    A word that does not have one character for each of its syllables is one unit.
    """
    converter = converter_of(recognizer.decoder)
    if converter is None:
        return timed_words(segment, recognizer.vocabulary, None)
    return _written_syllables(segment, converter)


def _written_syllables(segment: Segment, converter: Converter) -> list[TimedToken]:
    tokens = timed_tokens(segment)
    units = []
    for word in converter.convert(segment.hypothesis.tokens).words:
        spoken = tokens[word.start : word.end]
        if len(word.text) == len(spoken):
            units += [_written(token, char) for token, char in zip(spoken, word.text, strict=True)]
        else:
            units.append(_whole(spoken, word))
    return units


def _written(token: TimedToken, text: str) -> TimedToken:
    return TimedToken(token.token, token.start_s, token.end_s, token.confidence, text)


def _whole(spoken: list[TimedToken], word: Word) -> TimedToken:
    confidence = min(token.confidence for token in spoken)
    syllables = " ".join(word.syllables)
    return TimedToken(syllables, spoken[0].start_s, spoken[-1].end_s, confidence, word.text)


def _reading(unit: TimedToken) -> str:
    if unit.text.strip() == unit.token:
        return ""
    return " ".join(map(with_tone_mark, unit.token.split()))
