"""Find where the audio of a file ends by its header, which libsndfile trusts or ignores without a word.

WAV is read in `asr/audio/wav.py`, MP3 in `asr/audio/mpeg.py`, FLAC in `asr/audio/flac.py`. Exported folders
contain a copy of these modules.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, cast

from asr.audio.flac import MAGIC as FLAC_MAGIC
from asr.audio.flac import whole_flac
from asr.audio.joined import Joined, Whole
from asr.audio.mpeg import id3_end, whole_mpeg

MAX_CHUNKS = 1000  # before the samples; a long run of zeros looks like empty chunks
SLACK_BYTES = 64  # some programs count the header's own bytes
MAX_RIFF_BYTES = 0x7F000000  # programs that write to a pipe declare at least this size
OGG_TAIL_BYTES = 1 << 17  # a page has at most 65,307 bytes; some programs write tags after the last one
OGG_PAGE = b"OggS\0"
OGG_FIRST, OGG_LAST = 2, 4  # flags of a page
# of a stream's first page: its flags, position 0, its serial number, sequence 0
OGG_HEADER = re.compile(rb"OggS\0([\0-\7])(.{8})(.{4})(.{4})", re.DOTALL)  # flags, position, serial, number
OGG_BEGIN = re.compile(rb"OggS\0[\2\3\6\7]\0{8}.{4}\0{4}", re.DOTALL)
NIST_HEADER_BYTES = 1 << 16  # longest plausible
W64_DATA = b"data\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"
CHUNKS_BEHIND = {
    *(b"LIST", b"list", b"id3 ", b"ID3 ", b"bext", b"fact", b"cue ", b"smpl", b"inst", b"iXML", b"PEAK"),
    *(b"JUNK", b"junk", b"FLLR", b"PAD ", b"afsp", b"DISP", b"_PMX", b"axml", b"cart", b"plst", b"acid"),
}
SAMPLES = {b"data", b"SSND", b"RIFF", b"FORM"}  # a second chunk, or another recording
TAGS = (b"ID3", b"TAG", b"APETAGEX")  # some programs write them without a chunk


class Audio(NamedTuple):
    """What a header declares of the audio.

    Attributes:
        begin: byte of the first sample.
        num_bytes: size of the samples; None where it is not stated.
        chunk: form of the chunks that may follow; "" for none, None where libsndfile reads on to the end.
        mended: byte and new value of a header's field without which libsndfile does not read on to the end.
    """

    begin: int
    num_bytes: int | None
    chunk: str | None = None
    mended: tuple[int, bytes] | None = None


def without_tags(stream: BinaryIO) -> BinaryIO:
    """Return a stream without the ID3 tags before a container that has none of its own, at its beginning.

    Args:
        stream: seekable, at its beginning.
    """
    begin = id3_end(stream)
    begin = begin and _after_zeros(stream, begin)
    stream.seek(begin)
    is_mpeg = not begin or not stream.read(16).startswith((*PARSERS, FLAC_MAGIC, b"OggS", b"RIFF"))
    end = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return stream if is_mpeg else cast(BinaryIO, Joined(stream, b"", [(begin, end)]))


def whole_audio(stream: BinaryIO) -> Whole:
    """Return a stream that libsndfile reads to the end of its audio.

    Containers that are not known here pass, as do headers without a length.

    Args:
        stream: seekable; its position is changed.
    """
    stream.seek(0)
    magic = stream.read(16)
    if magic.startswith(FLAC_MAGIC):
        return whole_flac(stream)
    if magic.startswith(b"OggS"):
        return Whole(stream, _ogg_reason(stream), True)
    audio = _declared(stream, magic)
    if audio is None:
        return whole_mpeg(stream)
    if audio.num_bytes is None:
        return Whole(_mended(stream, audio), "", False)
    end, present = audio.begin + audio.num_bytes, stream.seek(0, io.SEEK_END)
    if end > present + SLACK_BYTES:
        reason = (
            f"cut off: the header declares audio up to byte {end:,}, but the file has {present:,}; "
            "copy it again"
        )
    elif audio.chunk is None:
        reason = ""
    else:
        reason = too_short_reason(stream, audio.begin, audio.num_bytes, chunk=audio.chunk)
    return Whole(stream, reason, True)


def too_short_reason(
    stream: BinaryIO,
    begin: int,
    num_bytes: int,
    *,
    chunk: str,
    slack: int = SLACK_BYTES,
    bytes_per_s: int = 0,
) -> str:
    """Return what is wrong where samples follow those that a header declares; "" if nothing is.

    Args:
        stream: seekable; its position is changed.
        begin: byte of the first sample.
        num_bytes: declared size of the samples.
        chunk: form of the name and size of the chunks that may follow; "" for none.
        slack: bytes that may be lost.
        bytes_per_s: for the reason; 0 if unknown.
    """
    num_present = stream.seek(0, io.SEEK_END) - begin
    if num_bytes == 0 and num_present > 0:
        return (
            f"the header declares no samples, but {num_present} bytes follow: the recording program did not "
            "finish the file; convert it again"
        )
    behind = _behind(stream, begin + num_bytes, chunk)
    if behind == "data":
        return "expected one chunk of samples, received a second one; convert it again"
    if behind == "samples" and num_present - num_bytes > slack:
        declared, present = f"{num_bytes:,} bytes of audio", f"{num_present:,}"
        if bytes_per_s:
            declared, present = _distinct(num_bytes / bytes_per_s, num_present / bytes_per_s)
        return (
            f"the header declares {declared}, but the file has {present}: the recording program did not "
            "finish the file; convert it again"
        )
    return ""


def cut_off_reason(declared_s: float, present_s: float) -> str:
    """Return the reason against a file that is shorter than it declares."""
    declared, present = _distinct(declared_s, present_s)
    return f"cut off: the header declares {declared}, but the file has {present}; copy it again"


def _distinct(first_s: float, second_s: float) -> tuple[str, str]:
    """Return two lengths with as many digits, at least two, as show that they differ."""
    for digits in range(2, 8):
        first, second = f"{first_s:.{digits}f} s", f"{second_s:.{digits}f} s"
        if first != second:
            break
    return first, second


def _mended(stream: BinaryIO, audio: Audio) -> BinaryIO:
    if audio.mended is None:
        return stream
    place, value = audio.mended
    stream.seek(0)
    head = stream.read(place) + value
    return cast(BinaryIO, Joined(stream, head, [(len(head), stream.seek(0, io.SEEK_END))]))


def _behind(stream: BinaryIO, place: int, form: str) -> str:
    """Return whether "data" or "samples" follow the declared samples; "" for other chunks, tags and zeros."""
    end = stream.seek(0, io.SEEK_END)
    for _ in range(MAX_CHUNKS):
        place = _after_zeros(stream, place)
        stream.seek(place)
        header = stream.read(struct.calcsize(form) if form else 8)
        if len(header) < 8 or header.startswith(TAGS):
            return ""
        if not form or len(header) < struct.calcsize(form):
            return "samples"
        chunk, size = struct.unpack(form, header)
        if chunk in SAMPLES:
            return "data"
        if chunk in CHUNKS_BEHIND:
            place = min(end, place + len(header) + max(0, size))
        elif all(32 <= byte < 127 for byte in chunk) and 0 <= size <= end - place - len(header):
            place += len(header) + size
        else:
            return "samples"
    return "samples"


def _after_zeros(stream: BinaryIO, place: int) -> int:
    """Return where the first byte is that is not zero, or the end."""
    stream.seek(place)
    while data := stream.read(1 << 16):
        if rest := data.lstrip(b"\0"):
            return place + len(data) - len(rest)
        place += len(data)
    return place


def _declared(stream: BinaryIO, magic: bytes) -> Audio | None:
    """Return the audio that the header declares; None where it declares none."""
    for begin, read in PARSERS.items():
        if magic.startswith(begin):
            try:
                return read(stream)
            except (struct.error, ValueError, OverflowError, OSError, IndexError):  # broken header
                return None
    return None


def _ogg_reason(stream: BinaryIO) -> str:
    """Return why audio of an Ogg file would be missing; "" if none would be (RFC 3533)."""
    if reason := _ogg_order_reason(stream):
        return reason
    stream.seek(max(0, stream.seek(0, io.SEEK_END) - OGG_TAIL_BYTES))
    tail = stream.read()
    if not _ogg_has_end(tail):
        return "cut off: the stream has no end-of-stream page; copy it again"
    return _ogg_end_reason(tail)


def _ogg_order_reason(stream: BinaryIO) -> str:
    """Return what is wrong with the order of pages: another stream begins, or some are missing; else ""."""
    place, expected = stream.seek(0), dict[bytes, int]()  # the next page of each stream
    while OGG_BEGIN.match(page := stream.read(27 + 255)) and len(page) >= 27 + page[26]:
        expected[page[14:18]] = 1
        place += 27 + page[26] + sum(page[27 : 27 + page[26]])
        stream.seek(place)
    stream.seek(place)
    tail = b""
    while data := stream.read(1 << 20):
        data = tail + data
        for flags, position, serial, number in OGG_HEADER.findall(data):
            found = int.from_bytes(number, "little")
            if flags[0] & OGG_FIRST and not found and not any(position):
                reason = "expected one Ogg stream, received two, one after the other"
                return f"{reason}; only the first would be read: convert it to WAV"
            if found > expected.get(serial, found):  # a stream that is not numbered is read
                return f"cut: expected page {expected[serial]}, found page {found}; copy it again"
            if serial in expected:
                expected[serial] = found + 1
        tail = data[-21:]
    return ""


def _ogg_has_end(tail: bytes) -> bool:
    """Return whether the last page is whole and marked as the last of its stream."""
    begin = tail.rfind(OGG_PAGE)
    page = tail[begin:]
    if begin < 0 or len(page) < 27 or len(page) < 27 + page[26]:
        return False
    is_whole = len(page) >= 27 + page[26] + sum(page[27 : 27 + page[26]])
    return is_whole and bool(page[5] & OGG_LAST)


def _ogg_end_reason(tail: bytes) -> str:
    """Return what is wrong where the last page states an earlier end than one before it, or ""."""
    pages = [part[:13] for part in tail.split(OGG_PAGE)[1:]]  # flags, position, serial number
    places = [struct.unpack("<q", page[1:9])[0] for page in pages if page[9:] == pages[-1][9:]]
    if places[-1] in (-1, max(places)):  # -1: none
        return ""
    return (
        f"its last page declares {places[-1]:,} samples, but a page before it has {max(places):,}: the "
        "recording program did not finish the file; convert it again"
    )


def _iff(stream: BinaryIO) -> Audio | None:
    """Return the samples of AIFF, AIFF-C or 8SVX, whose chunks are big-endian."""
    stream.seek(12)
    for _ in range(MAX_CHUNKS):
        chunk, num_bytes = struct.unpack(">4sI", stream.read(8))
        begin = stream.tell()
        if chunk == b"SSND":
            return Audio(begin, None if num_bytes >= MAX_RIFF_BYTES else num_bytes, ">4sI")
        if chunk == b"BODY":
            return Audio(begin, None if num_bytes >= MAX_RIFF_BYTES else num_bytes)
        stream.seek(begin + num_bytes + num_bytes % 2)
    return None


def _rf64(stream: BinaryIO) -> Audio | None:
    """Return the samples of RF64 or BW64, whose 64-bit size is in a chunk of its own."""
    stream.seek(12)
    size_64, place = None, 0
    for _ in range(MAX_CHUNKS):
        chunk, num_bytes = struct.unpack("<4sI", stream.read(8))
        begin = stream.tell()
        if chunk == b"ds64":
            size_64, place = struct.unpack("<QQ", stream.read(16))[1], begin + 8
        if chunk == b"data":
            size = size_64 if num_bytes == 0xFFFFFFFF else num_bytes
            if size is not None and size < 1 << 63:
                return Audio(begin, size, "<4sI")
            whole = struct.pack("<Q", stream.seek(0, io.SEEK_END) - begin)
            return Audio(begin, None, mended=(place, whole) if place else None)
        stream.seek(begin + num_bytes + num_bytes % 2)
    return None


def _w64(stream: BinaryIO) -> Audio | None:
    """Return the samples of Wave64: names of 16 bytes, sizes with their header, 8-byte steps."""
    stream.seek(40)
    for _ in range(MAX_CHUNKS):
        begin = stream.tell()
        chunk, num_bytes = struct.unpack("<16sQ", stream.read(24))
        if chunk == W64_DATA:
            return Audio(begin, None if num_bytes >= 1 << 63 else num_bytes)
        stream.seek(begin + max(24, num_bytes + -num_bytes % 8))
    return None


def _caf(stream: BinaryIO) -> Audio | None:
    stream.seek(8)
    for _ in range(MAX_CHUNKS):
        chunk, num_bytes = struct.unpack(">4sq", stream.read(12))
        begin = stream.tell()
        if chunk == b"data" and num_bytes >= 0:
            return Audio(begin, num_bytes, ">4sq")
        if chunk == b"data":  # -1: the last chunk, of unknown size
            return Audio(begin, None, mended=(begin - 8, struct.pack(">q", stream.seek(0, 2) - begin)))
        stream.seek(max(0, num_bytes), io.SEEK_CUR)
    return None


def _au(stream: BinaryIO) -> Audio:
    stream.seek(0)
    order = ">" if stream.read(4) == b".snd" else "<"
    begin, num_bytes = struct.unpack(f"{order}II", stream.read(8))
    if num_bytes in (0, 0xFFFFFFFF):  # 0: of a program that did not return to the header
        return Audio(begin, None, mended=(8, b"\xff" * 4))
    return Audio(begin, num_bytes, "")


def _nist(stream: BinaryIO) -> Audio | None:
    """Return the samples of a NIST SPHERE file, whose header is text."""
    stream.seek(0)
    text = stream.read(NIST_HEADER_BYTES).split(b"end_head")[0].decode("latin-1")
    values = dict(re.findall(r"^(\w+) -\w+ (\S+)", text, re.MULTILINE))
    if values.get("sample_coding", "pcm") not in ("pcm", "ulaw", "alaw", "mu-law"):
        return None  # compressed
    counts = [values.get(key) for key in ("sample_count", "channel_count", "sample_n_bytes")]
    if counts[0] is None or counts[2] is None:
        return None
    return Audio(int(text.split()[1]), int(counts[0]) * int(counts[1] or 1) * int(counts[2]))


def _voc(stream: BinaryIO) -> Audio | None:
    """Return the blocks of a Creative Voice file, or up to a byte after the file's end if one is cut."""
    stream.seek(20)
    first = struct.unpack("<H", stream.read(2))[0]
    stream.seek(first)
    for _ in range(MAX_CHUNKS):
        if not (kind := stream.read(1)) or kind == b"\0":  # the terminator may be missing
            return Audio(first, stream.tell() - first)
        size = stream.read(3)
        begin, end = stream.tell(), stream.tell() + int.from_bytes(size, "little")
        if len(size) < 3 or end > stream.seek(0, io.SEEK_END):
            return Audio(first, max(end, begin + 1) - first)
        stream.seek(end)
    return None


