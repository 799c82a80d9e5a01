"""Classify labels as syllables, characters or words, by the tokens themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from asr.base.pinyin import is_syllable

Unit: TypeAlias = Literal["syllables", "characters", "words"]

UNITS: tuple[Unit, ...] = ("syllables", "characters", "words")
TOKEN_NAMES: Mapping[Unit, str] = {"syllables": "syllable", "characters": "character", "words": "token"}
MIN_SHARE = 0.9  # of the tokens; the rest may be foreign words, or interjections such as `ng2`
# markers of vocabularies and language models, which are not units
SPECIAL = frozenset(("<unk>", "<UNK>", "<s>", "</s>", "<blank>"))


def unit_of(tokens: Iterable[str]) -> Unit:
    """Return the unit of most tokens of a vocabulary, a language model or a set of labels; default: words."""
    units = [token for token in tokens if token not in SPECIAL]
    minimum = max(1, MIN_SHARE * len(units))
    if sum(map(is_syllable, units)) >= minimum:
        return "syllables"
    return "characters" if sum(len(token) == 1 for token in units) >= minimum else "words"
