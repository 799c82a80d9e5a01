"""Find where the audio of a file ends by its header, for containers that libsndfile reads without a check.

WAV is checked in `asr/audio/wav.py`, MP3 in `asr/audio/mpeg.py`; FLAC and HTK by libsndfile. Exported folders
contain a copy of this module, so it imports the standard library alone.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from typing import BinaryIO

MAX_CHUNKS = 1000  # before the samples; a long run of zeros looks like empty chunks
SLACK_BYTES = 64  # some programs count the header's own bytes
OGG_TAIL_BYTES = 1 << 17  # a page has at most 65,307 bytes; some programs write tags behind the last one
OGG_END_OF_STREAM = 4  # flag of a page
NIST_HEADER_BYTES = 1 << 16  # longest plausible
W64_DATA = b"data\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"
CHECKED_ELSEWHERE = {"WAV", "WAVEX", "FLAC", "HTK", "SDS", "XI"}


def cut_off_reason(stream: BinaryIO) -> str:
    """Return how a file ends before its header or its end mark says that it should; "" if it does not.

    Containers that are not known here pass, as do headers without a length: see `states_length`.

    Args:
        stream: seekable; its position is changed.
    """
    stream.seek(0)
    magic = stream.read(16)
    if magic.startswith(b"OggS"):
        return "" if _ogg_has_end(stream) else "cut off: the stream has no end-of-stream page; copy it again"
    end = _audio_end(stream, magic)
    present = stream.seek(0, io.SEEK_END)
    if end is None or end <= present + SLACK_BYTES:
        return ""
    return (
        f"cut off: the header declares audio up to byte {end:,}, but the file has {present:,}; copy it again"
    )


def states_length(stream: BinaryIO, container: str) -> bool:
    """Return whether a missing end of the file would be noticed.

    Args:
        stream: seekable; its position is changed.
        container: libsndfile's name of the format.
    """
    stream.seek(0)
    magic = stream.read(16)
    known = container in CHECKED_ELSEWHERE or magic.startswith(b"OggS")
    return known or _audio_end(stream, magic) is not None


def _audio_end(stream: BinaryIO, magic: bytes) -> int | None:
    """Return the byte after the audio as the header declares it; None where it does not."""
    for begin, end_of in READERS.items():
        if magic.startswith(begin):
            try:
                return end_of(stream)
            except (struct.error, ValueError, OverflowError, OSError):  # broken header
                return None
    return None


def _ogg_has_end(stream: BinaryIO) -> bool:
    """Return whether the last page is whole and marked as the last of its stream (RFC 3533)."""
    stream.seek(max(0, stream.seek(0, io.SEEK_END) - OGG_TAIL_BYTES))
    tail = stream.read()
    begin = tail.rfind(b"OggS\0")
    page = tail[begin:]
    if begin < 0 or len(page) < 27 or len(page) < 27 + page[26]:
        return False
    is_whole = len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])
    return is_whole and bool(page[5] & OGG_END_OF_STREAM)


def _iff_end(stream: BinaryIO) -> int | None:
    """Return the end of the samples of AIFF, AIFF-C or 8SVX, whose chunks are big-endian."""
    stream.seek(12)
    for _ in range(MAX_CHUNKS):
        chunk, num_bytes = struct.unpack(">4sI", stream.read(8))
        begin = stream.tell()
        if chunk in (b"SSND", b"BODY"):
            return begin + int(num_bytes)
        stream.seek(begin + num_bytes + num_bytes % 2)
    return None


def _rf64_end(stream: BinaryIO) -> int | None:
    """Return the end of the samples of RF64 or BW64, whose 64-bit size is in a chunk of its own."""
    stream.seek(12)
    size_64 = None
    for _ in range(MAX_CHUNKS):
        chunk, num_bytes = struct.unpack("<4sI", stream.read(8))
        begin = stream.tell()
        if chunk == b"ds64":
            size_64 = struct.unpack("<QQ", stream.read(16))[1]
        if chunk == b"data":
            size = size_64 if num_bytes == 0xFFFFFFFF else num_bytes
            return None if size is None else begin + int(size)
        stream.seek(begin + num_bytes + num_bytes % 2)
    return None


def _w64_end(stream: BinaryIO) -> int | None:
    """Return the end of the samples of Wave64: names of 16 bytes, sizes with their header, 8-byte steps."""
    stream.seek(40)
    for _ in range(MAX_CHUNKS):
        begin = stream.tell()
        chunk, num_bytes = struct.unpack("<16sQ", stream.read(24))
        if chunk == W64_DATA:
            return begin + int(num_bytes)
        stream.seek(begin + max(24, num_bytes + -num_bytes % 8))
    return None


def _caf_end(stream: BinaryIO) -> int | None:
    stream.seek(8)
    for _ in range(MAX_CHUNKS):
        chunk, num_bytes = struct.unpack(">4sq", stream.read(12))
        if chunk == b"data":
            return None if num_bytes < 0 else stream.tell() + int(num_bytes)
        stream.seek(max(0, num_bytes), io.SEEK_CUR)
    return None


def _au_end(stream: BinaryIO) -> int | None:
    stream.seek(0)
    order = ">" if stream.read(4) == b".snd" else "<"
    begin, num_bytes = struct.unpack(f"{order}II", stream.read(8))
    return None if num_bytes == 0xFFFFFFFF else int(begin + num_bytes)


def _nist_end(stream: BinaryIO) -> int | None:
    """Return the end of the samples of a NIST SPHERE file, whose header is text."""
    stream.seek(0)
    text = stream.read(NIST_HEADER_BYTES).split(b"end_head")[0].decode("latin-1")
    values = dict(re.findall(r"^(\w+) -\w+ (\S+)", text, re.MULTILINE))
    if values.get("sample_coding", "pcm") not in ("pcm", "ulaw", "alaw", "mu-law"):
        return None  # compressed
    counts = [values.get(key) for key in ("sample_count", "channel_count", "sample_n_bytes")]
    if counts[0] is None or counts[2] is None:
        return None
    return int(text.split()[1]) + int(counts[0]) * int(counts[1] or 1) * int(counts[2])


def _voc_end(stream: BinaryIO) -> int | None:
    """Return the end of the blocks of a Creative Voice file, or a byte behind the file's if one is cut."""
    stream.seek(20)
    stream.seek(*struct.unpack("<H", stream.read(2)))
    for _ in range(MAX_CHUNKS):
        if not (kind := stream.read(1)) or kind == b"\0":  # the terminator may be missing
            return stream.tell()
        size = stream.read(3)
        begin, end = stream.tell(), stream.tell() + int.from_bytes(size, "little")
        if len(size) < 3 or end > stream.seek(0, io.SEEK_END):
            return max(end, begin + 1)
        stream.seek(end)
    return None


READERS: dict[bytes, Callable[[BinaryIO], int | None]] = {
    b"FORM": _iff_end,
    b"RF64": _rf64_end,
    b"BW64": _rf64_end,
    b"riff\x2e\x91\xcf\x11": _w64_end,
    b"caff": _caf_end,
    b".snd": _au_end,
    b"dns.": _au_end,
    b"NIST_1A\n": _nist_end,
    b"Creative Voice File"[:16]: _voc_end,
}
