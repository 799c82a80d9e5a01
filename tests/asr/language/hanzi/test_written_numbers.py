"""Test that numbers are written in digits, and that each keeps the syllables it is read as."""

import sys

import pytest

from asr.base.errors import UserError
from asr.language.hanzi import written_numbers
from asr.language.hanzi.converter import Conversion, Converter, HanziWord
from asr.language.hanzi.lattice import lattice_from_nbest
from asr.language.hanzi.written_numbers import NumberConverter, Rewriting, number_rules, rewritten


@pytest.fixture(scope="module")
def converter():
    return NumberConverter(Converter.load())


@pytest.mark.parametrize(
    ("syllables", "text", "number", "read_as"),
    [
        ("yi4 bai3 er4 shi2 san1", "123", "123", "yi4 bai3 er4 shi2 san1"),
        ("ta1 hua1 le5 yi4 bai3 er4 shi2 san1 tian1", "他花了123天", "123天", "yi4 bai3 er4 shi2 san1 tian1"),
        ("bai3 fen1 zhi1 san1 shi2 wu3", "35%", "35%", "bai3 fen1 zhi1 san1 shi2 wu3"),
    ],
)
def test_number_is_one_word_with_the_syllables_that_it_is_read_as(
    converter, syllables, text, number, read_as
):
    conversion = converter.convert(syllables.split())
    assert conversion.text == text
    assert "".join(word.text for word in conversion.words) == text
    assert [word.syllables for word in conversion.words if word.text == number] == [tuple(read_as.split())]
    assert conversion.syllables == tuple(syllables.split())
    assert [word.start for word in conversion.words[1:]] == [word.end for word in conversion.words[:-1]]


@pytest.mark.parametrize(
    ("syllables", "text"),
    [
        ("shi2 fen1 gan3 xie4", "十分感谢"),
        ("fei1 chang2 gan3 xie4 shi2 fen1 zhong4 yao4", "非常感谢十分重要"),
        ("xian3 de5 shi2 fen1 zhong4 yao4", "显得十分重要"),
        ("ta1 kao3 le5 shi2 fen1", "他考了10分"),
        ("xia4 wu3 san1 dian3 shi2 fen1", "03:10p.m."),
        ("deng3 shi2 fen1 zhong1", "等10分钟"),
        ("san1 dian3 shi2 fen1 kai1 hui4", "03:10开会"),
        ("san1 dian3 yi2 ke4", "三点一刻"),
        ("wo3 yi4 mi3 qi1 ba1", "我一米七八"),
        ("shi2 fen1 zhi1 yi1", "1/10"),
    ],
)
def test_words_that_are_no_numbers_stay_and_times_are_as_they_are_said(converter, syllables, text):
    assert converter.convert(syllables.split()).text == text


def test_words_that_contain_a_numeral_stay_words(converter):
    assert converter.convert(["wo3", "men5", "yi4", "qi3", "qu4"]).text == "我们一起去"


def test_spoken_form_and_score_are_those_of_the_other_converter(converter):
    syllables = ["yi4", "bai3", "er4", "shi2", "san1"]
    plain = converter.without_itn.convert(syllables)
    assert plain.text == "一百二十三"
    assert converter.convert(syllables).score == plain.score
    assert plain == Converter.load().convert(syllables)
    assert converter.without_itn.without_itn is converter.without_itn


def test_lattice_is_rewritten_too(converter):
    syllables = ["yi4", "bai3", "er4", "shi2", "san1"]
    assert converter.convert_lattice(lattice_from_nbest([(tuple(syllables), 0.0)])).text == "123"


def conversion(*words):
    """Return a conversion of words, each given with its syllables."""
    found, start = [], 0
    for text, syllables in words:
        found.append(HanziWord(text, tuple(syllables.split()), start, True))
        start = found[-1].end
    return Conversion("".join(word.text for word in found), tuple(found), -1.0)


def as_pairs(conversion):
    return [(word.text, " ".join(word.syllables), word.start) for word in conversion.words]


def test_a_word_is_cut_where_a_rewritten_stretch_begins_and_ends():
    given = conversion(("买一", "mai3 yi4"), ("百二", "bai3 er4"), ("十个人", "shi2 ge5 ren2"))
    result = rewritten(given, lambda _: [Rewriting(1, 5, "120")])
    assert as_pairs(result) == [("买", "mai3", 0), ("120", "yi4 bai3 er4 shi2", 1), ("个人", "ge5 ren2", 5)]


def test_a_word_without_a_character_for_each_syllable_belongs_to_the_stretch_as_a_whole():
    given = conversion(("〔xx1〕", "xx1"), ("二", "er4"), ("人", "ren2"), ("三", "san1"))
    result = rewritten(given, lambda _: [Rewriting(4, 6, "2"), Rewriting(7, 8, "3")])
    assert as_pairs(result) == [("〔xx12", "xx1 er4", 0), ("人", "ren2", 2), ("3", "san1", 3)]
    assert result.text == "〔xx12人3"


def test_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "wetext", None)
    number_rules.cache_clear()
    with pytest.raises(UserError, match=r"`itn`.*wetext.*polyphone\[normalize\]"):
        written_numbers.number_rules()
