"""Test how the words that a person favours are read."""

import pytest

from asr.server.hot_words import hot_word_weights


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("", {}),
        (" ,， ", {}),
        ("李雷 韩梅梅", {"李雷": 1.0, "韩梅梅": 1.0}),
        ("李雷:3，韩梅梅：2.5、王", {"李雷": 3.0, "韩梅梅": 2.5, "王": 1.0}),
    ],
)
def test_hot_words_are_read_with_their_weights(line, weights):
    assert hot_word_weights(line) == weights
