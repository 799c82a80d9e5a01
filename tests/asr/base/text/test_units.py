from pathlib import Path

import pytest

from asr.base.errors import UserError
from asr.base.text.units import LearnedUnits, MixedModel, read_units, unit_of
from asr.base.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("tokens", "unit"),
    [
        (["<unk>", "<s>", "ni3", "lv4"], "syllables"),
        (["<blank>", "▁", "a", "你"], "characters"),
        (["<unk>", "▁", "a", "b", "▁the"], "pieces"),
        (["你好", "a", "b"], "words"),
        (["ni", "hao"], "words"),
        (["ni3"] * 9 + ["ng"], "syllables"),
        (["ni3"] * 8 + ["ng"] * 2, "words"),
        ([], "words"),
        (["ni3", "A", "▁phone", "s", "m2"], "mixed"),
        (["▁ni3", "hao3", "3", "a"], "pieces"),  # of text in pinyin
        (["▁the", "e2", "2"], "pieces"),
    ],
)
def test_the_unit_is_inferred_from_the_tokens(tokens, unit):
    assert unit_of(tokens) == unit


def test_a_vocabulary_knows_its_unit():
    assert Vocabulary(["ni3", "hao3"]).unit == "syllables"
    assert Vocabulary(["ni3", "hao3"]).is_mandarin
    assert not Vocabulary(["你", "好"]).is_mandarin


@pytest.mark.parametrize(
    ("written", "units"),
    [
        ("syllables", "syllables"),
        ("unigram:500", LearnedUnits("unigram", 500)),
        ("mixed:300", LearnedUnits("mixed", 300)),
        ("mixed", LearnedUnits("mixed", 0)),
        ("runs/a/units.model", Path("runs/a/units.model")),
        ("mixed:runs/a/units.model", MixedModel(Path("runs/a/units.model"))),
    ],
)
def test_units_are_read_as_users_write_them(written, units):
    assert read_units(written) == units


@pytest.mark.parametrize("written", ["", "pieces", "mixed:", "mixed:0", "mixed:words", "bpe", "runs/a"])
def test_other_units_are_refused_with_those_that_exist(written):
    with pytest.raises(UserError, match=r"syllables, characters, words, bpe:N .* mixed or mixed:N"):
        read_units(written)
