"""Makes the report's section on labels that are probably wrong, with sound to listen to."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, refuse_pipe
from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.evaluation.labels.label_review import DoubtfulLabel, LabelReview
from asr.report.utterances import Scored, UtteranceCard, utterance_card

NUM_SHOWN = 12
MAX_SOUND_S = 20.0  # longer recordings are not embedded, to keep the page small


@dataclass(frozen=True)
class LabelCard:
    """A label that is probably wrong, as the page shows it.

    Attributes:
        candidate: the label and what contradicts it.
        utterance: the label aligned with the hypothesis.
        player: data URL of the sound; empty if the recording is long or cannot be read.
    """

    candidate: DoubtfulLabel
    utterance: UtteranceCard
    player: str


@dataclass(frozen=True)
class LabelsToReview:
    """The labels that are probably wrong.

    Attributes:
        cards: of the first candidates, the most probable mistake first.
        total: number of candidates.
        num_readings: candidates that differ only in the reading of the same hanzi.
        silence: why there are no candidates, see `LabelReview`.
    """

    cards: Sequence[LabelCard]
    total: int
    num_readings: int
    silence: str


def labels_to_review(unit: str, review: LabelReview) -> LabelsToReview:
    """Return the labels that are probably wrong; `unit` is the unit of their tokens."""
    candidates = review.candidates
    cards = [
        LabelCard(one, utterance_card(unit, Scored.of(one.utterance, one.hypothesis)), player(one.utterance))
        for one in candidates[:NUM_SHOWN]
    ]
    num_readings = sum(candidate.is_polyphone for candidate in candidates)
    return LabelsToReview(cards, len(candidates), num_readings, review.silence)


def player(utterance: Utterance) -> str:
    """Return the recording as a data URL; an empty string if it is long or cannot be read."""
    if utterance.duration_s > MAX_SOUND_S:
        return ""
    try:
        refuse_pipe(utterance.audio_path)
        waveform = read_audio(utterance.audio_path)
    except UserError:
        return ""
    kind = "mp3" if "MP3" in soundfile.available_formats() else "wav"
    file = io.BytesIO()
    soundfile.write(file, waveform, SAMPLE_RATE_HZ, format=kind.upper())
    return f"data:audio/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
