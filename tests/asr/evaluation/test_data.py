"""Test which labels a model is evaluated on."""

import pytest

from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.evaluation.data import expect_unit

SYLLABLES = Vocabulary(["hao3", "ni3", "wo3", "zao3"])
LETTERS = Vocabulary("abc")


@pytest.mark.parametrize(
    ("tokens", "vocabulary"),
    [
        (["你", "好"], SYLLABLES),
        (["ni", "hao"], SYLLABLES),
        (["NI3", "HAO3"], SYLLABLES),
        (["A", "B"], LETTERS),
        (["ni3", "hao3"], LETTERS),
        (["ab", "ba", "a"], LETTERS),
    ],
)
def test_labels_of_another_unit_or_case_are_refused_and_both_are_shown(tokens, vocabulary):
    with pytest.raises(
        UserError, match=rf"set\.jsonl.*{vocabulary.tokens[1]}.*{tokens[0]}.*--units {vocabulary.unit}"
    ):
        expect_unit(tokens, vocabulary, "set.jsonl")


@pytest.mark.parametrize(
    ("tokens", "vocabulary"),
    [
        (["ni3", "hao3", "ok"] * 3 + ["ni3"] * 30, SYLLABLES),
        (["ni3", "ta1", "men5", "lai2"], SYLLABLES),
        (["a"] * 9 + ["d"], LETTERS),
        (["a", "a"], Vocabulary(["a", "book", "read"])),
        ([], SYLLABLES),
    ],
)
def test_labels_with_some_unknown_tokens_are_accepted(tokens, vocabulary):
    expect_unit(tokens, vocabulary, "set.jsonl")
