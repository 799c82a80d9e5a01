"""Convert transcripts and their segments to JSON, for evaluations and journals, and back.

Non-finite numbers become null.
"""

from __future__ import annotations

import math
from typing import Any

from asr.base.text.units import UNITS
from asr.base.types import Hypothesis
from asr.base.vocabulary import WORD_BOUNDARY
from asr.transcription.transcript import Segment, Span, Transcript

KEY = "heard"  # of a segment in the files of evaluations


def transcript_as_json(transcript: Transcript) -> dict[str, Any]:
    """Return a transcript as a JSON object."""
    return {
        "duration_s": transcript.duration_s,
        "unit": transcript.unit,
        "score": finite_or_none(transcript.score),
        "segments": [
            segment_as_json(segment)
            | {"start_s": segment.start_s, "end_s": segment.end_s, "words": _spans(segment)}
            for segment in transcript.segments
        ],
    }


def transcript_from_json(record: dict[str, Any]) -> Transcript:
    """Return the transcript of an object that `transcript_as_json` made; ignore other keys.

    Raises:
        KeyError, TypeError, ValueError: the object is damaged.
    """
    duration_s, unit = float(record["duration_s"]), UNITS[UNITS.index(record["unit"])]
    segments = tuple(segment_from_json(one, duration_s) for one in record["segments"])
    return Transcript(segments, duration_s, unit, log_prob_from_json(record["score"]))


def segment_as_json(segment: Segment) -> dict[str, Any]:
    """Return a segment as a JSON object, without its times and those of its words."""
    return {
        "text": segment.text,
        "tokens": segment.tokens,
        "score": finite_or_none(segment.score),
        "acoustic_score": finite_or_none(segment.acoustic_score),
        "times_s": segment.times_s,
        "confidences": segment.confidences,
        "alternatives": [segment_as_json(alternative) for alternative in segment.alternatives],
    }


def segment_from_json(record: dict[str, Any], duration_s: float) -> Segment:
    """Return the segment of an object with the keys of `segment_as_json`; ignore unknown keys.

    Where the object has no words, its text is one.

    Args:
        record: the object.
        duration_s: of the recording, which is the segment where the object has no times.

    Raises:
        KeyError, TypeError, ValueError: the object is damaged.
    """
    hypothesis = Hypothesis(
        expect_texts(record["tokens"]),
        tuple(map(float, record["times_s"])),
        log_prob_from_json(record["score"]),
        log_prob_from_json(record["acoustic_score"]),
        tuple(map(float, record["confidences"])),
    )
    text = expect_text(record["text"])
    whole = [(text, 0, len(hypothesis.tokens), "")] if text else []
    spans = [Span(expect_text(name), int(b), int(e), gap) for name, b, e, gap in record.get("words", whole)]
    start_s, end_s = float(record.get("start_s", 0.0)), float(record.get("end_s", duration_s))
    alternatives = tuple(segment_from_json(one, end_s) for one in record["alternatives"])
    return Segment.of(hypothesis, spans, start_s, end_s, alternatives)


def _spans(segment: Segment) -> list[Span]:
    """Return the spans that the words of a segment were made of."""
    spans, index = [], 0
    for word in segment.words:
        while segment.tokens[index] == WORD_BOUNDARY:
            index += 1
        spans.append(Span(word.text, index, index + len(word.tokens), word.gap))
        index += len(word.tokens)
    return spans


def finite_or_none(number: float) -> float | None:
    """Return a number for JSON, which has no infinity: None if it is not finite."""
    return number if math.isfinite(number) else None


def log_prob_from_json(value: float | None) -> float:
    """Return a log probability read from JSON, in which null is minus infinity."""
    return -math.inf if value is None else float(value)


def expect_text(value: object) -> str:
    """Return a value read from JSON as text.

    Raises:
        TypeError: it is not a string.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected text, received {value!r}")
    return value


def expect_texts(values: object) -> tuple[str, ...]:
    """Return a value read from JSON as a tuple of texts.

    Raises:
        TypeError: it is not a list of strings.
    """
    if not isinstance(values, list):
        raise TypeError(f"expected a list, received {values!r}")
    return tuple(map(expect_text, values))
