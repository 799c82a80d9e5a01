"""Classify labels as syllables, characters, words, pieces of words or a mixture, by the tokens themselves."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast

from asr.base.errors import UserError
from asr.base.text.pinyin import is_syllable

Unit: TypeAlias = Literal["syllables", "characters", "words", "pieces", "mixed"]
Method: TypeAlias = Literal["bpe", "unigram", "mixed"]

TEXT_UNITS: tuple[Unit, ...] = ("syllables", "characters", "words")  # which no model has to learn
UNITS: tuple[Unit, ...] = (*TEXT_UNITS, "pieces", "mixed")
MANDARIN_UNITS: tuple[Unit, ...] = ("syllables", "mixed")  # in which hanzi are toned syllables
UNITS_IN_PIECES: tuple[Unit, ...] = ("pieces", "mixed")
TOKEN_NAMES: Mapping[Unit, str] = {
    "syllables": "syllable",
    "characters": "character",
    "words": "token",
    "pieces": "piece",
    "mixed": "mixed unit",
}
WORD_BOUNDARY = "▁"  # the token between words, where units are characters; begins a word in pieces
LEARNED = re.compile("(bpe|unigram|mixed):([1-9][0-9]{0,5})")
TONED = re.compile("[a-z]+[1-5]")  # syllables, those without a vowel too: `m2`
MODEL_SUFFIX = ".model"
MIXED, MIXED_WORDS = "mixed", "mixed:words"  # MIXED_WORDS: with whole Latin words, before pieces are learned
AS_MANY_AS_POSSIBLE = 0  # pieces
MIN_SHARE = 0.9  # of the tokens; the rest may be foreign words, or interjections such as `ng2`
# markers of vocabularies and language models, which are not units
SPECIAL = frozenset(("<unk>", "<UNK>", "<s>", "</s>", "<blank>"))


class LearnedUnits(NamedTuple):
    """Pieces that are to be learned, `bpe:500`; those of `mixed:200` are of Latin words, and byte pairs.

    Attributes:
        method: of learning.
        number: of pieces; `AS_MANY_AS_POSSIBLE` for the usual number, or all that the text allows.
    """

    method: Method
    number: int

    def __str__(self) -> str:
        """Return the name as users write it."""
        return f"{self.method}:{self.number}" if self.number else self.method


class MixedModel(NamedTuple):
    """Syllables for hanzi, and the pieces of a model for Latin words, `mixed:runs/mine/units.model`."""

    path: Path


def read_units(written: str) -> Unit | LearnedUnits | MixedModel | Path:
    """Return the units that a setting names; a path is that of a model of pieces.

    Raises:
        UserError: it is none of these.
    """
    if written in TEXT_UNITS:
        return written
    if written == MIXED:
        return LearnedUnits("mixed", AS_MANY_AS_POSSIBLE)
    if match := LEARNED.fullmatch(written):
        return LearnedUnits(cast("Method", match[1]), int(match[2]))
    if written.endswith(MODEL_SUFFIX):
        prefix, colon, path = written.partition(":")
        return MixedModel(Path(path)) if (prefix, colon) == (MIXED, ":") else Path(written)
    raise UserError(
        f"expected {', '.join(TEXT_UNITS)}, bpe:N or unigram:N with the number of pieces, such as "
        f"bpe:500, mixed or mixed:N for syllables and pieces of Latin words, or the units{MODEL_SUFFIX} of "
        f"other labels or of a run (mixed:units{MODEL_SUFFIX} with syllables), received {written!r}"
    )


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


def is_piece(token: str) -> bool:
    """Return whether a token is a piece that begins a word, which no other unit has."""
    return len(token) > 1 and token[0] == WORD_BOUNDARY


def unit_of(tokens: Iterable[str] | Counter[str]) -> Unit:
    """Return the unit of most tokens of a vocabulary, a language model or a set of labels; default: words.

    Args:
        tokens: each as often as it occurs; in a Counter, each with its number.
    """
    counts = tokens if isinstance(tokens, Counter) else Counter(tokens)
    units = {token: count for token, count in counts.items() if token not in SPECIAL}
    if any(map(is_piece, units)):
        return "mixed" if _is_mixed(units) else "pieces"
    minimum = max(1, MIN_SHARE * sum(units.values()))
    if sum(count for token, count in units.items() if is_syllable(token)) >= minimum:
        return "syllables"
    num_characters = sum(count for token, count in units.items() if is_character(token))
    return "characters" if num_characters >= minimum else "words"


def _is_mixed(tokens: Iterable[str]) -> bool:
    """Return whether some tokens are syllables and the pieces have no digits, which are read in Mandarin.

    Pieces of text with digits may look like syllables, `e2`, but there are digits in others as well.
    """
    different = set(tokens)
    others = (token for token in different if not TONED.fullmatch(token))
    return any(map(is_syllable, different)) and not any(char.isdigit() for token in others for char in token)
