"""Recognize the containers that PyAV reads by their first bytes, and find where their audio is cut off.

A file's own bytes choose the one demuxer that opens it. FFmpeg would otherwise try hundreds, among them those
of playlists, which name other files and addresses.
"""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from asr.audio.containers import whole_audio
from asr.audio.mpeg import id3_end

HEAD_BYTES = 1024
SLACK_BYTES = 64  # some programs count the header's own bytes
MAX_BOXES = 1_000_000  # of 8 bytes or more; ten hours in fragments of a second have 72,000
MP4_BOXES = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"moof", b"styp"}
IMAGE_BRANDS = {b"heic", b"heix", b"heif", b"mif1", b"msf1", b"avif", b"avis", b"crx "}  # photos
ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
MATROSKA_HEADER, MATROSKA_SEGMENT = b"\x1aE\xdf\xa3", b"\x18S\x80g"
SILK = (b"#!SILK_V3", b"\x02#!SILK_V3")
SNDFILE_WAV_CODES = {1, 2, 3, 6, 7, 0x11, 0x31, 0x38, 0x40, 0x55, 0xFFFE}  # of the chunk `fmt `
NOT_SNDFILE_OGG = (b"Speex   ", b"\x80theora", b"OVP80", b"BBCD\0")  # of the first page
TS_PACKET_BYTES = (188, 192)


class Kind(NamedTuple):
    """A container that PyAV reads.

    Attributes:
        demuxer: FFmpeg's name of its reader.
        name: for people.
        states_length: whether it may state how long its audio is.
    """

    demuxer: str
    name: str
    states_length: bool = False


class MediaHeader(NamedTuple):
    """What a container states of its audio; see `asr.audio.recording.AudioHeader`."""

    rate_hz: int
    num_channels: int
    container: str
    length_is_stated: bool
    num_tracks: int


MP4 = Kind("mov", "MP4", states_length=True)
MATROSKA = Kind("matroska", "Matroska", states_length=True)
ASF = Kind("asf", "ASF", states_length=True)
AVI = Kind("avi", "AVI", states_length=True)
WAV = Kind("wav", "WAV", states_length=True)
OGG = Kind("ogg", "OGG")
ADTS = Kind("aac", "AAC")
AMR = Kind("amr", "AMR")
FLV = Kind("flv", "FLV")
PROGRAM_STREAM = Kind("mpeg", "MPEG program stream")
TRANSPORT_STREAM = Kind("mpegts", "MPEG transport stream")


def media_kind(stream: BinaryIO) -> Kind | None:
    """Return the container of a stream, at whose beginning it is left; None if libsndfile is to read it."""
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    kind = _kind(stream, head)
    stream.seek(0)
    return kind


def is_silk(stream: BinaryIO) -> bool:
    """Return whether a stream, at whose beginning it is left, is a voice message as WeChat keeps it."""
    stream.seek(0)
    head = stream.read(max(map(len, SILK)))
    stream.seek(0)
    return head.startswith(SILK)


def _kind(stream: BinaryIO, head: bytes) -> Kind | None:
    if head[4:8] in MP4_BOXES and (head[0] < ord(" ") or head[4:8] == b"mdat"):  # no text: "The wide road"
        is_photo = head[4:8] == b"ftyp" and head[8:12] in IMAGE_BRANDS
        return None if is_photo else MP4
    for magic, kind in (
        *((MATROSKA_HEADER, MATROSKA), (ASF_HEADER, ASF), (b"#!AMR", AMR), (b"FLV\1", FLV)),
        (b"\0\0\1\xba", PROGRAM_STREAM),
    ):
        if head.startswith(magic):
            return kind
    if head.startswith(b"RIFF"):
        return _riff_kind(head)
    if head.startswith(b"OggS"):
        begin = 27 + head[26] if len(head) > 26 else 0
        return OGG if head.startswith(NOT_SNDFILE_OGG, begin) else None
    if any(_is_transport_stream(head, size) for size in TS_PACKET_BYTES):
        return TRANSPORT_STREAM
    return ADTS if _is_adts(stream) else None


def _riff_kind(head: bytes) -> Kind | None:
    if head[8:12] == b"AVI ":
        return AVI
    place = head.find(b"fmt ", 12)
    code = int.from_bytes(head[place + 8 : place + 10], "little")
    is_wave = head[8:12] == b"WAVE" and place > 0 and len(head) >= place + 24
    return WAV if is_wave and code not in SNDFILE_WAV_CODES else None


