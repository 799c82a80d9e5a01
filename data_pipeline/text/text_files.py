"""Read text files in any common encoding, gzipped or not, as blocks of whole lines."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple, cast

from asr.base.errors import UserError
from asr.base.system.files import files_of
from asr.base.system.shards import has_manifest, shards_of
from asr.base.system.storage.address import path_of
from asr.base.text.encodings import HEAD_BYTES, legacy_encoding
from asr.base.text.hanzi_text import ONE_HANZI

STANDARD_INPUT = "-"
BLOCK_BYTES = 1 << 21  # the words of two such blocks take Python a hundred megabytes
GZIP_MAGIC = b"\x1f\x8b"
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# the most frequent hanzi: of text in another language that decodes as Chinese, hardly any are among them
FREQUENT = frozenset(
    "的一是不了在人有我他这這中大来來上个個国國到说說们們为為子和你地出道也时時年得就那要下以生会會自着著去之过過家学學"
)
MIN_FREQUENT_SHARE = 0.05  # of all hanzi; a fifth is usual


class TextBlock(NamedTuple):
    """Whole lines of a file."""

    source: str
    text: str
    num_bytes: int  # of the file as it is on disk
    first: bool  # whether the file begins with it


def find_text_files(paths: Sequence[str]) -> list[str]:
    """Return the given files, the shards of manifests, and all files below folders but hidden ones, sorted.

    Raises:
        UserError: a path does not exist, or a folder has no files.
    """
    found = []
    for name in paths:
        path = path_of(name)
        if name == STANDARD_INPUT:
            found.append(name)
        elif path.is_dir():
            inside = files_of(path)
            if not inside:
                raise UserError(f"{name}: expected text files in this folder, found none")
            found.extend(map(str, inside))
        elif path.exists():
            found.append(name)
        elif has_manifest(path):
            found.extend(map(str, shards_of(path)))
        else:
            raise UserError(f"{name}: no such file or folder; expected a text file, or - for standard input")
    if found.count(STANDARD_INPUT) > 1:
        raise UserError("-: standard input can be read only once; give it once")
    return found


def read_blocks(source: str) -> Iterator[TextBlock]:
    """Yield a file's text, a few megabytes of whole lines at a time.

    Args:
        source: path of a file, or `STANDARD_INPUT`.

    Raises:
        UserError: the file cannot be read, or is not text in UTF-8, UTF-16, GB 18030 or Big5.
    """
    try:
        if source == STANDARD_INPUT:
            yield from _blocks("standard input", sys.stdin.buffer)
        else:
            with path_of(source).open("rb") as raw:
                yield from _blocks(source, raw)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{source}: this gzip file is damaged or truncated; fetch it again") from None
    except OSError as error:
        raise UserError(f"{source}: cannot read this text ({error.strerror})") from None


def _blocks(source: str, raw: IO[bytes]) -> Iterator[TextBlock]:
    counted = _CountedStream(raw)
    file: IO[bytes] = cast("IO[bytes]", counted)
    if counted.peek(len(GZIP_MAGIC)) == GZIP_MAGIC:
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    head = file.read(BLOCK_BYTES)
    encoding = _encoding_of(source, head)
    decoder = codecs.getincrementaldecoder(encoding)()
    kept, first, place, num_yielded = "", True, 0, 0
    while head:
        following = file.read(BLOCK_BYTES)
        try:
            text = kept + decoder.decode(head, final=not following)
        except UnicodeDecodeError as error:
            raise UserError(
                f"{source}: begins as {encoding} but is invalid at about byte {place + error.start:,}; "
                "save it as UTF-8"
            ) from None
        end = len(text) if not following else _last_break(text)
        yield TextBlock(source, text[:end], counted.num_read - num_yielded, first)
        kept, first, place, head = text[end:], False, place + len(head), following
        num_yielded = counted.num_read


def _last_break(text: str) -> int:
    """Return the end of the last whole line, else of the last sentence, else of the text."""
    for mark in "\n。":
        if place := text.rfind(mark) + 1:
            return place
    return len(text)


def _encoding_of(source: str, begin: bytes) -> str:
    for mark, encoding in MARKS:
        if begin.startswith(mark):
            return encoding
    if b"\0" in begin[:HEAD_BYTES]:
        raise UserError(
            f"{source}: expected text in UTF-8, GB 18030 or Big5, possibly gzipped, found a binary file; "
            "extract its text, or leave it out"
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
        return "utf-8"
    except UnicodeDecodeError as error:
        num_good = error.start
    if (legacy := legacy_encoding(begin)) and _is_running_text(begin.decode(legacy, errors="ignore")):
        return legacy
    if num_good >= HEAD_BYTES:
        return "utf-8"  # with an invalid byte, whose place its decoder names
    raise UserError(f"{source}: neither UTF-8, UTF-16, GB 18030 nor Big5; save it as UTF-8")


def _is_running_text(text: str) -> bool:
    hanzi = ONE_HANZI.findall(text)
    return sum(char in FREQUENT for char in hanzi) > MIN_FREQUENT_SHARE * len(hanzi)


class _CountedStream:
    """A stream that counts how much of it is read, and shows how it begins.

    Attributes:
        num_read: bytes read so far.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._head = b""
        self.num_read = 0

    def peek(self, size: int) -> bytes:
        """Return the stream's first bytes, which `read` returns again."""
        self._head = self._stream.read(size)
        return self._head

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer at the end; all for a negative size."""
        split = len(self._head) if size < 0 else size
        data, self._head = self._head[:split], self._head[split:]
        data += self._stream.read(size - len(data) if size >= 0 else size)
        self.num_read += len(data)
        return data
