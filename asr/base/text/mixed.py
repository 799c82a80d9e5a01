"""Split mixed labels into what was said: syllables of Mandarin, spelt letters and spoken Latin words.

[word.text for word in mixed_words(["kan4", "C", "C", "T", "V", "▁i", "phone"])]    # kan4, CCTV, iphone

A mixed label is a toned syllable, a capital letter that is said by its name, or a piece of a word in small
letters; `▁` begins a word.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from asr.base.text.pieces import Pieces
from asr.base.text.units import SPECIAL, WORD_BOUNDARY

LETTERS = tuple(string.ascii_uppercase)  # tokens


class MixedWord(NamedTuple):
    """A syllable, or a Latin word as it is written: letters in a row are one word.

    A mark `▁` that is a token of its own belongs to no word.

    Attributes:
        text: of the word.
        begin: index of its first token.
        end: index after its last token.
        is_latin: whether it is a Latin word.
    """

    text: str
    begin: int
    end: int
    is_latin: bool

    @property
    def name(self) -> str:
        """Return a name that no syllable has if the word is Latin: `▁an`, where `an` is a syllable."""
        return WORD_BOUNDARY + self.text if self.is_latin else self.text


def mixed_words(tokens: Sequence[str]) -> list[MixedWord]:
    """Return the syllables and Latin words of mixed labels."""
    words: list[MixedWord] = []
    before = ""
    for index, token in enumerate(tokens):
        kind = "syllable" if is_toned(token) else "letter" if is_letter(token) else "piece"
        text = token.removeprefix(WORD_BOUNDARY)
        if kind == before and (kind == "letter" or (kind == "piece" and text == token)):
            last = words.pop()
            words.append(last._replace(text=last.text + text, end=index + 1))
        elif text:
            words.append(MixedWord(text, index, index + 1, kind != "syllable"))
        before = kind if text else ""
    return words


def words_of_mixed(tokens: Sequence[str]) -> list[str]:
    """Return the words of a language model over words: syllables, letters and spoken Latin words."""
    words: list[str] = []
    for word in mixed_words(tokens):
        said = tokens[word.begin : word.end]
        words += said if begins_word(said[0]) else [word.text]
    return words


def mixed_vocabulary(syllables: Iterable[str], pieces: Pieces) -> tuple[str, ...]:
    """Return the tokens of mixed labels: syllables in alphabetical order, all letters, all pieces."""
    return (*sorted(set(syllables)), *LETTERS, *pieces.tokens)


def begins_word(token: str) -> bool:
    """Return whether a token of mixed labels begins what is said without a mark: a syllable or a letter."""
    return is_toned(token) or is_letter(token)


def is_toned(token: str) -> bool:
    """Return whether a token of mixed labels is a syllable; pieces have no digits."""
    return token[-1:].isdigit()


def is_letter(token: str) -> bool:
    """Return whether a token of mixed labels is a letter that is said by its name."""
    return len(token) == 1 and token in string.ascii_uppercase


def has_no_pieces(tokens: Iterable[str]) -> bool:
    """Return whether labels are syllables and letters that are said by their names, and nothing else.

    Mixed labels of a text without a spoken Latin word are; so are syllables by themselves.
    """
    return all(begins_word(token) for token in set(tokens) if token not in SPECIAL)


def is_latin(char: str) -> bool:
    """Return whether a character is one of the letters that Latin words are written in."""
    return char.isascii() and char.isalpha()
