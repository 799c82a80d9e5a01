import numpy as np
import pytest
from helpers.transcripts import segment_of

from asr.base.types import EditCounts, Utterance
from asr.evaluation.errors.metrics import (
    align,
    count_edits,
    measures,
    total_edits,
    without_text,
)
from asr.evaluation.written_text import characters_of, words_of


def levenshtein(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = range(len(a) + 1), range(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    return table[-1, -1]


def test_errors_equal_the_levenshtein_distance():
    rng = np.random.default_rng(0)
    for _ in range(200):
        reference = [str(t) for t in rng.integers(4, size=rng.integers(0, 9))]
        hypothesis = [str(t) for t in rng.integers(4, size=rng.integers(0, 9))]
        counts = count_edits(reference, hypothesis)
        assert counts.errors == levenshtein(reference, hypothesis)
        assert counts.reference_length == len(reference)
        assert counts.insertions - counts.deletions == len(hypothesis) - len(reference)


def test_errors_are_fewer_than_those_of_difflib():
    # difflib keeps the longest common block and finds more edits than there are
    assert count_edits(list("abxcd"), list("bacdx")).errors == levenshtein("abxcd", "bacdx")


def test_an_error_rate_can_exceed_1():
    assert count_edits(["a"], ["b", "c", "d"]).rate == 3.0


@pytest.mark.parametrize(("counts", "rate"), [(EditCounts(), 0.0), (EditCounts(insertions=1), float("inf"))])
def test_the_rate_of_an_empty_reference_is_0_or_infinite(counts, rate):
    assert counts.rate == rate


def test_error_rates_are_weighted_by_reference_length():
    total = total_edits([(["a"], ["b"]), (["a"] * 9, ["a"] * 9)])
    assert total.rate == pytest.approx(0.1)


def test_an_alignment_contains_both_sequences():
    reference, hypothesis = ["ni3", "hao3", "shi4", "jie4", "ma5"], ["ni3", "shi4", "jie4", "a5", "ma1"]
    pairs = align(reference, hypothesis)
    assert [p.reference for p in pairs if p.reference] == reference
    assert [p.hypothesis for p in pairs if p.hypothesis] == hypothesis
    assert [p.edit for p in pairs].count("equal") == 3


def sets(*rows):
    """Return utterances and hypotheses of (text, tokens, hypothesis's text, hypothesis's tokens)."""
    said = [Utterance(str(n), "", 1.0, row[0], tuple(row[1].split())) for n, row in enumerate(rows)]
    recognized = [segment_of(row[3].split(), row[2]) for row in rows]
    return said, recognized


def rates(*rows):
    return {name: sum(edits, EditCounts()) for name, edits in measures(*sets(*rows))}


def test_syllables_converted_to_hanzi_are_measured_in_every_unit():
    found = rates(
        ("我们去公园。", "wo3 men5 qu4 gong1 yuan2", "我们去公元", "wo3 men5 qu4 gong1 yuan2"),
        ("你好！", "ni3 hao3", "你号", "ni3 hao4"),
        ("好", "hao3", "", ""),
        ("“谁？”", "shei2", "谁", "shui2"),
    )
    assert list(found) == [
        "syllable",
        "tone-free syllable",
        "character",
        "word",
        "sentence",
        "written sentence",
    ]
    assert found["syllable"] == EditCounts(2, 0, 1, 9)
    assert found["tone-free syllable"] == EditCounts(1, 0, 1, 9)
    assert found["character"] == EditCounts(2, 0, 1, 9)
    # 我们 去 公园, 你好, 好, 谁; the hypothesis has 公元 for 公园, and 你 号 for 你好
    assert found["word"] == EditCounts(2, 1, 1, 6)
    assert found["sentence"] == EditCounts(3, 0, 0, 4)
    assert found["written sentence"] == EditCounts(3, 0, 0, 4)


def test_syllables_that_are_not_converted_have_no_character_error_rate():
    assert list(rates(("你好", "ni3 hao3", "ni3 hao4", "ni3 hao4"))) == [
        "syllable",
        "tone-free syllable",
        "sentence",
    ]


def test_empty_hypotheses_have_every_character_and_word_wrong():
    found = rates(("我们去公园。", "wo3 men5 qu4 gong1 yuan2", "", ""), ("你好", "ni3 hao3", "", ""))
    assert found["character"] == EditCounts(0, 0, 7, 7)
    assert found["word"] == EditCounts(0, 0, 4, 4)
    assert found["written sentence"].rate == 1
    assert "character" not in rates(("", "ni3 hao3", "", ""))


def test_a_reference_without_text_disables_the_character_error_rate():
    rows = [("你好", "ni3 hao3", "你号", "ni3 hao4"), ("", "ni3", "你", "ni3")]
    assert "character" not in rates(*rows)
    assert [utterance.id for utterance in without_text(sets(*rows)[0])] == ["1"]
    # silence: an empty text is the right one
    silence = [rows[0], ("", "", "", "")]
    assert rates(*silence)["character"] == EditCounts(1, 0, 0, 2)


def test_characters_and_words_are_measured_for_other_tokens():
    assert list(rates(("你好", "你 好", "你", "你"))) == ["character", "word", "sentence"]
    found = rates(("one two", "one two", "one too three", "one too three"))
    assert list(found) == ["token", "character", "sentence"]  # tokens are words
    assert found["token"] == EditCounts(1, 1, 0, 2)
    assert found["character"] == EditCounts(1, 5, 0, 6)
    spelled = rates(("a cab", "a ▁ c a b", "a cub", "a ▁ c u b"))
    assert spelled["character"] == EditCounts(1, 0, 0, 5)
    assert spelled["word"] == EditCounts(1, 0, 0, 2)


def test_empty_references_and_hypotheses_are_counted():
    found = rates(("", "", "你 好", "ni3 hao3"), ("好", "hao3", "", ""))
    assert found["syllable"] == EditCounts(0, 2, 1, 1)
    assert found["syllable"].rate == 3
    assert found["sentence"].rate == 1


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("Ｎｉ，你好！　…—《好》", "ni你好好"),
        ("１２３ ① ² ㎏", "12312kg"),
        ("3.5%，第1.", "3.5%第1"),
        ("50 ℃ ¥5", "50°c¥5"),
        ("⼀\u200b二\ufeff\u0007三", "一二三"),
        ("don't — STOP~ 😀", "dontstop"),
        ("İ é e\u0301", "i̇éé"),
        ("三3", "三3"),
        ("", ""),
    ],
)
def test_text_is_normalised_without_punctuation_that_nobody_says(text, characters):
    assert "".join(characters_of(text)) == characters


