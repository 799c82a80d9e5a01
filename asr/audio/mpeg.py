"""Walk the frames of MP3 files, whose own length may be missing or wrong.

Without a right Xing frame, libsndfile guesses the length from the first frames, and reads no further.
Exported folders contain a copy of this module.
"""

from __future__ import annotations

import functools
import io
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from asr.audio.joined import Joined, Whole

READ_BYTES = 1 << 16  # at once
SEARCH_BYTES = 1 << 12  # at first, as pieces may be short
MAX_FRAME_BYTES = 2881
ZERO_BYTES = b"\0"
UNKNOWN_BYTES = 1 << 14  # more of them after the last frame are reported: they may have been audio
MAX_TAGS = 20  # at either end
MAX_RUNS = 1000  # more are no recording, and take long to join
KIND_BITS = 0b11110_0000_1100  # of a header's second and third byte: version, layer, rate
MONO = 0b11 << 6  # the highest channel mode in a header's fourth byte
IN_A_ROW = 3  # equal headers that show that bytes are frames
RATES_HZ = (44100, 48000, 32000)
KBIT_PER_S = {  # by MPEG 1 or later, and layer
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


class Frame(NamedTuple):
    """An MPEG frame by its header.

    Attributes:
        kind: version, layer and rate, which are the same in all frames of a stream.
        num_bytes: with the header.
        num_samples: of each channel.
        xing_begin: where the header of a Xing frame begins within it.
    """

    kind: tuple[int, int, int]
    num_bytes: int
    num_samples: int
    xing_begin: int


class Mpeg(NamedTuple):
    """The frames of an MPEG file.

    Attributes:
        runs: begin and end of each run of complete frames.
        num_frames: complete ones, without a Xing frame at the beginning.
        num_mono: those of them with one channel.
        num_stated: as a Xing or VBRI frame states; 0 if it does not, None without such a frame.
        first: header of the first frame with audio.
        num_unknown: bytes after the frames that are neither tags nor zeros.
        is_broken: whether the last frame is incomplete.
    """

    runs: list[tuple[int, int]]
    num_frames: int
    num_mono: int
    num_stated: int | None
    first: bytes
    num_unknown: int
    is_broken: bool

    @property
    def is_damaged(self) -> bool:
        """Return whether frames are missing between others, which the decoder reports."""
        return self.num_stated is not None and self.num_frames + 1 < self.num_stated

    @property
    def is_complete(self) -> bool:
        """Return whether the frames follow each other, and are no fewer and no more than stated."""
        num_missing = self.num_stated - self.num_frames if self.num_stated else 0
        is_alike = self.num_mono in (0, self.num_frames)  # else there are two recordings
        return is_alike and len(self.runs) == 1 and num_missing in (0, 1)  # some count the Xing frame

    @property
    def reason(self) -> str:
        """Return why audio is missing; "" if none is."""
        if len(self.runs) > MAX_RUNS:
            return (
                f"its MPEG frames are in more than {MAX_RUNS:,} pieces: the file is damaged; copy it again, "
                "or convert it to WAV"
            )
        present = self.num_frames + (not self.is_broken)  # some programs count the Xing frame
        if self.num_stated is not None and present < self.num_stated and len(self.runs) < 2:
            return (
                f"cut off: the header declares {self.num_stated:,} MPEG frames, but the file has "
                f"{self.num_frames:,}; copy it again"
            )
        if self.num_unknown > UNKNOWN_BYTES:
            return (
                f"the last {self.num_unknown:,} bytes are neither MPEG frames nor a tag: the file is "
                "damaged; copy it again, or convert it to WAV"
            )
        return ""


def whole_mpeg(stream: BinaryIO) -> Whole:
    """Return a stream whose MPEG frames libsndfile reads to the last one.

    A stream whose own length is right, or that has no MPEG frames, is returned as it is.

    Args:
        stream: seekable; its position is changed.
    """
    mpeg = mpeg_frames(stream)
    if mpeg is None:
        return Whole(stream, "", False)
    is_right = mpeg.reason or mpeg.num_stated == mpeg.num_frames or mpeg.is_damaged
    whole = stream if is_right else cast(BinaryIO, Joined(stream, _xing_frame(mpeg), mpeg.runs))
    return Whole(whole, mpeg.reason, bool(mpeg.num_stated), mpeg.is_complete)


def mpeg_frames(stream: BinaryIO) -> Mpeg | None:
    """Return the frames of a stream from its first to its last; None for another container."""
    begin = id3_end(stream)
    stream.seek(begin)
    if not begin and _frame(stream.read(4)) is None:
        return None
    end = _audio_end(stream)
    begin = _next_frames(stream, begin, end, None)
    if begin >= end:
        return None
    return _walked(stream, begin, end)


def _walked(stream: BinaryIO, begin: int, end: int) -> Mpeg | None:
    stream.seek(begin)
    first = stream.read(4)
    if (frame := _frame(first)) is None:
        return None
    num_stated = _num_stated(stream, begin, frame)
    runs: list[tuple[int, int]] = []
    kind, num_frames, num_mono, last_end, place = frame.kind, 0, 0, begin, begin
    if num_stated is not None:
        place += frame.num_bytes
        stream.seek(place)
        first = stream.read(4) if place < end else first
    while place < end and len(runs) <= MAX_RUNS:
        run_end, num_in_run, mono_in_run, last_end = _run(stream, place, end, kind)
        if num_in_run:
            runs.append((place, run_end))
            num_frames += num_in_run
            num_mono += mono_in_run
        place = _next_frames(stream, last_end, end, kind)
    num_unknown = _num_unknown(stream, last_end, end)
    return Mpeg(runs, num_frames, num_mono, num_stated, first, num_unknown, last_end > end)


def _run(stream: BinaryIO, place: int, end: int, kind: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Return where complete frames that follow each other end.

    Returns:
        The end, the number of frames, how many of them have one channel, and the end of a broken frame.
    """
    lengths = _lengths(kind).tolist()
    num_frames, num_mono, data, begin, size = 0, 0, b"", place, SEARCH_BYTES
    while place < end:
        at = place - begin
        if at + 4 > len(data):
            stream.seek(place)
            data, begin, at, size = stream.read(min(size, end - place)), place, 0, READ_BYTES
        if len(data) < 4 or data[at] != 0xFF or data[at + 1] < 0xE0:
            break
        num_bytes = lengths[(data[at + 1] & 0x1F) << 8 | data[at + 2]]
        if not num_bytes:
            break
        if place + num_bytes > end:
            return place, num_frames, num_mono, place + num_bytes
        place += num_bytes
        num_frames += 1
        num_mono += data[at + 3] >= MONO
    return place, num_frames, num_mono, place


def _next_frames(stream: BinaryIO, place: int, end: int, kind: tuple[int, int, int] | None) -> int:
    """Return where the next frames begin that follow each other; `end` or later without any."""
    size = SEARCH_BYTES
    while place < end:
        place += _id3_bytes(stream, place)
        stream.seek(place)
        data = stream.read(min(size + IN_A_ROW * MAX_FRAME_BYTES, max(0, end - place)))
        starts = _starts(data, end - place, kind)
        starts = starts[starts < size]
        if len(starts):
            return place + int(starts[0])
        place, size = place + size, READ_BYTES
    return max(place, end)


def _starts(data: bytes, end: int, kind: tuple[int, int, int] | None) -> npt.NDArray[np.intp]:
    """Return where a few equal headers follow each other in some bytes, or fewer up to the end.

    All places are tried at once: in a file made for it, each byte may begin a frame.
    """
    padded = np.frombuffer(data + bytes(4), np.uint8).astype(np.intp)
    codes = np.where(
        (padded[:-2] == 0xFF) & (padded[1:-1] >= 0xE0), (padded[1:-1] & 0x1F) << 8 | padded[2:], 0
    )
    lengths = _lengths(kind)
    starts = places = np.flatnonzero(lengths[codes])
    own = codes[starts] & KIND_BITS
    for number in range(IN_A_ROW):
        at = codes[np.minimum(places, len(data))]
        is_next = (lengths[at] > 0) & (at & KIND_BITS == own)
        is_right = is_next | ((places == end) if number else False)
        starts, own, places, at = starts[is_right], own[is_right], places[is_right], at[is_right]
        places = np.where(places == end, end, places + lengths[at])
    return starts


def _frame(header: bytes) -> Frame | None:
    """Return what a header of four bytes says; None if it is none, or of a free bit rate."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    speed, rate, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version == 1 or layer == 4 or speed in (0, 15) or rate == 3:
        return None
    is_first = version == 3
    rate_hz = RATES_HZ[rate] >> {3: 0, 2: 1, 0: 2}[version]
    bits_per_s = 1000 * KBIT_PER_S[is_first, layer][speed - 1]
    num_samples = {1: 384, 2: 1152, 3: 1152 if is_first else 576}[layer]
    unit = 4 if layer == 1 else 1
    num_bytes = (num_samples // 8 // unit * bits_per_s // rate_hz + padding) * unit
    is_mono = header[3] >= MONO
    side = (17 if is_mono else 32) if is_first else (9 if is_mono else 17)
    return Frame((version, layer, rate), num_bytes, num_samples, 4 + side)


@functools.cache
def _lengths(kind: tuple[int, int, int] | None) -> npt.NDArray[np.int32]:
    """Return the size of the frames of a kind, or of all, by 13 bits of their header; 0 where it is none."""
    lengths = np.zeros(1 << 13, np.int32)
    for code in range(len(lengths)):
        frame = _frame(bytes([0xFF, 0xE0 | code >> 8, code & 0xFF, 0]))
        if frame and kind in (None, frame.kind):
            lengths[code] = frame.num_bytes
    return lengths


def _num_stated(stream: BinaryIO, begin: int, frame: Frame) -> int | None:
    """Return the number of frames that a Xing or VBRI frame states; None if this is another frame."""
    stream.seek(begin)
    data = stream.read(frame.num_bytes)
    xing = data[frame.xing_begin :]
    if xing[:4] in (b"Xing", b"Info"):
        return int.from_bytes(xing[8:12], "big") if len(xing) >= 12 and xing[7] & 1 else 0
    if data[36:40] == b"VBRI" and len(data) >= 54:
        return int.from_bytes(data[50:54], "big")
    return None


def _xing_frame(mpeg: Mpeg) -> bytes:
    """Return a Xing frame that states the number of frames, so that libsndfile doesn't guess."""
    header = bytearray(mpeg.first)
    header[1] |= 1  # without a checksum
    header[2] = header[2] & 0x0D | 0x80  # speed that leaves room, without padding
    frame = _frame(bytes(header))
    assert frame is not None
    num_bytes = frame.num_bytes + sum(end - begin for begin, end in mpeg.runs)
    xing = b"Xing" + b"".join(value.to_bytes(4, "big") for value in (3, mpeg.num_frames, num_bytes))
    return (bytes(header).ljust(frame.xing_begin, ZERO_BYTES) + xing).ljust(frame.num_bytes, ZERO_BYTES)


def id3_end(stream: BinaryIO) -> int:
    """Return where the ID3v2 tags at the beginning of a stream end."""
    end = 0
    for _ in range(MAX_TAGS):
        size = _id3_bytes(stream, end)
        if not size:
            break
        end += size
    return end


def _id3_bytes(stream: BinaryIO, place: int) -> int:
    """Return the size of the ID3v2 tag that begins here; 0 without one."""
    stream.seek(place)
    head = stream.read(10)
    if len(head) < 10 or head[:3] != b"ID3":
        return 0
    return _id3_size(head) + (10 if head[5] & 0x10 else 0)


def _id3_size(head: bytes) -> int:
    return 10 + sum((byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))


def _audio_end(stream: BinaryIO) -> int:
    """Return where the tags after the audio begin, or the end of the file."""
    end = stream.seek(0, io.SEEK_END)
    for _ in range(MAX_TAGS):
        size = _tag_bytes(stream, end)
        if not size or size > end:
            break
        end -= size
    return end


def _tag_bytes(stream: BinaryIO, end: int) -> int:
    """Return the size of the tag that ends here; 0 without one."""
    stream.seek(max(0, end - 355))
    tail = stream.read(min(end, 355))
    if tail[-128:-125] == b"TAG":
        return 355 if tail.startswith(b"TAG+") else 128
    if tail[-32:-24] == b"APETAGEX":
        size = int.from_bytes(tail[-20:-16], "little")
        stream.seek(max(0, end - size - 32))
        return size + 32 * (stream.read(8) == b"APETAGEX")  # a header that the footer need not declare
    if tail[-10:-7] == b"3DI":
        return 10 + _id3_size(tail[-10:])
    if tail.endswith(b"LYRICS200") and tail[-15:-9].isdigit():
        return int(tail[-15:-9]) + 15
    if tail.endswith(b"LYRICSEND"):
        stream.seek(max(0, end - 5200))
        lyrics = stream.read(min(end, 5200))
        begin = lyrics.rfind(b"LYRICSBEGIN")
        return len(lyrics) - begin if begin >= 0 else 0
    return 0


def _num_unknown(stream: BinaryIO, begin: int, end: int) -> int:
    """Return the number of bytes that are neither zeros nor in a tag whose header is first."""
    stream.seek(begin)
    data = stream.read(max(0, end - begin)).strip(ZERO_BYTES)
    return 0 if data[:8] == b"APETAGEX" or data[:3] in (b"ID3", b"TAG") else len(data)
