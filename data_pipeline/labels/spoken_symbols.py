"""Decide which signs of a text are read aloud (50 %), and which are not: decoration, emoticons of chats."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Literal, TypeAlias

CharKind: TypeAlias = Literal["spoken", "read aloud", "pause", "space", "silent"]

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

# accents of any script; after NFKC, those that no single letter includes
GENERAL_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
MARKS = (
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    r"\u302a-\u302f\u3099\u309a\ufe20-\ufe2f]"
)
# marks on hanzi, digits, signs and spaces, or on nothing
LONE_MARKS = re.compile(rf"(?<![^\W\d_\u3400-\u9fff\U00020000-\U0003ffff])(?<!{MARKS}){MARKS}+")
# Unicode's Default_Ignorable_Code_Point
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
EMOJI = re.compile("[0-9#*]\ufe0f?\u20e3|(.)\ufe0f")  # keycaps, and signs shown as pictures


def without_invisible(text: str) -> str:
    """Remove code points that nobody sees, and the signs that one of them makes a picture: ❤️, 1️⃣, ™️."""
    return INVISIBLE.sub("", "".join(map(_visible, EMOJI.sub(_without_picture, text))))


def _without_picture(found: re.Match[str]) -> str:
    sign = found[1]
    if sign is None or unicodedata.category(sign)[0] == "S" or unicodedata.normalize("NFKC", sign) != sign:
        return " "
    return sign


def _visible(char: str) -> str:
    """Return a character; nothing for an accent alone, such as ¨, of which NFKC makes a space and a mark."""
    alone = unicodedata.category(char) == "Sk" and unicodedata.normalize("NFKC", char)[0] == " "
    return "" if alone else char


@functools.lru_cache(maxsize=1 << 16)
def kind_of(char: str) -> CharKind:
    """Return what a character is to a reader; signs that are read aloud are words, such as %, + and ¥."""
    category = unicodedata.category(char)
    if char in READ_ALOUD or (category in CATEGORIES_READ_ALOUD and char not in DECORATION):
        return "read aloud"
    if char.isspace():
        return "space"
    if category[0] == "P" or char in DECORATION:
        return "pause"
    return "spoken" if category[0] in "LNM" else "silent"  # a symbol, a control or a byte order mark


def read_with_number(text: str) -> str:
    """Return the first sign of a text that is decoration elsewhere, but read here: ~5, x^2; empty if none."""
    found = WITH_NUMBER.search(text)
    return found[0] if found else ""


def without_emoticons(text: str) -> str:
    """Replace emoticons such as ^_^, T_T and (≧▽≦) by spaces; the text is in NFKC."""
    return EMOTICON.sub(" ", text)
