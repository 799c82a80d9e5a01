"""Errors of mixed speech are counted by language and next to a change of language."""

import pytest
from helpers.transcripts import segment_of

from asr.base.types import EditCounts, Utterance
from asr.evaluation.errors.hanzi_errors import hanzi_errors
from asr.evaluation.errors.language_errors import language_errors, names_in
from asr.evaluation.errors.metrics import align, measures

SAID = "wo3 yao4 kan4 C C T V wu3 de5 ▁i phone"


@pytest.mark.parametrize(
    ("recognized", "mandarin", "latin", "switch"),
    [
        (SAID, (0, 0, 0), (0, 0, 0), (0, 0, 0)),
        # far from Latin words
        ("wo4 yao4 kan4 C C T V wu3 de5 ▁i phone", (1, 0, 0), (0, 0, 0), (0, 0, 0)),
        ("wo3 yao4 ma5 kan4 C C T V wu3 de5 ▁i phone", (0, 1, 0), (0, 0, 0), (0, 0, 0)),
        # a letter makes a word wrong
        ("wo3 yao4 kan4 C T V wu3 de5 ▁i phone", (0, 0, 0), (1, 0, 0), (1, 0, 0)),
        ("wo3 yao4 kan4 wu3 de5 ▁i phone", (0, 0, 0), (0, 0, 1), (0, 0, 1)),
        # a syllable before a word, one between a word and a syllable, and a word in place of a syllable
        ("wo3 yao4 kan3 C C T V wu3 de5 ▁i phone", (1, 0, 0), (0, 0, 0), (1, 0, 0)),
        ("wo3 yao4 kan4 C C T V wu3 de5 ma5 ▁i phone", (0, 1, 0), (0, 0, 0), (0, 1, 0)),
        ("wo3 yao4 kan4 C C T V ▁woo de5 ▁i phone", (1, 0, 0), (0, 0, 0), (1, 0, 0)),
    ],
)
def test_an_error_belongs_to_the_language_that_was_said_and_to_the_switch_beside_it(
    recognized, mandarin, latin, switch
):
    found = language_errors(align(names_in(SAID.split()), names_in(recognized.split())))
    expected = [EditCounts(*edits, said) for edits, said in ((mandarin, 5), (latin, 2), (switch, 5))]
    assert list(found) == expected


def test_an_insertion_between_words_of_one_language_is_not_at_the_switch():
    said, recognized = ["A", "wo3", "yao4", "▁app"], ["A", "wo3", "de5", "yao4", "▁app"]
    assert language_errors(align(names_in(said), names_in(recognized))).switch == EditCounts(0, 0, 0, 4)


def sets(*rows):
    said = [Utterance(str(n), "", 1.0, row[0], tuple(row[1].split())) for n, row in enumerate(rows)]
    return said, [segment_of(row[3].split(), row[2]) for row in rows]


def test_mixed_labels_are_measured_together_by_language_and_as_written():
    rows = [
        ("看CCTV五", "kan4 C C T V wu3", "看CCT五", "kan4 C C T wu3"),
        ("打开iPhone", "da3 kai1 ▁i phone", "打开iphone", "da3 kai1 ▁i phone"),
    ]
    found = {name: sum(edits, EditCounts()) for name, edits in measures(*sets(*rows), "mixed unit")}
    assert list(found) == [
        "mixed",
        "Mandarin syllable",
        "Latin word",
        "language switch",
        "mixed unit",
        "character",
        "word",
        "sentence",
        "written sentence",
    ]
    assert found["mixed"] == EditCounts(1, 0, 0, 6)
    assert found["Latin word"] == EditCounts(1, 0, 0, 2)
    assert found["Mandarin syllable"] == EditCounts(0, 0, 0, 4)
    assert found["language switch"] == EditCounts(1, 0, 0, 5)
    assert found["mixed unit"] == EditCounts(0, 0, 1, 10)
    assert found["character"] == EditCounts(0, 0, 1, 14)


def test_a_set_without_latin_words_has_no_rate_of_them():
    names = [name for name, _ in measures(*sets(("你好", "ni3 hao3", "你好", "ni3 hao3")), "mixed unit")]
    assert "Mandarin syllable" in names
    assert not {"Latin word", "language switch"} & {*names}


def test_wrong_hanzi_beside_latin_words_are_divided_by_cause():
    rows = [
        ("看CCTV五", "kan4 C C T V wu3", "砍CCTV舞", "kan3 C C T V wu3"),
        ("打开iPhone", "da3 kai1 ▁i phone", "打开", "da3 kai1"),
    ]
    errors = hanzi_errors(zip(*sets(*rows), strict=True))
    assert (errors.num_said, errors.syllable_right, errors.syllable_wrong) == (4, 1, 1)
    assert errors.num_not_compared == 0
