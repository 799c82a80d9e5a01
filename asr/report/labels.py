"""The report's section on labels that are probably wrong, to look at and to listen to."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, refuse_pipe
from asr.base.types import UserError, Utterance
from asr.evaluation.label_review import Candidate
from asr.report.utterances import Scored, UtteranceCard, utterance_card

NUM_SHOWN = 12
LONGEST_S = 20.0  # of a sound within the page, which must stay small


@dataclass(frozen=True)
class LabelCard:
    """A label that is probably wrong.

    Attributes:
        candidate: the label and what contradicts it.
        utterance: it beside what was recognized.
        player: address of its sound, within the page; empty for one that is long or cannot be read.
    """

    candidate: Candidate
    utterance: UtteranceCard
    player: str


@dataclass(frozen=True)
class LabelsToReview:
    """Labels that are probably wrong.

    Attributes:
        cards: of the likeliest, the likeliest first.
        total: how many there are.
        num_readings: those that differ in the reading of the same hanzi.
    """

    cards: Sequence[LabelCard]
    total: int
    num_readings: int


def labels_to_review(unit: str, candidates: Sequence[Candidate]) -> LabelsToReview:
    """Return the labels that are probably wrong; `unit` is that of their tokens."""
    cards = [
        LabelCard(one, utterance_card(unit, Scored.of(one.utterance, one.hypothesis)), player(one.utterance))
        for one in candidates[:NUM_SHOWN]
    ]
    return LabelsToReview(cards, len(candidates), sum(candidate.is_polyphone for candidate in candidates))


def player(utterance: Utterance) -> str:
    """Return the recording as an address that holds it; empty for one that is long or cannot be read."""
    if utterance.duration_s > LONGEST_S:
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
