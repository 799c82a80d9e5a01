"""Test which labels a model is evaluated on."""

import pytest

from asr.base.errors import UserError
from asr.base.text.pieces import learn_pieces
from asr.base.text.units import LearnedUnits
from asr.base.vocabulary import Vocabulary
from asr.evaluation.data import expect_same_pieces, expect_unit

SYLLABLES = Vocabulary(["hao3", "ni3", "wo3", "zao3"])
LETTERS = Vocabulary("abc")
MIXED = Vocabulary(["da3", "kai1", "A", "P", "▁i", "phone"])


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
        (["da3", "dian4", "shi4", "C", "A"], MIXED),  # no spoken Latin word
    ],
)
def test_labels_with_some_unknown_tokens_are_accepted(tokens, vocabulary):
    expect_unit(tokens, vocabulary, "set.jsonl")


def test_labels_by_the_pieces_of_another_model_are_refused_and_a_few_split_by_hand_are_not():
    texts = ["turn the light on", "turn on the lights"]
    pieces = learn_pieces(texts * 3, LearnedUnits("bpe", 25))
    own = [pieces.encode(text) for text in texts] * 10
    vocabulary = Vocabulary.of_pieces(pieces)
    expect_same_pieces(own, vocabulary, "set.jsonl")
    by_hand = ("▁", *"turn")
    assert pieces.encode("turn") != by_hand
    expect_same_pieces([*own, by_hand], vocabulary, "set.jsonl")
    with pytest.raises(UserError, match=r"set\.jsonl.*▁ t u.*--units FOLDER/units.model"):
        expect_same_pieces([by_hand] * 3, vocabulary, "set.jsonl")
    with pytest.raises(UserError, match=r"--units FOLDER/units.model"):
        expect_unit(list("turn"), Vocabulary(["▁on", "▁the"]), "set.jsonl")
