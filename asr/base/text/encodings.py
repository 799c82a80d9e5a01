"""Read text files that people wrote, in any common encoding.

Files that this project writes are UTF-8: see `read_lines` in `asr/base/system/files.py`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.shards import open_shard

COMMON_SHARE = 0.9  # of a GB 18030 text's non-ASCII characters that are also in the smaller GB 2312


def file_text(path: Path, what: str = "transcript") -> str:
    """Return the text of a file that a person wrote, each line ended by a line feed.

    It is in UTF-8 with or without a byte order mark, UTF-16 with one, or GB 18030, with any line ends; one in
    `.gz` is decompressed.

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
    return _decoded(data, path, what).replace("\r\n", "\n").replace("\r", "\n")


def file_lines(path: Path, what: str) -> list[str]:
    """Return the lines of a file that a person wrote; see `file_text`."""
    return file_text(path, what).removesuffix("\n").split("\n")


def _decoded(data: bytes, path: Path, what: str) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    else:
        _refuse_damaged_utf8(data, path, what)
        encodings = ["utf-8-sig", "gb18030"]
    for encoding in encodings:
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            if encoding != "gb18030" or _looks_chinese(text):
                return text
    raise UserError(f"{path}: neither UTF-8 nor GB 18030; save this {what} again as UTF-8")


def _looks_chinese(text: str) -> bool:
    """Return whether a text has mostly common characters, since nearly any bytes decode as GB 18030."""
    non_ascii = [char for char in text if not char.isascii()]
    num_common = sum(bool(char.encode("gb2312", errors="ignore")) for char in non_ascii)
    return num_common >= COMMON_SHARE * len(non_ascii)


def _refuse_damaged_utf8(data: bytes, path: Path, what: str) -> None:
    """Raise a UserError for UTF-8 with a few damaged bytes, which as GB 18030 would decode to wrong hanzi."""
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
