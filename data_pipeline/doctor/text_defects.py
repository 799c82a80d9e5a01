"""Finds defects of texts by wrong encodings: lost and invisible characters, mojibake, Unicode forms."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator

from asr.base.text.hanzi_text import is_hanzi
from data_pipeline.labels.spoken_symbols import GENERAL_MARKS
from data_pipeline.labels.spoken_symbols import INVISIBLE as INVISIBLE_CODE_POINTS

UNUSUAL_SPACE = re.compile(r"[^\S ]")
INVISIBLE = ("Cc", "Cf", "Co", "Cn")  # control, format, private and unassigned characters
JOINERS = "\u200c\u200d"  # invisible, but spelling in Persian and Hindi
# bytes by their characters in Windows-1252, or in Latin-1 where that has none
BYTE_OF = {bytes([b]).decode("cp1252", errors="ignore") or chr(b): b for b in range(256)} | {
    chr(b): b for b in range(256)
}


def damage(text: str) -> str:
    """Describe the first damaged or invisible character of a text; return "" if there is none."""
    if text.isascii() and text.isprintable():
        return ""
    return next(_damages(text), "")


def unseen(token: str) -> str:
    """Describe a token that nobody sees as a sign: invisible, or a mark without the sign that it modifies."""
    if token and not INVISIBLE_CODE_POINTS.sub("", token):
        return f"the token {token!a} is invisible ({_name(token[0])})"
    if token and GENERAL_MARKS.match(token):
        return f"the token {token!a} is a mark without its sign ({_name(token[0])})"
    return ""


def unusual_space(text: str) -> str:
    """Return the name of the first white space that is not a plain space; "" if there is none."""
    found = UNUSUAL_SPACE.search(text)
    return _name(found[0]) if found else ""


def is_composed(text: str) -> bool:
    """Return whether a text is in Unicode's composed form (NFC), without separate accents."""
    return unicodedata.is_normalized("NFC", text)


def mojibake(text: str) -> str:
    """Return the original of a text whose UTF-8 was decoded in another encoding; "" for other texts."""
    if text.isascii():
        return ""
    if all(char in BYTE_OF for char in text):
        was = _utf8(bytes(BYTE_OF[char] for char in text))
        return was if was and not was.isascii() else ""
    # bytes that GBK could not decode, such as an odd last one, became a mark at the end
    was = _utf8(text.rstrip("?\ufffd").encode("gb18030", errors="replace"))
    # by chance two hanzi may result from three, but only from rare ones
    beyond_ascii = [char for char in was if not char.isascii()]
    return was if len(beyond_ascii) > 1 and all(map(is_hanzi, beyond_ascii)) else ""


def _damages(text: str) -> Iterator[str]:
    if was := mojibake(text):
        yield f"{text!r} was {was!r} before it was decoded in the wrong encoding"
    if "\ufffd" in text:
        yield f"{text!r} contains U+FFFD, where a character was lost"
    for char in text:
        if char == codecs.BOM_UTF8.decode():
            yield f"{text!r} contains a byte order mark"
        elif unicodedata.category(char) in INVISIBLE and not char.isspace() and char not in JOINERS:
            yield f"{text!r} contains the invisible {_name(char)}"


def _name(char: str) -> str:
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X} {name}".strip()


def _utf8(data: bytes) -> str:
    """Decode UTF-8 bytes, the last of which may be missing; return "" if they are not UTF-8."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return ""
