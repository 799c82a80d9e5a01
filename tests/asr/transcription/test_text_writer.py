"""Pieces become words with times, confidences and spaces; the text is that of the vocabulary."""

import json

import pytest

from asr.base.types import Hypothesis
from asr.base.vocabulary import Vocabulary
from asr.transcription.formats import format_transcript
from asr.transcription.text_writer import TextWriter
from asr.transcription.transcript import Transcript
from asr.transcription.transcript_json import transcript_as_json, transcript_from_json

VOCABULARY = Vocabulary(["▁", "▁turn", "ing", "s", "i", "▁on", "e", "▁我", "们", "今天", "▁tv"])


def transcript(tokens):
    times_s = tuple(round(0.1 * index, 1) for index in range(1, len(tokens) + 1))
    confidences = tuple(1 - time_s / 2 for time_s in times_s)
    hypothesis = Hypothesis(tuple(tokens), times_s, -1.0, -1.0, confidences)
    segment = TextWriter(VOCABULARY).segment([hypothesis], 0.0, 2.0)
    return Transcript.of([segment], 2.0, VOCABULARY.unit)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ("▁turn ing ▁on", ["turning", "on"]),
        ("ing ▁on e", ["ing", "one"]),
        ("▁ s i ▁on", ["si", "on"]),
        ("▁turn ▁ ▁on ▁", ["turn", "on"]),
        ("▁我 们 今天", ["我", "们", "今天"]),
        ("▁我 们 s i ▁tv s 今天", ["我", "们", "si", "tvs", "今天"]),
        ("▁", []),
        ("", []),
    ],
)
def test_words_of_pieces_begin_at_marks_and_at_hanzi_and_make_the_text(tokens, words):
    tokens = tokens.split()
    spans = TextWriter(VOCABULARY).spans(tokens)
    assert [span.text for span in spans] == words
    assert TextWriter(VOCABULARY).text(tokens) == VOCABULARY.join(tokens)


def test_a_word_has_the_times_of_its_pieces_and_the_confidence_of_the_least_sure():
    turning, on = transcript(["▁turn", "ing", "▁", "▁on"]).words
    assert (turning.start_s, turning.end_s, turning.confidence) == (0.1, 0.3, 0.9)
    assert (on.start_s, on.end_s) == (0.4, 0.8)
    assert (turning.spoken, turning.units) == ("turning", (turning,))


def test_a_transcript_of_pieces_survives_the_journal():
    made = transcript(["▁", "▁turn", "ing", "▁", "s", "i", "▁on"])
    assert transcript_from_json(json.loads(json.dumps(transcript_as_json(made)))) == made


def test_formats_of_pieces_have_words():
    made = transcript(["▁turn", "ing", "▁on"])
    assert "turning on" in format_transcript(made, "srt")
    grid = format_transcript(made, "textgrid")
    assert 'name = "words"' in grid
    assert "pieces" not in grid
    assert 'text = "turning"' in grid
