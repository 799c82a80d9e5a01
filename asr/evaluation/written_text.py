"""Normalizes text for comparison: characters and words, without punctuation that nobody says.

characters_of("Ｎｉ，你好！")  # ["n", "i", "你", "好"]
words_of("我们去公园。")      # ["我们", "去", "公园"]
"""

from __future__ import annotations

import re
import unicodedata

from asr.base.text.hanzi_text import HANZI, SPACES_BETWEEN_HANZI, is_hanzi
from asr.base.text.units import characters_in

SPOKEN_SIGNS = "%‰&@#°"  # punctuation or symbols by Unicode, but spoken: 50% and 50 are read differently
SILENT = ("P", "Z", "C", "Sk", "So")  # punctuation, spaces, control characters, bare accents, pictures
APOSTROPHES = "'\u2019"  # appear within a word

PIECE = re.compile(rf"[{HANZI}]+|[^{HANZI} ]+")


def characters_of(text: str) -> list[str]:
    """Return the characters of a text after NFKC, in lower case, without punctuation, pictures and space.

    Decimal points and signs that are read aloud (`%`) are kept. Nothing is spelled out.
    """
    return characters_in(_spaced(text).replace(" ", ""))


def words_of(text: str) -> list[str]:
    """Return the words of a text, normalised as its characters are.

    Text that is not Chinese is split at white space and punctuation. Spaces between hanzi are unreliable and
    ignored: Chinese is split by jieba's dictionary, without guesses at unknown words. So equal hanzi make
    equal words, but a wrong hanzi may split its neighbours differently.
    """
    import rjieba  # loads a dictionary

    words: list[str] = []
    for piece in PIECE.findall(SPACES_BETWEEN_HANZI.sub("", _spaced(text))):
        words.extend(rjieba.cut(piece, False) if is_hanzi(piece) else [piece])
    return words


def _spaced(text: str) -> str:
    """Normalize a text, with spaces in place of white space, punctuation and control characters."""
    # lower case may decompose what NFKC composed: İ
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return "".join(
        char if _is_said(text, index) else "" if char in APOSTROPHES else " "
        for index, char in enumerate(text)
    )


def _is_said(text: str, index: int) -> bool:
    char = text[index]
    if char in SPOKEN_SIGNS:
        return True
    if char == "." and 0 < index < len(text) - 1:
        return text[index - 1].isdigit() and text[index + 1].isdigit()
    return char != "~" and not unicodedata.category(char).startswith(SILENT)
