"""Reads tar and zip files entry by entry; damage raises an error, never ends the archive early."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeAlias, cast

Kind: TypeAlias = Literal["file", "folder", "symbolic link", "hard link", "special file"]

CHUNK_BYTES = 1 << 20  # read from a file at a time
ENCODINGS = ("utf-8", "gb18030")  # tried for names whose encoding is not stated
LONGEST_READ_BYTES = 1 << 24  # tarfile reads a header at once, however long it claims to be
LONGEST_LINK_BYTES = 4096
NO_BLOCK = bytes(tarfile.BLOCKSIZE)  # ends a tar file
UTF8_FLAG, ENCRYPTED_FLAG, UNIX = 0x800, 0x1, 3
ZIP_BEGINNINGS = (b"PK\x03\x04", b"PK\x05\x06")
COMPRESSED_BEGINNINGS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}


class DamagedError(Exception):
    """Reports that an archive is damaged."""


# an OSError without a number reports damage; one with a number comes from the disk
DAMAGE = (
    DamagedError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    NotImplementedError,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an archive as the archive declares it; nothing is validated.

    Attributes:
        name: path within the archive.
        kind: kind of the entry.
        num_bytes: declared size of a file.
        link: target of a link.
        open: opens the content, which must be read before the next entry is requested.
    """

    name: str
    kind: Kind
    num_bytes: int = 0
    link: str = ""
    open: Callable[[], IO[bytes]] = io.BytesIO


def entries_of(raw: IO[bytes]) -> Iterator[Entry]:
    """Yield the entries of a zip file, or of a tar file, plain or compressed by gzip, bzip2 or xz.

    Raises:
        One of DAMAGE: the file has another format, is truncated or damaged; possibly after the last entry.
    """
    beginning = raw.read(6)
    raw.seek(0)
    if beginning.startswith(ZIP_BEGINNINGS):
        yield from _zip_entries(raw)
        return
    for compressed, decompress in COMPRESSED_BEGINNINGS.items():
        if beginning.startswith(compressed):
            with decompress(raw) as stream:
                yield from _tar_entries(_ForwardStream(stream), ends_itself=True)
            return
    yield from _tar_entries(_ForwardStream(raw), ends_itself=False)


class _ForwardStream:
    """Gives tarfile a stream that only moves forward, in steps that fit into memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._position = 0
        self.last = b""

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        if not 0 <= size <= LONGEST_READ_BYTES:
            raise DamagedError(f"an entry's header of {size} bytes")
        self.last = self._stream.read(size)
        self._position += len(self.last)
        return self.last

    def seek(self, position: int) -> int:
        if position < self._position:
            raise DamagedError("an entry of negative size")
        while self._position < position and self.read(min(position - self._position, LONGEST_READ_BYTES)):
            pass
        return self._position


def _tar_entries(stream: _ForwardStream, ends_itself: bool) -> Iterator[Entry]:
    with tarfile.TarFile(fileobj=cast(IO[bytes], stream), encoding="utf-8", errors="surrogateescape") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # otherwise every entry of a large corpus stays in memory
            yield _tar_entry(tar, member)
    # tarfile treats a broken header as the end
    if stream.last != NO_BLOCK and not (ends_itself and not stream.last):
        raise DamagedError("it ends in the middle of its entries")
    stream.read(LONGEST_READ_BYTES)  # the checksum of the compression follows the end of the tar file


def _tar_entry(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    name, link = _with_hanzi(member.name), _with_hanzi(member.linkname)
    if member.isreg():
        return Entry(name, "file", member.size, open=lambda: cast(IO[bytes], tar.extractfile(member)))
    if member.isdir():
        return Entry(name, "folder")
    if member.issym():
        return Entry(name, "symbolic link", link=link)
    return Entry(name, "hard link", link=link) if member.islnk() else Entry(name, "special file")


def _with_hanzi(name: str) -> str:
    return _decoded(name.encode("utf-8", "surrogateescape"))


def _decoded(name: bytes, encodings: Sequence[str] = ENCODINGS) -> str:
    for encoding in encodings:
        try:
            return name.decode(encoding)
        except UnicodeDecodeError:
            continue
    return name.decode("cp437")


def _zip_entries(raw: IO[bytes]) -> Iterator[Entry]:
    with zipfile.ZipFile(raw) as bundle:
        infos = bundle.infolist()
        encodings = _encodings_of([_name_bytes(info) for info in infos if not info.flag_bits & UTF8_FLAG])
        for info in infos:
            if info.flag_bits & ENCRYPTED_FLAG:
                raise DamagedError(f"{info.filename!r} is encrypted")
            yield _zip_entry(bundle, info, encodings)


def _zip_entry(bundle: zipfile.ZipFile, info: zipfile.ZipInfo, encodings: Sequence[str]) -> Entry:
    name = info.orig_filename
    if not info.flag_bits & UTF8_FLAG:
        name = _decoded(_name_bytes(info), encodings)
    name = name.replace(
        "\\", "/"
    )  # Windows' separator; replaced after decoding, since GBK has characters with this byte
    mode = stat.S_IFMT(info.external_attr >> 16) if info.create_system == UNIX else 0
    if mode == stat.S_IFLNK:
        if info.file_size > LONGEST_LINK_BYTES:
            raise DamagedError(f"{name!r} is a link of {info.file_size} bytes")
        return Entry(name, "symbolic link", link=_decoded(bundle.read(info)))
    if name.endswith("/") or mode == stat.S_IFDIR:
        return Entry(name, "folder")
    if mode not in (0, stat.S_IFREG):
        return Entry(name, "special file")
    return Entry(name, "file", info.file_size, open=lambda: bundle.open(info))


def _name_bytes(info: zipfile.ZipInfo) -> bytes:
    return info.orig_filename.encode("cp437")  # zipfile decodes every byte this way


def _encodings_of(names: Sequence[bytes]) -> Sequence[str]:
    """Return the encoding that fits all names of an archive; a short name may fit a wrong one by chance."""
    for encoding in ENCODINGS:
        try:
            b"\n".join(names).decode(encoding)
        except UnicodeDecodeError:
            continue
        return (encoding,)
    return ()
