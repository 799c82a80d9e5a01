"""Text as it is compared: characters and words without what nobody says.

characters_of("Ｎｉ，你好！")  # ["n", "i", "你", "好"]
words_of("我们去公园。")      # ["我们", "去", "公园"]
"""

from __future__ import annotations

import re
import unicodedata

from asr.base.hanzi_text import HANZI, SPACES_BETWEEN_HANZI, is_hanzi

SPOKEN_SIGNS = "%‰&@#°"  # Unicode calls them punctuation or pictures, but 50% and 50 are read differently
SILENT = ("P", "Z", "C", "Sk", "So")  # punctuation, spaces, control characters, accents alone, pictures
APOSTROPHES = "'\u2019"  # stand within a word

PIECE = re.compile(rf"[{HANZI}]+|[^{HANZI} ]+")


def characters_of(text: str) -> list[str]:
    """Its characters after NFKC, in lower case, without punctuation, pictures and white space.

    The point of a decimal number and signs that are read aloud (`%`) stay. Nothing is spelled out.
    """
    return list(_spaced(text).replace(" ", ""))


def words_of(text: str) -> list[str]:
    """Its words, as characters are normalised.

    What is not Chinese is cut at white space and punctuation. Chinese has no spaces to count on: those that
    stand there are ignored, and it is cut by jieba's dictionary, without guesses at unknown words. So where
    all is Chinese, equal characters make equal words; a wrong one may cut its neighbours differently.
    """
    import rjieba  # loads a dictionary

    words: list[str] = []
    for piece in PIECE.findall(SPACES_BETWEEN_HANZI.sub("", _spaced(text))):
        words.extend(rjieba.cut(piece, False) if is_hanzi(piece) else [piece])
    return words


def _spaced(text: str) -> str:
    """Normalised, with a space for white space, punctuation and control characters."""
    # lower case may decompose what NFKC composed: İ
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return "".join(
        char if _is_said(text, place) else "" if char in APOSTROPHES else " "
        for place, char in enumerate(text)
    )


def _is_said(text: str, place: int) -> bool:
    char = text[place]
    if char in SPOKEN_SIGNS:
        return True
    if char == "." and 0 < place < len(text) - 1:
        return text[place - 1].isdigit() and text[place + 1].isdigit()
    return char != "~" and not unicodedata.category(char).startswith(SILENT)