def _mat4(stream: BinaryIO) -> Audio | None:
    """Return the samples of a MATLAB 4 file: the second matrix, after the sample rate."""
    stream.seek(0)
    order = "<" if stream.read(4) == bytes(4) else ">"
    stream.seek(0)
    for _ in range(2):
        kind, rows, columns, _, name_bytes = struct.unpack(f"{order}5I", stream.read(20))
        begin = stream.tell() + name_bytes
        num_bytes = rows * columns * (8, 4, 4, 2, 2, 1)[kind // 10 % 10]
        stream.seek(begin + num_bytes)
    return Audio(begin, num_bytes, "")


def _mat5(stream: BinaryIO) -> Audio | None:
    """Return the samples of a MATLAB 5 file: the fourth part of its second matrix, after the sample rate."""
    stream.seek(126)
    order = "<" if stream.read(2) == b"IM" else ">"
    place = 136 + struct.unpack(f"{order}II", stream.read(8))[1] + 8
    for _ in range(3):  # flags, size, name
        stream.seek(place)
        kind, num_bytes = struct.unpack(f"{order}II", stream.read(8))
        place += 8 if kind >> 16 else 8 + num_bytes + -num_bytes % 8  # four bytes or fewer are in the tag
    stream.seek(place)
    return Audio(place + 8, struct.unpack(f"{order}II", stream.read(8))[1], "")


def _avr(stream: BinaryIO) -> Audio:
    stream.seek(12)
    stereo, num_bits = struct.unpack(">HH", stream.read(4))
    stream.seek(26)
    num_frames = struct.unpack(">I", stream.read(4))[0]
    return Audio(128, num_frames * (2 if stereo else 1) * num_bits // 8, "")


PARSERS: dict[bytes, Callable[[BinaryIO], Audio | None]] = {
    b"FORM": _iff,
    b"RF64": _rf64,
    b"BW64": _rf64,
    b"riff\x2e\x91\xcf\x11": _w64,
    b"caff": _caf,
    b".snd": _au,
    b"dns.": _au,
    b"NIST_1A\n": _nist,
    b"Creative Voice File"[:16]: _voc,
    b"\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0": _mat4,
    b"\0\0\x03\xe8\0\0\0\1\0\0\0\1\0\0\0\0": _mat4,
    b"MATLAB 5.0 MAT-f": _mat5,
    b"2BIT": _avr,
}