def test_words_are_split_at_spaces_or_by_the_dictionary():
    assert words_of("Don't stop-it, 3.5 times") == ["dont", "stop", "it", "3.5", "times"]
    assert words_of("我们去公园") == ["我们", "去", "公园"]
    assert words_of("打开WiFi吧") == ["打开", "wifi", "吧"]
    assert words_of("，。 ") == []


def test_equal_characters_make_equal_words_wherever_spaces_are():
    text = "他说，北京大学生活动中心今天不开门"
    for mark in (" ", "，", "。\n", "、 "):
        for place in range(len(text)):
            assert words_of(text[:place] + mark + text[place:]) == words_of(text)


def test_words_are_the_first_measure_of_pieces_with_spaces_between_words():
    def found(reference, hypothesis):
        tokens = tuple(reference.split())
        utterance = Utterance("u", "u.wav", 1.0, "Turning, on!", tokens)
        found = measures([utterance], [segment_of(hypothesis.split())], "piece")
        return {name: (edits.errors, edits.reference_length) for name, (edits,) in found}

    spaced = found("▁turn ing ▁on", "▁ turn ing ▁of")
    assert list(spaced) == ["word", "piece", "character", "sentence"]
    assert spaced == {"word": (1, 2), "piece": (3, 3), "character": (1, 9), "sentence": (1, 1)}
    assert found("▁turn ing", "▁ turn ing")["sentence"] == (0, 1)  # split otherwise, but the same text
    assert next(iter(found("▁你们 好", "▁你们 好"))) == "piece"
