"""Describe transcripts for the page: what is written and how it is read, with times and confidences."""

from __future__ import annotations

from typing import Any

from asr.base.pinyin import with_tone_mark
from asr.transcription.decoder import converter_of
from asr.transcription.long_audio import Segment
from asr.transcription.recognized import Recognized
from asr.transcription.recognizer import Recognizer
from asr.transcription.time_formats import TimedToken
from asr.transcription.timed_text import format_recognized, spoken_span, timed_units


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
    start_s, end_s = spoken_span(segment)
    is_rated = bool(segment.hypothesis.confidences)
    return {
        "start_s": round(start_s, 3),
        "end_s": round(end_s, 3),
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
            for unit in timed_units(segment, recognizer.vocabulary, converter_of(recognizer.decoder))
        ],
    }


def transcript_files(recognized: Recognized, recognizer: Recognizer) -> dict[str, str]:
    """Return the contents of the files of a transcript, by their suffix."""
    said = recognized, recognizer.vocabulary, converter_of(recognizer.decoder)
    return {
        "txt": "".join(f"{segment.hypothesis.text}\n" for segment in recognized.segments),
        "srt": format_recognized(*said, "srt"),
        "TextGrid": format_recognized(*said, "textgrid"),
        "json": format_recognized(*said, "json"),
    }


def _reading(unit: TimedToken) -> str:
    if unit.text.strip() == unit.token:
        return ""
    return " ".join(map(with_tone_mark, unit.token.split()))
