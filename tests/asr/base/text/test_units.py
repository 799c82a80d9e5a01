import pytest

from asr.base.text.units import unit_of
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
    ],
)
def test_the_unit_is_inferred_from_the_tokens(tokens, unit):
    assert unit_of(tokens) == unit


def test_a_vocabulary_knows_its_unit():
    assert Vocabulary(["ni3", "hao3"]).unit == "syllables"
    assert Vocabulary(["ni3", "hao3"]).is_mandarin
    assert not Vocabulary(["你", "好"]).is_mandarin
