"""Decide which signs of a text are read aloud (50 %), and which are not: decoration, emoticons of chats."""

from __future__ import annotations

import re
import unicodedata

READ_ALOUD = frozenset("%‰‱°+=×÷<>&@#$€£¥§/")
DECORATION = frozenset("~^|\\∼∽≧≦∀∩∪∇→←↑↓")  # in chats; some are mathematical signs to Unicode
CATEGORIES_READ_ALOUD = ("Sc", "Sm", "No")

# after NFKC; between digits and letters the same signs may be read: 3~5, x^2
FACE = r"[\^><=T@;+Q~oO]"
MOUTH = r"[_.▽ω∀Д﹏]"
EMOTICON = re.compile(
    rf"(?<![0-9A-Za-z]){FACE}{MOUTH}+{FACE}(?![0-9A-Za-z])"  # ^_^ T_T =.=
    r"|>\s?<"
    # (≧▽≦), and with arms: \(^o^)/
    r"|[\\ヽ╰]?\([^()0-9\u3400-\u9fff]{0,9}[_^▽ω∀Д≧≦ツ><][^()0-9\u3400-\u9fff]{0,9}\)[/ノ╯]?"
)
WITH_NUMBER = re.compile(r"[~∼∽]\s?\d|[0-9A-Za-z]\s?\^\s?[0-9A-Za-z]|[0-9A-Za-z]\s?[|\\]\s?[0-9A-Za-z]")


def is_read_aloud(char: str) -> bool:
    """Return whether a sign is spoken as a word wherever it is, such as %, + and ¥."""
    return char in READ_ALOUD or (
        unicodedata.category(char) in CATEGORIES_READ_ALOUD and char not in DECORATION
    )


def read_with_number(text: str) -> str:
    """Return the first sign of a text that is decoration elsewhere, but read here: ~5, x^2; empty if none."""
    found = WITH_NUMBER.search(text)
    return found[0] if found else ""


def without_emoticons(text: str) -> str:
    """Replace emoticons such as ^_^, T_T and (≧▽≦) by spaces; the text is in NFKC."""
    return EMOTICON.sub(" ", text)
