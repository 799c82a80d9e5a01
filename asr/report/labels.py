"""The report's section on labels that are probably wrong, to look at and to listen to."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from xml.etree.ElementTree import Element

import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, refuse_pipe
from asr.base.types import UserError, Utterance
from asr.base.wording import counted
from asr.evaluation.label_review import Candidate
from asr.evaluation.metrics import align, count_edits
from asr.pages.page import element, section
from asr.report.utterances import Scored, utterance_card

NUM_SHOWN = 12
LONGEST_S = 20.0  # of a sound within the page, which must stay small


def label_section(unit: str, candidates: Sequence[Candidate]) -> list[Element]:
    """The likeliest first."""
    if not candidates:
        return []
    num_readings = sum(candidate.is_polyphone for candidate in candidates)
    note = (
        f"{counted(len(candidates), 'utterance')} where the model is sure of something else than the label: "
        "at least 150 times as probable for each token that differs. What differs is another reading of the "
        f"same hanzi in {num_readings:,} of them: those are the likeliest mistakes. The list to review, a "
        "CSV file beside this page, has them all; asr labels apply writes what is accepted into a new "
        "manifest."
    )
    cards = [label_card(unit, candidate) for candidate in candidates[:NUM_SHOWN]]
    return [section("Labels to review", note, element("div", *cards, class_="cards"))]


def label_card(unit: str, candidate: Candidate) -> Element:
    """What differs, the sound, and the label beside what was heard."""
    utterance, hypothesis = candidate.utterance, candidate.hypothesis
    tokens = utterance.tokens, hypothesis.tokens
    card = utterance_card(unit, Scored(utterance, hypothesis, align(*tokens), count_edits(*tokens)))
    told = [element("b", str(difference)) for difference in candidate.differences]
    for one in told[:-1]:
        one.tail = "; "
    suggestion = element("p", *told, f" · score {candidate.score:.1f}", class_="suggestion")
    for place, part in enumerate([suggestion, *player(utterance)], start=1):
        card.insert(place, part)
    return card


def player(utterance: Utterance) -> list[Element]:
    """The recording, within the page; nothing for one that is long or cannot be read."""
    if utterance.duration_s > LONGEST_S:
        return []
    try:
        refuse_pipe(utterance.audio_path)
        waveform = read_audio(utterance.audio_path)
    except UserError:
        return []
    kind = "mp3" if "MP3" in soundfile.available_formats() else "wav"
    file = io.BytesIO()
    soundfile.write(file, waveform, SAMPLE_RATE_HZ, format=kind.upper())
    data = base64.b64encode(file.getvalue()).decode()
    return [element("audio", controls="", preload="none", src=f"data:audio/{kind};base64,{data}")]
