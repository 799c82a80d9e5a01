"""What is recognized of a recording: its transcript, and the stretches of speech with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asr.base.errors import UserError
from asr.base.hypothesis_json import KEY, hypothesis_as_json, hypothesis_from_json
from asr.base.types import Hypothesis
from asr.transcription.long_audio import Segment, joined

# A CTC model emits a token within it, but not its end: that is the next token's beginning, or at most this.
MAX_TOKEN_S = 0.4


@dataclass(frozen=True)
class Recognized:
    """The transcript of a recording.

    Attributes:
        hypothesis: of the whole recording.
        segments: of the recording in order, those without speech left out.
        duration_s: of the recording.
    """

    hypothesis: Hypothesis
    segments: tuple[Segment, ...]
    duration_s: float

    @classmethod
    def of_clip(cls, hypothesis: Hypothesis, duration_s: float) -> Recognized:
        """Return what is recognized of a clip that was decoded as a whole."""
        segments = (Segment(0.0, duration_s, hypothesis),) if hypothesis.tokens else ()
        return cls(hypothesis, segments, duration_s)

    @classmethod
    def of_segments(cls, segments: Sequence[Segment], name: str, duration_s: float) -> Recognized:
        """Return what is recognized of a recording that was decoded segment by segment."""
        return cls(joined(segments, name), tuple(segments), duration_s)


Recognition: TypeAlias = Recognized | UserError
"""What is recognized of a file, or the reason why it could not be read."""


def recognized_as_json(recognized: Recognized) -> dict[str, Any]:
    """Return what is recognized of a recording as a JSON object, without the name of the recording."""
    fields: dict[str, Any] = {"duration_s": recognized.duration_s}
    if recognized == Recognized.of_clip(recognized.hypothesis, recognized.duration_s):
        return fields | {KEY: hypothesis_as_json(recognized.hypothesis)}
    segments = [
        {"start_s": segment.start_s, "end_s": segment.end_s, KEY: hypothesis_as_json(segment.hypothesis)}
        for segment in recognized.segments
    ]
    return fields | {"segments": segments}


def recognized_from_json(name: str, record: dict[str, Any]) -> Recognized:
    """Return what `recognized_as_json` made an object of; ignore other keys.

    Args:
        name: of the recording.
        record: the object; those of earlier versions state no duration.

    Raises:
        KeyError, TypeError, ValueError: the object is damaged.
    """
    duration_s = float(record.get("duration_s", 0.0))
    if "segments" not in record:
        hypothesis = hypothesis_from_json(name, record[KEY])
        known_s = duration_s or max(hypothesis.times_s, default=0.0) + MAX_TOKEN_S
        return Recognized.of_clip(hypothesis, known_s)
    segments = [
        Segment(float(one["start_s"]), float(one["end_s"]), hypothesis_from_json(name, one[KEY]))
        for one in record["segments"]
    ]
    return Recognized.of_segments(segments, name, duration_s)
