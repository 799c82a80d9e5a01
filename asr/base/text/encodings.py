"""Read text files that people wrote, in any common encoding.

Files that this project writes are UTF-8: see `read_lines` in `asr/base/system/files.py`.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.shards import open_shard
from asr.base.text.hanzi_text import HANZI, ONE_HANZI

LEGACY = {"gb18030": "GB 18030", "cp950": "Big5"}  # codecs and their names for people, the likelier first
ASCII = bytes(range(128))
HEAD_BYTES = 1 << 16  # from which the encoding is detected
HANZI_ALONE = re.compile(f"[{HANZI}]{{2}}|(?<![A-Za-z])[{HANZI}](?![A-Za-z])")
CHINESE_SHARE = 0.9  # of the non-ASCII characters of a Chinese text; nearly any bytes decode as GB 18030


def file_text(path: Path, what: str = "transcript") -> str:
    """Return the text of a file that a person wrote, each line ended by a line feed.

    One in `.gz` is decompressed; see `decode_text` for the encodings.

    Args:
        path: of the file.
        what: the kind of file, for the error.

    Raises:
        UserError: the file cannot be read, or is in none of these encodings.
    """
    try:
        with open_shard(path) as file:
            data = file.read()
    except OSError as error:
        raise UserError(f"{path}: cannot read this {what} ({error.strerror})") from None
    return decode_text(data, path, what).replace("\r\n", "\n").replace("\r", "\n")


def file_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a file that a person wrote; see `file_text`."""
    return file_text(path, what).removesuffix("\n").split("\n")


def decode_text(data: bytes, path: Path, what: str) -> str:
    """Decode text in UTF-8 with or without a byte order mark, UTF-16 with one, GB 18030, or Big5.

    Args:
        data: of a whole file.
        path: of the file, for the error.
        what: the kind of file, for the error.

    Raises:
        UserError: the text is in none of these encodings, or a few bytes of its UTF-8 are damaged.
    """
    encoding: str | None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif _is_utf8(data, path, what):
        encoding = "utf-8-sig"
    else:
        encoding = legacy_encoding(data)
    if encoding:
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode(encoding)
    raise UserError(f"{path}: neither UTF-8, UTF-16, GB 18030 nor Big5; save this {what} again as UTF-8")


def legacy_encoding(data: bytes) -> str | None:
    """Return a key of `LEGACY` for a Chinese text in one of these encodings, None for any other text.

    Many texts decode as both. In the wrong one, few of their characters are frequent; if as many are, as in
    some words alone, it is GB 18030.

    Args:
        data: a text or its beginning, which may end within a character.
    """
    shares = {}
    from_first = data.lstrip(ASCII)[:HEAD_BYTES]
    for encoding in LEGACY:
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(from_first)
        except UnicodeDecodeError:
            continue
        chars = [char for char in text if "\x7f" < char < "\U00010000"]  # others, such as emoji, say nothing
        num_chinese = sum(map(_is_chinese, chars))
        if num_chinese >= CHINESE_SHARE * len(chars) and not _is_accented(text):
            shares[encoding] = sum(map(_is_frequent, chars)) / max(1, len(chars))
    return max(shares, key=shares.__getitem__, default=None)


def _is_chinese(char: str) -> bool:
    return _is_frequent(char) or bool(_row(char))


def _is_frequent(char: str) -> bool:
    """Return whether a character is among the frequent hanzi of GB 2312 or Big5, punctuation or pinyin."""
    row = _row(char)
    is_letter_of_pinyin = bool(row) and char < "\u0250"
    is_frequent_in_big5 = b"\xa4\x40" <= char.encode("big5", errors="ignore") <= b"\xc6\x7e"
    return row in (0xA1, 0xA3) or 0xB0 <= row <= 0xD7 or is_letter_of_pinyin or is_frequent_in_big5


def _row(char: str) -> int:
    """Return a character's first byte in GB 2312, whose places GBK keeps; 0 if it has none."""
    code = char.encode("gbk", errors="ignore")
    return code[0] if code > b"\xa1" and code[1] > 0xA0 else 0


def _is_accented(text: str) -> bool:
    """Return whether each hanzi is a single one beside Latin letters, as é becomes in a wrong encoding."""
    return ONE_HANZI.search(text) is not None and HANZI_ALONE.search(text) is None


def _is_utf8(data: bytes, path: Path, what: str) -> bool:
    """Return whether bytes are UTF-8; raise a UserError if all but a few damaged ones are."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", errors="replace")
        num_bad = text.count("\ufffd")
        if num_bad * 10 < sum(not char.isascii() for char in text):
            line = data.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{path}:{line}: invalid UTF-8 byte in this line ({num_bad} in the file); repair this {what}"
            ) from None
        return False
    return True
