import pytest

from asr.base.text.pinyin import (
    mandarin_syllables,
    read_syllable,
    split_syllable,
    syllables_in,
    with_tone_mark,
    without_tone,
)


@pytest.mark.parametrize(
    ("text", "syllables"),
    [
        ("ni3 hao3", ["ni3", "hao3"]),
        ("Nǐ hǎo, shìjiè", ["ni3", "hao3", "shi4", "jie4"]),
        ("lü4 lv4 lu:4 lǜ lu\u0308\u0300", ["lv4"] * 5),
        ("nǚ ér", ["nv3", "er2"]),
        ("ni hao", ["ni", "hao"]),
        ("ma0 ma5", ["ma5", "ma5"]),
        ("xī'ān", ["xi1", "an1"]),
        ("OK xyz9 3", ["ok", "xyz9", "3"]),
        ("lue4 jv2 n2", ["lve4", "ju2", "en2"]),
        ("ni3hao3 ni3hao", ["ni3", "hao3", "ni3", "hao"]),
        ("nǐhǎo Zhōngguórén", ["ni3", "hao3", "zhong1", "guo2", "ren2"]),
        ("zhuàngkuàng nüer lu:4se4", ["zhuang4", "kuang4", "nv", "er", "lv4", "se4"]),
        ("xian xi'an fangan fang'an", ["xian", "xi", "an", "fan", "gan", "fang", "an"]),
        ("hello ni3x", ["hello", "ni3x"]),
        ("", []),
    ],
)
def test_pinyin_is_read_in_all_usual_spellings(text, syllables):
    assert syllables_in(text) == syllables


@pytest.mark.parametrize("written", ["nǐ3", "ni33", "nǐǎ", "3", "", "ma6", "你"])
def test_text_that_cannot_be_pinyin_is_rejected(written):
    assert read_syllable(written) is None


def test_the_syllable_with_a_circumflex_is_read():
    assert read_syllable("ế") == ("ei", "2")


@pytest.mark.parametrize(
    ("syllable", "parts"),
    [
        ("zhong1", ("zh", "ong", "1")),
        ("an4", ("", "an", "4")),
        ("ju2", ("j", "v", "2")),
        ("lv4", ("l", "v", "4")),
        ("yuan2", ("y", "van", "2")),
        ("shi4", ("sh", "-i", "4")),
        ("xi1", ("x", "i", "1")),
        ("er5", ("", "er", "5")),
        ("seven", ("", "seven", "")),
    ],
)
def test_syllables_split_by_sound(syllable, parts):
    assert split_syllable(syllable) == parts


def test_mandarin_syllables_contain_every_common_syllable_once():
    syllables = mandarin_syllables()
    assert len(set(syllables)) == len(syllables)
    assert {"de5", "lv4", "nve4", "zhuang1", "er2", "yo1", "ma5"} <= set(syllables)
    assert 1500 < len(syllables) < 2000


@pytest.mark.parametrize(
    ("syllable", "written"),
    [("zhong1", "zhōng"), ("lv4", "lǜ"), ("de5", "de"), ("gui3", "guǐ"), ("ng2", "ng2")],
)
def test_syllables_are_written_with_tone_marks(syllable, written):
    assert with_tone_mark(syllable) == written


def test_tones_are_removed_from_syllables_only():
    tokens = ["ma3", "er2", "seven", "B2B"]
    assert list(map(without_tone, tokens)) == ["ma", "er", "seven", "B2B"]
