"""Test what the page is sent about a transcript."""

import dataclasses

import pytest
from helpers.transcripts import segment_of, transcript_of

from asr.base.types import Hypothesis
from asr.server.page.transcript import segment_fields, transcript_fields


@pytest.fixture
def segment(recognizer):
    """Return a segment of five syllables, with an alternative."""
    tokens = tuple(token for token in recognizer.vocabulary.tokens[1:] if token[-1] in "1234")[:5]
    times_s, confidences = (0.0, 0.5, 0.6, 1.2, 1.4), (0.99, 0.8, 0.6, 0.2, 1.0)
    written = recognizer.decoder.writer.segment(
        [Hypothesis(tokens, times_s, -1.0, 0.0, confidences)], 0.0, 2.0
    )
    return dataclasses.replace(written, alternatives=(segment_of(tokens[:1], "other"),))


def test_units_have_every_syllable_once_with_its_time_and_confidence(segment):
    units = segment_fields(segment)["units"]
    assert [unit["start_s"] for unit in units] == list(segment.times_s)
    assert [unit["confidence"] for unit in units] == list(segment.confidences)
    assert "".join(unit["text"] for unit in units) == segment.text


def test_fields_have_pinyin_with_tone_marks_and_alternatives(segment):
    fields = segment_fields(segment)
    assert fields["alternatives"] == ["other"]
    assert all(any(ord(char) > 127 for char in unit["reading"]) for unit in fields["units"])


@pytest.mark.parametrize(("confidences", "expected"), [((0.9, 0.3), False), ((0.7, 0.3), True), ((), False)])
def test_fields_say_that_half_of_a_transcript_is_probably_wrong(confidences, expected):
    fields = transcript_fields(transcript_of(("ni3", "hao3"), "你好", confidences=confidences))
    assert fields["is_doubtful"] is expected
    assert fields["files"]["txt"] == "你好\n"


def test_syllables_without_confidence_have_none():
    unrated = segment_of(("ni3", "hao3"), "你好")
    assert {unit["confidence"] for unit in segment_fields(unrated)["units"]} == {None}
