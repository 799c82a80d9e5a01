import re

import pytest

from asr.base.text.hanzi_text import HANZI, hanzi_in, is_hanzi


@pytest.mark.parametrize("char", ["一", "龥", "〇", "㐀", "𠀀", "𰻞", "\ufa0e"])
def test_every_unicode_block_of_hanzi_is_recognized(char):
    assert is_hanzi(char)
    assert hanzi_in(f"a{char}。") == [char]
    assert re.fullmatch(f"[{HANZI}]", char)


@pytest.mark.parametrize("text", ["", "a", "0", "。", "は", "한", "你a", "你 好", "々"])
def test_text_with_anything_but_hanzi_is_not_hanzi(text):
    assert not is_hanzi(text)


def test_compatibility_forms_of_a_hanzi_are_unified():
    assert hanzi_in("我有3本书。𠀀") == ["我", "有", "本", "书", "𠀀"]
    assert hanzi_in("\uf900\u2f00") == ["豈", "一"]
