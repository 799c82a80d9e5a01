"""Units of labels: syllables, characters or words, recognized by the tokens themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from asr.base.pinyin import is_syllable

Unit: TypeAlias = Literal["syllables", "characters", "words"]

UNITS: tuple[Unit, ...] = ("syllables", "characters", "words")
MOSTLY = 0.9  # of the tokens; the rest may be foreign words, or interjections such as `ng2`
SPECIAL = frozenset(("<unk>", "<UNK>", "<s>", "</s>", "<blank>"))  # of vocabularies and language models


def unit_of(tokens: Iterable[str]) -> Unit:
    """Return what most tokens are, of a vocabulary, a language model or a set of labels; of none, words."""
    own = [token for token in tokens if token not in SPECIAL]
    least = max(1, MOSTLY * len(own))
    if sum(map(is_syllable, own)) >= least:
        return "syllables"
    return "characters" if sum(len(token) == 1 for token in own) >= least else "words"
