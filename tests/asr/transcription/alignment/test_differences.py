"""Recordings that were not said as their text are found, and where they differ."""

import numpy as np
import pytest

from asr.base.vocabulary import Vocabulary
from asr.transcription.alignment.differences import proposed_differences, sure_differences

VOCABULARY = Vocabulary(["ni3", "hao3", "hao4", "ma5", "ma1", "shi4", "jie4"])
SURE, UNSURE = 0.95, 0.4


def posteriors_of(*spoken):
    """Return log posteriors of tokens of a few frames each, with blanks between them.

    Args:
        spoken: tokens, or (token, posterior, another token that has most of the rest).
    """
    rows = []
    for one in spoken:
        token, share, other = (one, SURE, None) if isinstance(one, str) else one
        for best, probability, second in [("<blank>", 0.97, None), (token, share, other)]:
            row = np.full(len(VOCABULARY), 1e-6)
            row[VOCABULARY.tokens.index(best)] = probability
            if second:
                row[VOCABULARY.tokens.index(second)] = 0.999 - probability
            rows.append(row / row.sum())
    rows.append(np.where(np.arange(len(VOCABULARY)) == 0, 0.999, 1e-6))
    return np.log(np.repeat(rows, 2, axis=0)).astype(np.float32)


def found(log_probs, text, knows_voice=True):
    differences = sure_differences(proposed_differences(log_probs, VOCABULARY, text.split()), knows_voice)
    return [(one.kind, one.start, one.end, one.recognized) for one in differences]


def test_speech_as_written_does_not_differ():
    assert found(posteriors_of("ni3", "hao3", "ma5"), "ni3 hao3 ma5") == []


def test_missing_other_and_extra_tokens_are_found_at_their_places():
    assert found(posteriors_of("ni3", "ma5"), "ni3 hao3 ma5") == [("missing", 1, 2, "")]
    assert found(posteriors_of("hao3"), "ni3 hao3 shi4 jie4") == [
        ("missing", 0, 1, ""),
        ("missing", 2, 4, ""),
    ]
    said = posteriors_of("ni3", "shi4", "jie4", "ma5")
    assert found(said, "ni3 hao3 hao3 ma5") == [("other", 1, 3, "shi4 jie4")]
    assert found(posteriors_of("ni3", "hao3", "shi4", "ma5"), "ni3 hao3 ma5") == [("extra", 2, 2, "shi4")]


def test_another_sentence_differs_everywhere():
    differences = found(posteriors_of("shi4", "jie4"), "ni3 hao3 ma5")
    assert {index for _, start, end, _ in differences for index in range(start, end)} == {0, 1, 2}


def test_tones_are_not_compared():
    assert found(posteriors_of("ni3", "hao4", "ma1"), "ni3 hao3 ma5") == []
    assert found(posteriors_of(("ni3", 0.99, None), ("hao4", 0.5, "hao3")), "ni3 hao3") == []


def test_neighbours_that_differ_in_the_tone_alone_are_two_tokens():
    rows = posteriors_of("ma1", "ma5")
    without_blank = np.concatenate([rows[:4], rows[6:]])
    assert found(without_blank, "ma1 ma5") == []


def test_a_place_of_which_the_model_is_not_sure_is_not_reported():
    log_probs = posteriors_of("ni3", ("shi4", 0.6, "hao3"), "ma5")
    (proposed,) = proposed_differences(log_probs, VOCABULARY, ["ni3", "hao3", "ma5"])
    assert 0 < proposed.margin < 2
    assert found(log_probs, "ni3 hao3 ma5") == []


def test_a_model_that_does_not_know_the_voice_must_be_surer():
    log_probs = posteriors_of("ni3", ("shi4", 0.99, "hao3"), "ma5")
    assert found(log_probs, "ni3 hao3 ma5") == [("other", 1, 2, "shi4")]
    assert found(log_probs, "ni3 hao3 ma5", knows_voice=False) == []
    assert found(posteriors_of("ni3", "ma5"), "ni3 hao3 ma5", knows_voice=False) == [("missing", 1, 2, "")]


@pytest.mark.parametrize("text", ["ni3 qwx1 ma5", "qwx1 ni3 ma5", "ni3 ma5 qwx1"])
def test_tokens_that_the_model_does_not_know_are_not_compared(text):
    spoken = ["shi4" if token == "qwx1" else token for token in text.split()]
    assert found(posteriors_of(*spoken), text) == []


def test_a_syllable_known_in_another_tone_is_compared():
    assert found(posteriors_of("ni3", "jie4"), "ni3 jie2") == []
    assert found(posteriors_of("ni3"), "ni3 jie2") == [("missing", 1, 2, "")]


def test_a_text_with_more_tokens_than_frames_differs():
    assert found(posteriors_of("ni3")[:3], "ni3 hao3 ma5 shi4 jie4") != []


def test_silence_instead_of_a_text_lacks_all_of_it():
    assert found(posteriors_of()[:2].repeat(8, axis=0), "ni3 hao3") == [("missing", 0, 2, "")]
