"""Mixed labels are divided into syllables and Latin words."""

import pytest

from asr.base.text.mixed import mixed_words


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ("wo3 kan4 C C T V wu3", ["wo3", "kan4", "▁CCTV", "wu3"]),
        ("▁i phone ▁app A P P", ["▁iphone", "▁app", "▁APP"]),
        ("phone ni3 one C ed", ["▁phone", "ni3", "▁one", "▁C", "▁ed"]),
        ("▁ o k ni3 ▁ hao3 ▁", ["▁ok", "ni3", "hao3"]),
        ("▁an an4 m2", ["▁an", "an4", "m2"]),
        ("", []),
    ],
)
def test_letters_in_a_row_and_the_pieces_behind_a_mark_are_one_word(tokens, words):
    tokens = tokens.split()
    found = mixed_words(tokens)
    assert [word.name for word in found] == words
    assert [word.is_latin for word in found] == [word.startswith("▁") for word in words]
    for word in found:
        assert word.text == "".join(tokens[word.begin : word.end]).replace("▁", "")
