"""Write out digits, signs and abbreviations of English text as they are spoken: Dr. Lee paid $3 in 1999.

The rules are WeTextProcessing's, by the package `wetext`, as for Mandarin. What they get wrong is changed
before or after: 1,234 (they drop the one), decades, Mrs., and initials and a.m., which would become words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from asr.base.text.hanzi_text import ONE_HANZI

LATIN = re.compile("[A-Za-z]")
INITIALS = re.compile(r"\b(?:[A-Z]\.){2,}")  # U.S.
BEFORE = (
    (re.compile(r"(?<=\d)(?:\s?–\s?|—)(?=[$£€]?\d)"), " to "),
    (re.compile(r"(?<![\w)\]])-(?=1,\d{3})"), "negative "),
    (re.compile(r"(?<![\d,.$£€])(?=[$£€]?1,\d{3}(?![\d,]|st|nd|rd|th))"), "one "),  # they begin with thousand
    (re.compile(r"~(?=\d)"), "approximately "),
    (re.compile(r"\b(1\d|20)10['’]?s\b"), r"\1 tens"),
    (re.compile(r"\b(1\d|20)([2-9]0)['’]?s\b"), r"\1 \2s"),  # 1980s: nineteen, eighties
    (re.compile(r"\bMrs\."), "missus"),
    (re.compile(r"\bProf\."), "professor"),
    (re.compile(r"\bvs\."), "versus"),
    (re.compile(r"\betc\."), "et cetera"),
    (re.compile(r"(?<=\d(?:st|nd|rd|th)\s)St\."), "street"),
    (re.compile(r"\bSt\.(?=\s+[A-Z])"), "saint"),
    (re.compile(r"\bSt\."), "street"),
)
ABBREVIATION = re.compile(rf"{INITIALS.pattern}|\b(?:Mr|Mrs|Ms|Dr|Prof|vs|etc|St|Jr|Sr|Ltd)\.")
HALF_OF_DAY = re.compile(r"(?<=[a-z] )([AP])M\b")  # after the words of a number, in any case of the text


def is_english(text: str) -> bool:
    """Return whether a text has Latin letters, and no hanzi."""
    return are_english([text])


def are_english(texts: Iterable[str]) -> bool:
    """Return whether texts have Latin letters, and no hanzi."""
    has_latin = False
    for text in texts:
        if ONE_HANZI.search(text):
            return False
        has_latin = has_latin or bool(LATIN.search(text))
    return has_latin


def has_abbreviations(text: str) -> bool:
    """Return whether an English text has titles or initials that are read otherwise than they are written."""
    return is_english(text) and bool(ABBREVIATION.search(text))


def english_as_spoken(text: str, read: Callable[[str], str]) -> str:
    """Return an English text as it is spoken.

    Args:
        text: as written.
        read: applies the rules of the library.
    """
    text = INITIALS.sub(lambda found: " ".join(found[0].replace(".", " ").split()), text)
    for pattern, spoken in BEFORE:
        text = pattern.sub(spoken, text)
    return HALF_OF_DAY.sub(r"\1 M", read(" ".join(text.split())))
