import re

import pytest

from asr.base.hanzi_text import HANZI, hanzi_in, is_hanzi


@pytest.mark.parametrize("char", ["一", "龥", "〇", "㐀", "𠀀", "𰻞", "\ufa0e"])
def test_every_block_of_hanzi_counts(char):
    assert is_hanzi(char)
    assert hanzi_in(f"a{char}。") == [char]
    assert re.fullmatch(f"[{HANZI}]", char)


@pytest.mark.parametrize("text", ["", "a", "0", "。", "は", "한", "你a", "你 好", "々"])
def test_what_is_no_hanzi_throughout_is_none(text):
    assert not is_hanzi(text)


def test_compatible_forms_are_one_hanzi():
    assert hanzi_in("我有3本书。𠀀") == ["我", "有", "本", "书", "𠀀"]
    assert hanzi_in("\uf900\u2f00") == ["豈", "一"]
