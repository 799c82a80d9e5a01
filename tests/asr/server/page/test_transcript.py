"""Test what the page is sent about a transcript."""

import dataclasses

import pytest
from asr.transcription.timed_text import timed_units

from asr.base.types import Hypothesis
from asr.server.page.transcript import segment_fields
from asr.transcription.long_audio import Segment


@pytest.fixture
def said(recognizer):
    """Return a segment of five syllables, with an alternative."""
    tokens = tuple(token for token in recognizer.vocabulary.tokens[1:] if token[-1] in "1234")[:5]
    other = Hypothesis("-", tokens[:1], "other", -2.0, (0.0,))
    times_s = (0.0, 0.5, 0.6, 1.2, 1.4)
    hypothesis = Hypothesis("-", tokens, "text", -1.0, times_s, 0.0, (0.99, 0.8, 0.6, 0.2, 1.0), (other,))
    return Segment(0.0, 2.0, hypothesis)


def test_units_have_every_syllable_once_with_its_time_and_confidence(recognizer, said):
    units = timed_units(said, recognizer.vocabulary, recognizer.decoder.converter)
    assert " ".join(unit.token for unit in units).split() == list(said.hypothesis.tokens)
    assert [unit.start_s for unit in units] == list(said.hypothesis.times_s)
    assert [unit.confidence for unit in units] == list(said.hypothesis.confidences)
    converted = recognizer.decoder.converter.convert(said.hypothesis.tokens).text
    assert "".join(unit.text for unit in units) == converted


def test_fields_have_pinyin_with_tone_marks_and_alternatives(recognizer, said):
    fields = segment_fields(said, recognizer)
    assert fields["alternatives"] == ["other"]
    assert all(any(ord(char) > 127 for char in unit["reading"]) for unit in fields["units"])


def test_syllables_without_confidence_have_none(recognizer, said):
    unrated = dataclasses.replace(said, hypothesis=dataclasses.replace(said.hypothesis, confidences=()))
    assert {unit["confidence"] for unit in segment_fields(unrated, recognizer)["units"]} == {None}


def test_word_with_another_number_of_characters_is_one_unit(recognizer, said):
    hypothesis = Hypothesis("-", ("xyz4", "ni3"), "", 0.0, (0.0, 0.3), 0.0, (0.5, 0.6))
    segment = Segment(0.0, 1.0, hypothesis)
    unknown, known = timed_units(segment, recognizer.vocabulary, recognizer.decoder.converter)
    assert (unknown.text, unknown.token) == ("〔xyz4〕", "xyz4")
    assert (len(known.text), known.token) == (1, "ni3")
