"""Test the words, units and times of transcripts, and that files keep them."""

import itertools
import json

import pytest
import srt
import webvtt
from helpers.transcripts import segment_of
from praatio import textgrid as praat

from asr.base.types import Hypothesis
from asr.base.vocabulary import Vocabulary
from asr.language.hanzi.converter import Converter
from asr.transcription.formats import format_transcript
from asr.transcription.text_writer import TextWriter
from asr.transcription.transcript import Segment, Span, Token, Transcript, Word
from asr.transcription.transcript_json import transcript_as_json, transcript_from_json

SYLLABLES = ("jin1", "tian1", "tian1", "qi4", "hen3", "hao3")
VOCABULARY = Vocabulary(["zhong1", *sorted(set(SYLLABLES))])


@pytest.fixture(scope="module")
def hanzi():
    return TextWriter(VOCABULARY, Converter.load())


def sentence(writer, start_s, tokens=SYLLABLES):
    times_s = tuple(0.1 + 0.3 * index for index in range(len(tokens)))
    hypothesis = Hypothesis(tokens, times_s, -1.0, confidences=(0.9,) * len(tokens))
    return writer.segment([hypothesis], start_s, start_s + times_s[-1] + 0.2)


def lecture(writer):
    """Return the transcript of an hour in which a sentence is said twice."""
    return Transcript.of([sentence(writer, 0.4), sentence(writer, 3589.9)], 3600.0, "syllables")


def spelled(tokens):
    times_s = tuple(0.2 * index for index in range(len(tokens)))
    return TextWriter(Vocabulary("abet▁o")).segment([Hypothesis(tuple(tokens), times_s, 0.0)], 0.0, 9.0)


def test_words_of_other_languages_are_spelled_by_their_characters():
    to, be = spelled("to▁be").words
    assert [(word.text, word.gap, word.spoken) for word in (to, be)] == [("to", " ", "to"), ("be", " ", "be")]
    assert [token.text for token in be.tokens] == ["b", "e"]
    assert (be.start_s, be.end_s) == pytest.approx((0.6, 1.2))


@pytest.mark.parametrize("tokens", ["to▁be", "▁to▁▁be▁", "▁", "", "tobe"])
def test_text_of_spelled_words_is_that_of_the_vocabulary(tokens):
    assert spelled(tokens).text == Vocabulary("abet▁o").join(tokens)


@pytest.mark.parametrize(
    ("text", "pieces", "said"),
    [("On", ("▁o", "n"), "on"), ("The,", ("▁", "t", "h", "e"), "the"), ("Hi", ("h", "i"), "hi")],
)
def test_a_word_of_a_given_text_is_one_unit_in_spite_of_capitals_and_punctuation(text, pieces, said):
    word = Word(text, tuple(Token(piece, 0.1, 0.2) for piece in pieces))
    assert word.spoken == said
    assert word.units == (word,)


def test_word_is_as_sure_as_its_least_sure_token():
    tokens = [Token("a", 0.0, 0.2, 0.9), Token("b", 0.2, 0.4, 0.3)]
    assert Word("ab", tuple(tokens)).confidence == 0.3
    assert Word("ab", (Token("a", 0.0, 0.2),)).confidence is None


def test_units_of_a_word_are_its_characters_where_each_has_a_syllable(hanzi):
    segment = sentence(hanzi, 0.0)
    assert "".join(unit.text for unit in segment.units) == segment.text == "今天天气很好"
    assert [unit.spoken for unit in segment.units] == list(SYLLABLES)
    assert [unit.start_s for unit in segment.units] == list(segment.times_s)
    tokens = tuple(Token(text, 0.0, 0.3) for text in ("er4", "ling2"))
    assert [unit.spoken for unit in Word("2024", tokens).units] == ["er4 ling2"]
    (unknown,) = sentence(hanzi, 0.0, ("xyz4",)).units
    assert (unknown.text, unknown.spoken) == ("〔xyz4〕", "xyz4")


def test_tokens_end_where_the_next_begins_or_soon_after_they_began():
    segment = segment_of(("a", "b", "c"), "abc", times_s=(0.0, 0.1, 2.0), end_s=2.2)
    (word,) = segment.words
    assert [(token.start_s, token.end_s) for token in word.tokens] == [(0.0, 0.1), (0.1, 0.5), (2.0, 2.2)]


