"""Latin words in Mandarin are spelt or spoken by rules that a table overrides."""

import pytest

from asr.base.errors import UserError
from asr.base.text.latin import (
    TABLE,
    latin_reading,
    said_in_latin,
    usual_readings,
    with_spoken_digits,
    without_accents,
)


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("CEO", "C E O"),
        ("NBA", "N B A"),
        ("CCTV", "C C T V"),
        ("ktv", "K T V"),
        ("Mp", "M P"),
        ("T", "T"),
        ("b", "B"),
        ("A", "A"),
        ("app", "A P P"),
        ("App", "A P P"),
        ("APP", "A P P"),
        ("OK", "▁ok"),
        ("ok", "▁ok"),
        ("iPhone", "▁iphone"),
        ("IPHONE", "▁iphone"),
        ("NASA", "▁nasa"),
        ("why", "▁why"),
        ("don't", "▁don't"),
        ("xbox", "X ▁box"),
        ("a book", "▁a ▁book"),
        ("I love you", "▁i ▁love ▁you"),
        ("vitamin A", "▁vitamin A"),
        ("A P P", "A P P"),
    ],
)
def test_a_latin_word_is_spelt_or_spoken(words, tokens):
    assert said_in_latin(words.split()) == tuple(tokens.split())


def test_the_users_table_wins_over_the_usual_one_and_the_rule():
    own = {"app": ("▁app",), "nba": ("▁nba",), "kfc": ("ken3", "de2", "ji1")}
    assert said_in_latin(["APP", "NBA", "KFC", "CEO"], own) == ("▁app", "▁nba", *own["kfc"], "C", "E", "O")


def test_each_word_of_the_usual_table_is_in_small_letters_and_would_be_said_otherwise_in_one_of_its_forms(
    monkeypatch,
):
    table = dict(usual_readings())
    assert len(table) > 50
    monkeypatch.setattr("asr.base.text.latin.usual_readings", dict)
    for word, tokens in table.items():
        assert word == word.lower(), TABLE
        by_rule = {said_in_latin([form]) for form in (word, word.upper(), word.title())}
        assert by_rule != {tokens}, f"{TABLE}: {word}: the rule says the same"


def test_a_reading_has_letters_words_and_syllables():
    assert latin_reading(["X", "box", "ni3", "ni"]) == ("X", "▁box", "ni3", "▁ni")


@pytest.mark.parametrize("reading", ["", "Ab", "ni9", "a-b", "APP"])
def test_a_reading_of_other_parts_is_refused(reading):
    with pytest.raises(UserError, match=r"no reading|is not a capital letter"):
        latin_reading(reading.split())


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("我需要看CCTV5", "我需要看CCTV五"),
        ("ＣＣＴＶ５", "ＣＣＴＶ五"),
        ("CCTV-13", "CCTV十三"),
        ("G20峰会", "G二十峰会"),
        ("iPhone15", "iPhone十五"),
        ("K21", "K二十一"),
        ("C05", "C零五"),
        ("空客A380", "空客A三八零"),
        ("4S店和3D电影", "四S店和三D电影"),
        ("买5kg，跑3km，宽2cm", "买5kg，跑3km，宽2cm"),
        ("5g网络", "五g网络"),
        ("B2B", "B二B"),
        ("USB3.0", "USB3.0"),
        ("T1:2", "T1:2"),
        ("x5%", "x5%"),
        ("10KB", "10KB"),
        ("on May 3rd at 5PM", "on May 3rd at 5PM"),
        ("下午5pm开会", "下午五pm开会"),
        ("iPhone 12", "iPhone 12"),
        ("2019年", "2019年"),
    ],
)
def test_digits_that_touch_letters_are_read_in_mandarin(written, spoken):
    assert with_spoken_digits(written) == spoken
    assert with_spoken_digits(spoken) == spoken


def test_accents_are_dropped_from_latin_letters_alone():
    assert without_accents("café naïve, 你好 й ß") == "cafe naive, 你好 й ß"
