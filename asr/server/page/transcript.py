"""Describe transcripts for the page: what is written and how it is read, with times and confidences."""

from __future__ import annotations

from typing import Any

from asr.base.text.pinyin import with_tone_mark
from asr.transcription.formats import format_transcript
from asr.transcription.transcript import Segment, Transcript, Word


def segment_fields(segment: Segment) -> dict[str, Any]:
    """Return a segment as the page shows it.

    Returns:
        `start_s`, `end_s`, `text`, `alternatives` (texts, best first) and `units`: what one can click, with
        `text`, `reading` (pinyin, empty for what is read as it is written), `start_s`, `end_s` and
        `confidence` (None if the decoder gives none).
    """
    start_s, end_s = segment.spoken_s
    return {
        "start_s": round(start_s, 3),
        "end_s": round(end_s, 3),
        "text": segment.text,
        "alternatives": [other.text for other in segment.alternatives],
        "units": [
            {
                "text": unit.text,
                "reading": _reading(unit),
                "start_s": round(unit.start_s, 3),
                "end_s": round(unit.end_s, 3),
                "confidence": None if unit.confidence is None else round(unit.confidence, 4),
            }
            for unit in segment.units
        ],
    }


def transcript_fields(transcript: Transcript) -> dict[str, Any]:
    """Return what the page shows of a whole transcript.

    Returns:
        `duration_s`, `is_doubtful`, and `files`: their contents by their suffix.
    """
    return {
        "duration_s": round(transcript.duration_s, 3),
        "is_doubtful": transcript.is_doubtful,
        "files": {
            "txt": "".join(f"{segment.text}\n" for segment in transcript.segments),
            "srt": format_transcript(transcript, "srt"),
            "TextGrid": format_transcript(transcript, "textgrid"),
            "json": format_transcript(transcript, "json"),
        },
    }


def _reading(unit: Word) -> str:
    return "" if unit.spoken == unit.text else " ".join(map(with_tone_mark, unit.spoken.split()))
