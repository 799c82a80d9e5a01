"""Classify labels as syllables, characters or words, by the tokens themselves."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from asr.base.text.pinyin import is_syllable

Unit: TypeAlias = Literal["syllables", "characters", "words"]

UNITS: tuple[Unit, ...] = ("syllables", "characters", "words")
TOKEN_NAMES: Mapping[Unit, str] = {"syllables": "syllable", "characters": "character", "words": "token"}
MIN_SHARE = 0.9  # of the tokens; the rest may be foreign words, or interjections such as `ng2`
# markers of vocabularies and language models, which are not units
SPECIAL = frozenset(("<unk>", "<UNK>", "<s>", "</s>", "<blank>"))


def characters_in(text: str) -> list[str]:
    """Return the characters of a text, each with the marks on it, such as vowel signs: नि, not न and ि."""
    characters: list[str] = []
    for char in text:
        if characters and is_mark(char):
            characters[-1] += char
        else:
            characters.append(char)
    return characters


def is_character(token: str) -> bool:
    """Return whether a token is one character, with marks on it or without."""
    return len(token) == 1 or (len(token) > 1 and all(map(is_mark, token[1:])))


def is_mark(char: str) -> bool:
    """Return whether a code point modifies the one before it."""
    return unicodedata.category(char)[0] == "M"


def unit_of(tokens: Iterable[str]) -> Unit:
    """Return the unit of most tokens of a vocabulary, a language model or a set of labels; default: words."""
    units = [token for token in tokens if token not in SPECIAL]
    minimum = max(1, MIN_SHARE * len(units))
    if sum(map(is_syllable, units)) >= minimum:
        return "syllables"
    return "characters" if sum(map(is_character, units)) >= minimum else "words"
