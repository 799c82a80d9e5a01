import pytest
from pypinyin.constants import PHRASES_DICT

from data_pipeline.doctor.text_defects import damage, is_composed, mojibake, unseen, unusual_space


@pytest.mark.parametrize(
    "text", ["公交车票多少钱", "ma3 ge5", "naïve café", "Ünïcödé ÄÖÜ", "¿Qué?", "Привет", "は", "한국어"]
)
def test_intact_texts_have_no_defects(text):
    assert damage(text) == ""
    assert unusual_space(text) == ""


def test_chinese_phrases_are_not_taken_for_mojibake():
    assert [phrase for phrase in PHRASES_DICT if mojibake(phrase)] == []


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("latin-1", "朋友正在厨房做饭"), ("cp1252", "你好"), ("gbk", "朋友正在厨房做饭"), ("gb18030", "你好吗")],
)
def test_mojibake_is_reported_with_the_original_text(encoding, text):
    was_read = text.encode().decode(encoding, errors="replace")
    assert mojibake(was_read).startswith(text[:-1])
    assert text[:-1] in damage(was_read)


def test_western_mojibake_is_detected():
    assert mojibake("cafÃ©") == "café"
    assert mojibake("itâ€™s") == "it’s"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("你\ufffd好", "U+FFFD"),
        ("\ufeff你好", "byte order mark"),
        ("你\u200b好", "U+200B ZERO WIDTH SPACE"),
        ("a\x00b", "U+0000"),
        ("a\x1b[31mb", "U+001B"),
        ("\ue000", "U+E000"),
        ("a\u202eb", "U+202E"),
    ],
)
def test_damaged_and_invisible_characters_are_named(text, name):
    assert name in damage(text)


def test_joiners_of_persian_are_not_damage():
    assert damage("می\u200cخواهم") == ""


@pytest.mark.parametrize(
    ("text", "name"), [("a\u3000b", "IDEOGRAPHIC"), ("a\tb", "U+0009"), ("a\xa0b", "NO-BREAK")]
)
def test_unusual_spaces_are_named(text, name):
    assert name in unusual_space(text)


def test_is_composed_detects_the_nfc_form():
    assert is_composed("lǘ")
    assert not is_composed("lu\u0308")


@pytest.mark.parametrize("token", ["\ufe0f", "\U000e0100", "\u3164", "\u034f", "\u0301"])
def test_a_token_that_nobody_sees_is_named(token):
    assert f"U+{ord(token):04X}" in unseen(token)


@pytest.mark.parametrize("token", ["葛", "é", "ni3", "▁", "हि", ""])
def test_a_token_that_is_seen_is_sound(token):
    assert not unseen(token)
