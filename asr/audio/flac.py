"""Find where the frames of a FLAC file end (RFC 9639), whose header may state no length, or a wrong one.

libsndfile reads no further than the header's number of samples, and nothing where that is 0, "unknown".
Exported folders contain a copy of this module.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from asr.audio.joined import Joined, Whole

MAGIC = b"fLaC"
INFO_BYTES = 34  # of STREAMINFO, which comes first
HEAD_BYTES = len(MAGIC) + 4 + INFO_BYTES
FRAME_BYTES = 17  # longest frame header, with its checksum and a byte more
SEARCH_BYTES = 1 << 18
MAX_SEARCHES = 8  # the longest frame has 2 MiB
MAX_CANDIDATES = 10_000  # a file made for it would have a header in each byte
ODD_BLOCKS = {1: 192, 2: 576, 3: 1152, 4: 2304, 5: 4608}


class Flac(NamedTuple):
    """The length of a FLAC stream.

    Attributes:
        num_stated: samples of each channel by the header; 0 where it states none.
        num_samples: by the last frame's own number; 0 if none was found.
        has_second: whether another stream follows.
    """

    num_stated: int
    num_samples: int
    has_second: bool


def whole_flac(stream: BinaryIO) -> Whole:
    """Return a stream that libsndfile reads to its last frame.

    Args:
        stream: seekable; its position is changed.
    """
    flac = flac_lengths(stream)
    if flac.has_second:
        reason = (
            "expected one FLAC stream, received two, one after the other; only the first would be read: "
            "convert it to WAV"
        )
        return Whole(stream, reason, True)
    if flac.num_samples <= flac.num_stated:  # the decoder notices a missing end
        return Whole(stream, "", flac.num_stated > 0)
    stream.seek(0)
    head = bytearray(stream.read(HEAD_BYTES))
    head[21] = head[21] & 0xF0 | flac.num_samples >> 32
    head[22:26] = (flac.num_samples & 0xFFFFFFFF).to_bytes(4, "big")
    rest = (HEAD_BYTES, stream.seek(0, io.SEEK_END))
    return Whole(cast(BinaryIO, Joined(stream, bytes(head), [rest])), "", flac.num_stated > 0)


def flac_lengths(stream: BinaryIO) -> Flac:
    """Return the lengths of a FLAC stream; its position is changed."""
    stream.seek(0)
    head = stream.read(HEAD_BYTES).ljust(HEAD_BYTES, b"\0")
    num_stated = int.from_bytes(head[21:26], "big") & 0xF_FFFF_FFFF
    first = _after_metadata(stream)
    stream.seek(first)
    pattern = stream.read(FRAME_BYTES)
    block = int.from_bytes(head[8:10], "big")
    origin = (_frame_samples(pattern, pattern, block) or (0, 0))[0]
    last = _last_samples(stream, first, pattern, block)
    return Flac(num_stated, max(0, last - origin), _has_second(stream, first))


def _after_metadata(stream: BinaryIO) -> int:
    """Return the byte of the first frame."""
    place, is_last = len(MAGIC), False
    end = stream.seek(0, io.SEEK_END)
    while not is_last and place < end:
        stream.seek(place)
        block = stream.read(4).ljust(4, b"\0")
        is_last, place = bool(block[0] & 0x80), place + 4 + int.from_bytes(block[1:], "big")
    return place


def _has_second(stream: BinaryIO, begin: int) -> bool:
    """Return whether another marker follows, with its STREAMINFO."""
    stream.seek(begin)
    tail = b""
    while data := stream.read(1 << 20):
        data = tail + data
        at = data.find(MAGIC)
        while at >= 0:
            if data[at + 4 : at + 8] in (b"\0\0\0\x22", b"\x80\0\0\x22"):
                return True
            at = data.find(MAGIC, at + 1)
        tail = data[-7:]
    return False


def _last_samples(stream: BinaryIO, begin: int, pattern: bytes, block: int) -> int:
    """Return the number of samples up to the end of the last frame; 0 if none is found."""
    if not pattern.startswith((b"\xff\xf8", b"\xff\xf9")):
        return 0
    for header in itertools.islice(_candidates(stream, begin, pattern), MAX_CANDIDATES):
        if found := _frame_samples(header, pattern, block):
            return found[1]
    return 0


def _candidates(stream: BinaryIO, begin: int, pattern: bytes) -> Iterator[bytes]:
    """Yield what may be a frame's header, the last one first."""
    end = stream.seek(0, io.SEEK_END)
    for _ in range(MAX_SEARCHES):
        place = max(begin, end - SEARCH_BYTES)
        stream.seek(place)
        data = stream.read(end - place + FRAME_BYTES)
        at = data.rfind(pattern[:2])
        while at >= 0:
            yield data[at : at + FRAME_BYTES]
            at = data.rfind(pattern[:2], 0, at + 1)
        if (end := place) <= begin:
            return


def _frame_samples(header: bytes, pattern: bytes, block: int) -> tuple[int, int] | None:
    """Return the first sample of a frame and the one after its last; None if this is no frame header.

    Args:
        header: at least as long as the longest frame header, or up to the end of the file.
        pattern: the first frame's header, whose rate and sample size all others have.
        block: samples of a frame, where a frame is numbered instead of its samples.
    """
    if len(header) < 6 or header[:2] != pattern[:2] or header[3] & 0x0F != pattern[3] & 0x0F:
        return None
    code, rate = header[2] >> 4, header[2] & 15
    if code == 0 or rate != pattern[2] & 15 or header[3] & 1 or header[3] >> 4 > 10:
        return None
    length = max(1, 8 - (header[4] ^ 0xFF).bit_length())  # as in UTF-8
    place = 4 + length
    number = header[4] & (0x7F if length == 1 else 0x7F >> length)
    for byte in header[5:place]:
        number = number << 6 | byte & 0x3F
    extra = {6: 1, 7: 2}.get(code, 0)
    num_samples = int.from_bytes(header[place : place + extra], "big") + 1
    num_samples = num_samples if extra else ODD_BLOCKS.get(code, 256 << max(0, code - 8))
    place += extra + {12: 1, 13: 2, 14: 2}.get(rate, 0)
    if len(header) <= place or _crc8(header[:place]) != header[place]:
        return None
    begin = number if header[1] & 1 else number * block
    return begin, begin + num_samples


def _crc8(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value << 1 ^ 0x07 if value & 0x80 else value << 1) & 0xFF
    return value
