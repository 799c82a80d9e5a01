"""Convert traditional hanzi to simplified ones for reading; the text itself stays as it is written."""

from __future__ import annotations

import functools
from collections.abc import Callable

from asr.base.text.hanzi_text import ONE_HANZI

FORMS = "tw2s"  # Taiwan's standard, which also covers 看著 and 為
# OpenCC takes these 著 for the particle
MENDED = {"土着": "土著", "专着": "专著", "译着": "译著", "微知着": "微知著", "昭着": "昭著"}
LAST_COMMON = "\uffff"  # the dictionaries of readings lack most hanzi beyond
# their simplified forms have other readings as well; converted texts have 鬥 and 幹 for 斗 and 干, too
SINGLE_READINGS = {
    "髮": "fa4",
    "捲": "juan3",
    "隻": "zhi1",
    "髒": "zang1",
    "臟": "zang4",
    "彆": "bie4",
    "儘": "jin3",
}


def simplified(text: str) -> str:
    """Return a text with its traditional hanzi simplified; it keeps its length.

    A text is converted as a whole if it has a hanzi that only traditional text has, since others, such as 乾
    and 著, are hanzi of simplified text as well. Conversion is by OpenCC, word by word.
    """
    if _is_gb2312(text):
        return text
    converted = _converter()(text)
    for wrong, right in MENDED.items():
        converted = converted.replace(wrong, right)
    if len(converted) != len(text):
        converted = "".join(map(_of_one, text))
    pairs = [(old, new if new <= LAST_COMMON else old) for old, new in zip(text, converted, strict=True)]
    if not any(old != new and not _is_gb2312(old) for old, new in pairs):
        return text
    return "".join(new for _, new in pairs)


def single_readings(text: str) -> dict[int, str]:
    """Return the syllables of traditional hanzi with one reading, by the place among the text's hanzi."""
    hanzi = ONE_HANZI.findall(text)
    return {place: SINGLE_READINGS[char] for place, char in enumerate(hanzi) if char in SINGLE_READINGS}


def _is_gb2312(text: str) -> bool:
    """Return whether GB 2312, the standard of simplified hanzi, has all characters of a text."""
    try:
        text.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return True


def _of_one(char: str) -> str:
    converted = _converter()(char)
    return converted if len(converted) == 1 else char


@functools.cache
def _converter() -> Callable[[str], str]:
    import opencc

    convert: Callable[[str], str] = opencc.OpenCC(FORMS).convert
    return convert
