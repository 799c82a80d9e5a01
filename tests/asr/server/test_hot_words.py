"""Test how the words that a client favours are read, and which are refused."""

import pytest

from asr.server.funasr_socket import _hot_words
from asr.server.hot_words import hot_word_weights, refuse_too_many
from asr.server.limits import MAX_HOT_WORD_CHARS, Limits
from asr.server.refusal import RefusalError


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ("", {}),
        (" ,， ", {}),
        ("李雷 韩梅梅", {"李雷": 1.0, "韩梅梅": 1.0}),
        ("李雷:3，韩梅梅：2.5、王", {"李雷": 3.0, "韩梅梅": 2.5, "王": 1.0}),
        ("李雷:12345", {"李雷": 12345.0}),
    ],
)
def test_hot_words_are_read_with_their_weights(line, weights):
    assert hot_word_weights(line) == weights


@pytest.mark.parametrize(
    "value",
    [
        "书房 电影院",
        "书房,电影院",
        "书房，电影院；",
        "书房、电影院",
        "书房;电影院",
        '{"书房": 20, "电影院": 20}',
        {"书房": "20", "电影院": 20.0},
    ],
)
def test_words_of_funasrs_clients_are_read_in_every_form(value):
    assert _hot_words(value) == {"书房": 1.0, "电影院": 1.0}


@pytest.mark.parametrize(
    "weight", [10**400, "1e400", float("inf"), float("nan"), -1, "heavy", None, [20], "9" * 5000]
)
def test_weight_that_is_no_sane_number_is_refused(weight):
    with pytest.raises(RefusalError, match="weight") as caught:
        _hot_words({"书房": weight})
    assert caught.value.status == 400


def test_too_many_words_and_too_long_ones_are_refused():
    limits = Limits(max_hot_words=2)
    refuse_too_many({"书" * MAX_HOT_WORD_CHARS: 1.0, "房": 1.0}, limits)
    for weights in ({"书" * (MAX_HOT_WORD_CHARS + 1): 1.0}, dict.fromkeys("一二三", 1.0)):
        with pytest.raises(RefusalError, match="hot words") as caught:
            refuse_too_many(weights, limits)
        assert caught.value.status == 413
