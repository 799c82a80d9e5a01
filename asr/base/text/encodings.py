"""Read text files that people wrote, in any common encoding.

Files that this project writes are UTF-8: see `read_lines` in `asr/base/system/files.py`.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.shards import open_shard

LEGACY = ("gb18030", "cp950")  # cp950 is Big5
ASCII = bytes(range(128))
HEAD_BYTES = 1 << 16  # from which the encoding is detected
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
    encoding: str | None = "utf-16"
    if data[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-8-sig" if _is_utf8(data, path, what) else legacy_encoding(data)
    try:
        return data.decode(encoding or "ascii")
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: neither UTF-8 nor GB 18030 nor Big5; save this {what} again as UTF-8"
        ) from None


def legacy_encoding(data: bytes) -> str | None:
    """Return "gb18030" or "cp950" for a Chinese text in one of these encodings, None for any other text.

    Most texts decode as both. In the wrong one, few of their characters are frequent.

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
        found = [_commonness(char) for char in text if not char.isascii()]
        if len(found) - found.count(0) >= CHINESE_SHARE * len(found):
            shares[encoding] = found.count(2) / max(1, len(found))
    return max(shares, key=shares.__getitem__, default=None)


def _commonness(char: str) -> int:
    """Return 2 for a frequent hanzi, punctuation and pinyin, 1 for another character of GB 2312, else 0."""
    gbk, big5 = char.encode("gbk", errors="ignore"), char.encode("big5", errors="ignore")
    row = gbk[0] if gbk > b"\xa1" and gbk[1] > 0xA0 else 0  # GBK has GB 2312's characters in the same places
    if row in (0xA1, 0xA3) or 0xB0 <= row <= 0xD7 or (big5 and 0xA4 <= big5[0] <= 0xC6):
        return 2
    return (2 if char < "\u0250" else 1) if row else 0


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