def _is_transport_stream(head: bytes, size: int) -> bool:
    first = size - TS_PACKET_BYTES[0]
    return len(head) > first + 3 * size and all(head[first + n * size] == 0x47 for n in range(4))


def _is_adts(stream: BinaryIO) -> bool:
    """Return whether two frames of AAC follow each other, or one that ends with the stream."""
    begin = place = id3_end(stream)
    for _ in range(2):
        stream.seek(place)
        header = stream.read(7)
        if not header:
            return place > begin
        if len(header) < 7 or header[0] != 0xFF or header[1] & 0xF6 != 0xF0:
            return False
        num_bytes = (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5
        if num_bytes < 7:
            return False
        place += num_bytes
    return True


def end_reason(stream: BinaryIO, kind: Kind) -> tuple[str, bool]:
    """Return why the end of a container is missing or "", and whether that would be noticed.

    Args:
        stream: seekable; its position is changed.
        kind: see `media_kind`.
    """
    if kind == OGG:
        ogg = whole_audio(stream)
        return ogg.reason, ogg.is_stated
    present = stream.seek(0, io.SEEK_END)
    if kind == MP4:
        return _mp4_reason(stream, present)
    end = ENDS[kind](stream) if kind in ENDS else None
    return _cut_off(end, present), end is not None


def _cut_off(end: int | None, present: int) -> str:
    if end is None or end <= present + SLACK_BYTES:
        return ""
    return (
        f"cut off: the header declares audio up to byte {end:,}, but the file has {present:,}; copy it again"
    )


def _mp4_reason(stream: BinaryIO, present: int) -> tuple[str, bool]:
    """Return the reason and whether the end is stated; fragments may always be followed by more."""
    names: set[bytes] = set()
    for name, end in itertools.islice(_boxes(stream, present), MAX_BOXES):
        names.add(name)
        if reason := _cut_off(end, present):
            return reason, True
    if b"moov" not in names:
        return (
            "cut off: it has no index (`moov`), which is written when a recording ends; copy it again, or "
            "record it again"
        ), True
    return "", b"moof" not in names


def _boxes(stream: BinaryIO, present: int) -> Iterator[tuple[bytes, int]]:
    """Yield the name and the end of each box of an MP4 file."""
    place = 0
    while place + 8 <= present:
        stream.seek(place)
        header = stream.read(16).ljust(16, b"\0")
        size, name, long_size = struct.unpack(">I4sQ", header)
        size = long_size if size == 1 else size
        if size < 8:  # 0: up to the end; others are garbage after the last box
            yield name, present
            return
        place += size
        yield name, place


def _matroska_end(stream: BinaryIO) -> int | None:
    """Return where the segment ends; None for one of unknown size, as browsers record."""
    stream.seek(len(MATROSKA_HEADER))
    size, _ = _vint(stream)
    stream.seek(size, io.SEEK_CUR)
    if stream.read(4) != MATROSKA_SEGMENT:
        return None
    size, is_known = _vint(stream)
    return stream.seek(0, io.SEEK_CUR) + size if is_known else None


def _vint(stream: BinaryIO) -> tuple[int, bool]:
    """Read a size of EBML (RFC 8794); return it and whether it is known."""
    first = (stream.read(1) or b"\xff")[0]
    length = 9 - first.bit_length()
    value = int.from_bytes(bytes([first]) + stream.read(length - 1)) & ((1 << 7 * length) - 1)
    return value, value != (1 << 7 * length) - 1


def _asf_end(stream: BinaryIO) -> int | None:
    """Return where the object of packets ends, which follows the header."""
    stream.seek(len(ASF_HEADER))
    begin = int.from_bytes(stream.read(8), "little")
    stream.seek(min(begin, stream.seek(0, io.SEEK_END)))
    _, size = struct.unpack("<16sQ", stream.read(24).ljust(24, b"\0"))
    return begin + size if 24 < size < 1 << 62 else None  # 0: not finished


def _riff_end(stream: BinaryIO) -> int | None:
    stream.seek(4)
    size = int.from_bytes(stream.read(4), "little")
    return 8 + size if 0 < size < 0x7F000000 else None


ENDS: dict[Kind, Callable[[BinaryIO], int | None]] = {
    MATROSKA: _matroska_end,
    ASF: _asf_end,
    AVI: _riff_end,
    WAV: _riff_end,
}