def test_times_of_a_segment_count_from_the_start_of_the_recording(hanzi):
    first, second = lecture(hanzi).segments
    assert (first.spoken_s, second.spoken_s) == ((0.5, 2.2), (3590.0, 3591.7))
    assert second.times_s[0] == second.words[0].start_s == 3590.0


def test_alternatives_are_written_like_the_best_hypothesis(hanzi):
    best, other = (
        Hypothesis(tokens, (0.0, 0.4), score)
        for tokens, score in ((SYLLABLES[:2], -1.0), (("qi4", "hao3"), -2.0))
    )
    segment = hanzi.segment([best, other], 5.0, 6.0)
    (alternative,) = segment.alternatives
    assert alternative.text == hanzi.text(("qi4", "hao3"))
    assert (alternative.score, alternative.times_s) == (-2.0, (5.0, 5.4))


def test_recording_without_words_has_a_score_and_no_segment():
    silent = Transcript.of([segment_of((), score=-0.25)], 2.5, "syllables")
    assert (silent.segments, silent.text, silent.score) == ((), "", -0.25)


def test_subtitles_are_read_by_other_programs_with_the_times_of_the_sentences(hanzi):
    cues = list(srt.parse(format_transcript(lecture(hanzi), "srt"), ignore_errors=False))
    assert [cue.content for cue in cues] == ["今天天气很好", "今天天气很好"]
    assert [cue.start.total_seconds() for cue in cues] == [0.5, 3590.0]
    assert [cue.end.total_seconds() for cue in cues] == [2.2, 3591.7]
    captions = webvtt.from_string(format_transcript(lecture(hanzi), "vtt"))
    assert [(c.text, c.start_in_seconds, c.end_in_seconds) for c in captions] == [
        (cue.content, int(cue.start.total_seconds()), int(cue.end.total_seconds())) for cue in cues
    ]
    assert captions[1].start == "00:59:50.000"


def test_textgrid_has_syllables_and_characters_of_the_whole_recording(hanzi, tmp_path):
    path = tmp_path / "a.TextGrid"
    path.write_text(format_transcript(lecture(hanzi), "textgrid"), encoding="utf-8")
    grid = praat.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
    assert grid.tierNames == ("syllables", "characters", "lines")
    assert grid.maxTimestamp == 3600.0
    spoken = [entry for entry in grid.getTier("syllables").entries if entry.label]
    assert tuple(entry.label for entry in spoken) == 2 * SYLLABLES
    assert "".join(entry.label for entry in grid.getTier("characters").entries) == 2 * "今天天气很好"
    assert all(a.end <= b.start for a, b in itertools.pairwise(spoken))


def test_syllables_are_written_where_nothing_converts_them():
    (first, _) = srt.parse(format_transcript(lecture(TextWriter(VOCABULARY)), "srt"))
    assert first.content == " ".join(SYLLABLES)


def test_recording_without_speech_gives_empty_files(tmp_path):
    silent = Transcript.of([], 2.5, "syllables")
    assert format_transcript(silent, "srt") == ""
    assert len(webvtt.from_string(format_transcript(silent, "vtt"))) == 0
    path = tmp_path / "a.TextGrid"
    path.write_text(format_transcript(silent, "textgrid"), encoding="utf-8")
    grid = praat.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
    assert [tuple(entry) for entry in grid.getTier("syllables").entries] == [(0.0, 2.5, "")]


@pytest.mark.parametrize("tokens", [SYLLABLES, ("xyz4", "hao3")])
def test_transcript_is_read_back_from_json_unchanged(hanzi, tokens):
    said = Transcript.of([sentence(hanzi, 0.4), sentence(hanzi, 7 / 3, tokens)], 3600.1, "syllables")
    assert transcript_from_json(json.loads(json.dumps(transcript_as_json(said)))) == said


@pytest.mark.parametrize("tokens", ["to▁be", "▁to▁▁be▁"])
def test_spelled_words_are_read_back_from_json_unchanged(tokens):
    said = Transcript.of([spelled(tokens)], 9.0, "characters")
    assert transcript_from_json(json.loads(json.dumps(transcript_as_json(said)))) == said


def test_impossible_hypothesis_is_read_back_from_json():
    hypothesis = Hypothesis(("a",), (0.0,), float("-inf"), float("-inf"))
    said = Transcript.of([Segment.of(hypothesis, [Span("a", 0, 1)], 0.0, 1.0)], 1.0, "words")
    assert transcript_from_json(json.loads(json.dumps(transcript_as_json(said), allow_nan=False))) == said
