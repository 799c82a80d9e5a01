"""Defects that encodings leave in texts: lost characters, mojibake, invisible ones, two Unicode forms."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator

from asr.base.hanzi_text import is_hanzi

UNUSUAL_SPACE = re.compile(r"[^\S ]")
INVISIBLE = ("Cc", "Cf", "Co", "Cn")  # control, format, private and unassigned characters
JOINERS = "\u200c\u200d"  # invisible, but spelling in Persian and Hindi
# a byte as Windows reads it; Latin-1 where Windows has no character for it
BYTE_OF = {bytes([b]).decode("cp1252", errors="ignore") or chr(b): b for b in range(256)} | {
    chr(b): b for b in range(256)
}


def damage(text: str) -> str:
    """What has been lost in a text or does not belong there; empty where nothing has."""
    if text.isascii() and text.isprintable():
        return ""
    return next(_damages(text), "")


def unusual_space(text: str) -> str:
    """The first white space that is no plain one, by its name; empty where there is none."""
    found = UNUSUAL_SPACE.search(text)
    return _name(found[0]) if found else ""


def is_composed(text: str) -> bool:
    """Whether a text is in Unicode's composed form, in which an accent is no character of its own."""
    return unicodedata.is_normalized("NFC", text)


def mojibake(text: str) -> str:
    """What a text was before its UTF-8 was read in another encoding; empty where that did not happen."""
    if text.isascii():
        return ""
    if all(char in BYTE_OF for char in text):
        was = _utf8(bytes(BYTE_OF[char] for char in text))
        return was if was and not was.isascii() else ""
    # what GBK could not read, such as a last odd byte, stands at the end as a mark
    was = _utf8(text.rstrip("?\ufffd").encode("gb18030", errors="replace"))
    # by chance two hanzi may come out of three, but of rare ones only
    beyond_ascii = [char for char in was if not char.isascii()]
    return was if len(beyond_ascii) > 1 and all(map(is_hanzi, beyond_ascii)) else ""


def _damages(text: str) -> Iterator[str]:
    if was := mojibake(text):
        yield f"{text!r} was {was!r} before it was read in the wrong encoding"
    if "\ufffd" in text:
        yield f"{text!r} holds U+FFFD, where a character was lost"
    for char in text:
        if char == codecs.BOM_UTF8.decode():
            yield f"{text!r} holds a byte order mark"
        elif unicodedata.category(char) in INVISIBLE and not char.isspace() and char not in JOINERS:
            yield f"{text!r} holds the invisible {_name(char)}"


def _name(char: str) -> str:
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X} {name}".strip()


def _utf8(data: bytes) -> str:
    """The text of UTF-8 bytes, the last of which may be missing; empty where it is something else."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return ""
