"""Decide how Latin words in Mandarin are said: by the names of their letters, or as words.

said_in_latin(["iPhone"])    # ("▁iphone",)
said_in_latin(["CCTV"])      # ("C", "C", "T", "V")

The first of these rules that fits counts:

1. A word of a table is said as the table has it: the user's table, then `latin_words.tsv`.
2. A single letter is spelt, except `a` and `I` before a longer word.
3. Up to three capitals are spelt: CEO, NBA.
4. A word without a vowel (a, e, i, o, u, y) is spelt: CCTV, ktv.
5. Any other word is spoken: iPhone, NASA.

Digits that touch Latin letters are read in Mandarin: one digit by itself, two as a number, more one by one.
Those before a unit of measurement, and those of ordinals and times after a Latin word, stay: 5kg, May 3rd.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from asr.base.errors import UserError
from asr.base.text.mixed import is_letter
from asr.base.text.pinyin import known_syllables
from asr.base.text.units import WORD_BOUNDARY

LatinReadings = Mapping[str, tuple[str, ...]]  # word in small letters -> tokens, `▁` before spoken words

TABLE = "latin_words.tsv"
COMMENT = "#"
WORD = re.compile("[A-Za-z]+(?:'[A-Za-z]+)*")
SPOKEN_WORD = re.compile("[a-z]+(?:'[a-z]+)*")
MAX_CAPITALS = 3  # of a word that is spelt though it has a vowel; four are mostly words: NASA, WIFI, APEC
VOWELS = frozenset("aeiouy")
ARTICLES = (
    "a",
    "A",
    "i",
    "I",
)  # words before longer words, letters elsewhere: a book, I love; 维生素A, A P P

LETTER = "[A-Za-zＡ-Ｚａ-ｚ]"
DIGITS = "零一二三四五六七八九"
# a sign after digits may belong to them: USB3.0
BEHIND_LETTERS = re.compile(rf"(?<={LETTER})-?(\d++)(?!\s?[.:,/~^×]\s?\d|\s?[%‰°])")
MEASURES = "kg|[kcm]?m|ml|kw|km/h|kb|mb|gb|hz"  # of measurement: 5kg is not five, K, G; but 5g is a network
# of a digit after a Latin word, which is read in English: May 3rd, at 5pm
ENGLISH = rf"(?<={LETTER}\s)\d(?i:st|nd|rd|th|am|pm)(?!{LETTER})"
BEFORE_LETTERS = re.compile(rf"(?<![\d.:,/])(?!{ENGLISH})(\d)(?={LETTER})(?!(?:{MEASURES})(?!{LETTER}))")


def said_in_latin(words: Sequence[str], readings: LatinReadings | None = None) -> tuple[str, ...]:
    """Return the tokens of Latin words next to each other, before pieces are learned: `A`, `▁iphone`.

    Args:
        words: letters, and apostrophes within them.
        readings: the user's table; None for none.
    """
    return tuple(itertools.chain.from_iterable(said for _, said in each_said(words, readings)))


def each_said(words: Sequence[str], readings: LatinReadings | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each of the words with its own tokens; see `said_in_latin`."""
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        yield word, (readings or {}).get(word.lower()) or _said(word, following)


def written_reading(tokens: Sequence[str]) -> str:
    """Return tokens as a table has them beside a word, of which `latin_reading` makes the tokens."""
    return " ".join(token.removeprefix(WORD_BOUNDARY) for token in tokens)


def with_spoken_digits(text: str) -> str:
    """Write the digits that touch Latin letters as they are read: CCTV5 -> CCTV五, G20 -> G二十, 4S -> 四S.

    Digits with a point or another sign in them stay as they are.
    """
    text = BEHIND_LETTERS.sub(lambda found: _number(found[1]), text)
    return BEFORE_LETTERS.sub(lambda found: _number(found[1]), text)


def latin_reading(written: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens of what a table has beside a word.

    Raises:
        UserError: a part is not a capital letter, a word in small letters, or a toned syllable.
    """
    if not written:
        raise UserError("no reading")
    return tuple(map(_token, written))


def without_accents(text: str) -> str:
    """Return a text with letters A to Z in place of those with accents: café -> cafe."""
    return "".join(_without_accent(char) for char in text)


@functools.cache
def usual_readings() -> LatinReadings:
    """Return the words of the table that comes with the program."""
    lines = (files("asr.base.text") / TABLE).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith(COMMENT)]
    return {word: latin_reading(reading.split()) for word, reading in rows}


def _said(word: str, following: str) -> tuple[str, ...]:
    if known := usual_readings().get(word.lower()):
        return known
    letters = tuple(char.upper() for char in word if char.isalpha())
    if len(word) == 1:
        is_word = word in ARTICLES and len(following) > 1
        return (WORD_BOUNDARY + word.lower(),) if is_word else letters
    is_short = word.isupper() and len(letters) <= MAX_CAPITALS
    if is_short or not VOWELS & set(word.lower()):
        return letters
    return (WORD_BOUNDARY + word.lower(),)


def _token(part: str) -> str:
    if is_letter(part) or part in known_syllables():
        return part
    if SPOKEN_WORD.fullmatch(part):
        return WORD_BOUNDARY + part
    raise UserError(f"{part!r} is not a capital letter, a word in small letters or a toned syllable")


def _number(digits: str) -> str:
    """Return digits in hanzi: two as a number, unless the first is 0; any other number of them one by one."""
    ones = [DIGITS[int(digit)] for digit in digits]
    if len(ones) != 2 or ones[0] == DIGITS[0]:
        return "".join(ones)
    tens, last = ones
    return ("" if tens == "一" else tens) + "十" + ("" if last == DIGITS[0] else last)


def _without_accent(char: str) -> str:
    if char.isascii() or unicodedata.category(char)[0] != "L":
        return char
    base = unicodedata.normalize("NFD", char)[0]
    return base if base.isascii() else char
