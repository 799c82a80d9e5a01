import numpy as np
import pytest

from data_pipeline.labels.from_text import label
from data_pipeline.labels.readings.context import (
    AROUND,
    MODEL,
    NEIGHBOURS,
    OUTSIDE_ID,
    PAUSE_ID,
    UNKNOWN_ID,
    context_model,
    encode,
    hashes,
    windows_around,
)
from data_pipeline.labels.readings.sentence import read_by_dictionary
from data_pipeline.labels.readings.words import WORDS

IDS = {"你": 3, "好": 4}


def test_network_is_small():
    assert MODEL.stat().st_size < 5_000_000


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("你好", [3, 4]),
        ("你 好", [3, 4]),
        ("你，！好。", [3, PAUSE_ID, 4, PAUSE_ID]),
        ("，你\n好", [3, PAUSE_ID, 4]),
        ("你们", [3, UNKNOWN_ID]),
    ],
)
def test_encode_keeps_pauses_and_ignores_spaces(text, ids):
    encoded, places = encode(text, IDS)
    assert encoded == [OUTSIDE_ID] * AROUND + ids + [OUTSIDE_ID] * AROUND
    assert [encoded[place] for place in places] == [one for one in ids if one != PAUSE_ID]


def test_hashes_depend_on_the_neighbours_they_name_alone():
    ids = list(range(100, 100 + 2 * AROUND + 1))
    windows = windows_around([*ids, *ids], np.array([AROUND, AROUND]))
    windows[1, AROUND + 2] += 1
    rows = hashes(windows, 1 << 16)
    changed = [2 in offsets for offsets in NEIGHBOURS]
    assert (rows[:, 0] != rows[:, 1]).tolist() == changed


def test_scores_do_not_depend_on_what_else_is_read():
    text = "他背着书包去银行，行长很长时间没有当上教授，还要还钱。"
    model, draft = context_model(), read_by_dictionary(text)
    together = [found for _, found in model.proposals([text], [draft]) if found.gain < 100]
    assert together
    for found in together:
        others = set(range(len(draft.syllables))) - {found.place}
        ((_, alone),) = model.proposals([text], [draft._replace(decided=others)])
        assert alone.reading == found.reading
        assert alone.gain == pytest.approx(found.gain, abs=1e-3)


def test_corrections_leave_what_is_decided():
    text = "被告曾文彬"
    draft = read_by_dictionary(text)
    assert list(context_model().corrections([text], [draft])) == [(0, 2, "zeng1")]
    assert not list(context_model().corrections([text], [draft._replace(decided={2})]))


def test_one_hanzi_is_read_as_the_dictionary_has_it():
    for char in "曾翟单覃掺幢卜铣":
        assert label(char, "syllables") == tuple(read_by_dictionary(char).syllables)


@pytest.mark.parametrize("words", ["银行行长", "长大", "重庆重要", "女儿", "睡觉", "音乐", "会计", "朝阳"])
def test_words_of_the_dictionary_are_read_alike_in_any_context(words):
    inside = label(f"他说{words}是这样", "syllables")
    assert inside[2:-3] == label(words, "syllables") == tuple(read_by_dictionary(words).syllables)


@pytest.mark.parametrize("sentence", ["他说{}是这样", "曾经{}地", "为{}而来", "这个{}得到好评"])
def test_words_of_the_project_win_over_the_network(sentence):
    begin = sentence.index("{")
    read = {
        word: " ".join(label(sentence.format(word), "syllables")[begin : begin + len(word)]) for word in WORDS
    }
    assert read == WORDS
