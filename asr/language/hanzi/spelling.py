"""Pinyin as people write it -> syllables as the vocabulary writes them."""

from __future__ import annotations

import re
import unicodedata

ACCENTS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
DIAERESIS, CIRCUMFLEX = "\u0308", "\u0302"
LATIN_SYLLABLE = re.compile("[a-z]+[1-5]?")
SEPARATORS = re.compile("[\\s,.;!?'’·，。；！？、]+")


def syllables_of(text: str) -> list[str]:
    """Syllables of a line of pinyin, with spaces, apostrophes or punctuation between them.

    Tones are digits or accents; ü may be written v or u:, and 0 stands for the neutral tone, too. A syllable
    without a tone stays so: it fits any. What is no pinyin stays as it is.
    """
    return [syllable_of(part) for part in SEPARATORS.split(text) if part]


def syllable_of(text: str) -> str:
    """One syllable: `nǐ` -> `ni3`, `lü4` and `lu:4` -> `lv4`."""
    tone = ""
    letters: list[str] = []
    for char in unicodedata.normalize("NFD", text.lower()):
        if char in ACCENTS:
            tone += ACCENTS[char]
        elif char == DIAERESIS or char == ":":
            letters[-1:] = ["v"] if letters[-1:] == ["u"] else [*letters[-1:], char]
        elif char != CIRCUMFLEX:
            letters.append(char)
    syllable = re.sub("0$", "5", "".join(letters)) + tone
    return syllable if LATIN_SYLLABLE.fullmatch(syllable) else text
