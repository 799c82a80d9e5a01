"""Test the times of what is recognized, and the files that they are written to."""

import itertools

import pytest
import srt
import webvtt
from asr.transcription.recognized import Recognized
from asr.transcription.time_formats import TimedToken
from asr.transcription.timed_text import format_recognized, timed_words
from praatio import textgrid as praat

from asr.base.types import Hypothesis
from asr.base.vocabulary import Vocabulary
from asr.language.hanzi.converter import Converter
from asr.transcription.long_audio import Segment

SYLLABLES = ("jin1", "tian1", "tian1", "qi4", "hen3", "hao3")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(["zhong1", *sorted(set(SYLLABLES))])


@pytest.fixture(scope="module")
def converter():
    return Converter.load()


def segment_at(start_s, tokens=SYLLABLES):
    times_s = tuple(start_s + 0.3 * place for place in range(len(tokens)))
    return Segment(start_s - 0.1, times_s[-1] + 0.2, Hypothesis("-", tokens, " ".join(tokens), -1.0, times_s))


@pytest.fixture(scope="module")
def lecture():
    """Return a recording of an hour in which a sentence is said twice."""
    return Recognized.of_segments([segment_at(0.5), segment_at(3590.0)], "lecture.mp3", 3600.0)


def test_words_of_other_languages_are_spelled_by_their_characters():
    hypothesis = Hypothesis("-", (*"to▁be",), "to be", 0.0, (0.0, 0.2, 0.3, 0.5, 1.5))
    words = timed_words(Segment(0.0, 1.7, hypothesis), Vocabulary("abet▁o"), None)
    assert words == [TimedToken("to", 0.0, 0.3, 1.0, "to "), TimedToken("be", 0.5, 1.7, 1.0, "be ")]


def test_subtitles_are_read_by_other_programs_with_the_times_of_the_sentences(lecture, vocabulary, converter):
    written = format_recognized(lecture, vocabulary, converter, "srt")
    cues = list(srt.parse(written, ignore_errors=False))
    assert [cue.content for cue in cues] == ["今天天气很好", "今天天气很好"]
    assert [cue.start.total_seconds() for cue in cues] == [0.5, 3590.0]
    assert [cue.end.total_seconds() for cue in cues] == [2.2, 3591.7]
    captions = webvtt.from_string(format_recognized(lecture, vocabulary, converter, "vtt"))
    assert [(c.text, c.start_in_seconds, c.end_in_seconds) for c in captions] == [
        (cue.content, int(cue.start.total_seconds()), int(cue.end.total_seconds())) for cue in cues
    ]
    assert captions[1].start == "00:59:50.000"


def test_textgrid_has_syllables_and_characters_of_the_whole_recording(
    lecture, vocabulary, converter, tmp_path
):
    path = tmp_path / "a.TextGrid"
    path.write_text(format_recognized(lecture, vocabulary, converter, "textgrid"), encoding="utf-8")
    grid = praat.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
    assert grid.tierNames == ("syllables", "characters", "lines")
    assert grid.maxTimestamp == 3600.0
    spoken = [entry for entry in grid.getTier("syllables").entries if entry.label]
    assert tuple(entry.label for entry in spoken) == 2 * SYLLABLES
    assert "".join(entry.label for entry in grid.getTier("characters").entries) == 2 * "今天天气很好"
    assert all(a.end <= b.start for a, b in itertools.pairwise(spoken))


def test_syllables_are_written_where_nothing_converts_them(lecture, vocabulary):
    (first, _) = srt.parse(format_recognized(lecture, vocabulary, None, "srt"))
    assert first.content == " ".join(SYLLABLES)


def test_recording_without_speech_gives_empty_files(vocabulary, tmp_path):
    silent = Recognized.of_clip(Hypothesis("-", (), "", 0.0, ()), 2.5)
    assert format_recognized(silent, vocabulary, None, "srt") == ""
    assert len(webvtt.from_string(format_recognized(silent, vocabulary, None, "vtt"))) == 0
    path = tmp_path / "a.TextGrid"
    path.write_text(format_recognized(silent, vocabulary, None, "textgrid"), encoding="utf-8")
    grid = praat.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
    assert [tuple(entry) for entry in grid.getTier("syllables").entries] == [(0.0, 2.5, "")]
