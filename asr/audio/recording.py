"""Read any audio file as a mono int16 waveform at the model's sample rate."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import os
import re
import shutil
import tempfile
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import soundfile

from asr.audio.containers import cut_off_reason, whole_audio, without_tags
from asr.audio.formats import conversion
from asr.audio.joined import Whole
from asr.audio.media.child import media_header, open_media
from asr.audio.media.kinds import is_silk, media_kind
from asr.audio.mixing import INT16_SCALE as INT16_SCALE
from asr.audio.mixing import MIXED_AT_ONCE, float_reason, mixed_down
from asr.audio.wav import RATES_HZ, UNKNOWN_LENGTH, Wav, checked_wav, plain_blocks, read_plain
from asr.base.errors import UserError
from asr.base.system.files import replacing
from asr.base.system.paths import path_on_disk
from asr.base.system.storage.address import is_address, path_of
from asr.base.system.storage.store import open_stored, read_range, state_of_opened

logger = logging.getLogger(__name__)

SAMPLE_RATE_HZ = 16000
WINDOW_SAMPLES = 400  # 25 ms: a shorter clip has no feature frame
FRAME_SAMPLES = 160  # 10 ms
BLOCK_FRAMES = MIXED_AT_ONCE
COPY_BYTES_AT_ONCE = 1 << 20
COPY_BYTES_IN_MEMORY = 64 << 20
MAX_OPEN_FILES = 64  # packs
FLOATS = {"FLOAT", "DOUBLE"}  # may be NaN
INTEGERS = {"PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "ULAW", "ALAW"}  # any bytes are samples
STATE_LENGTH = {"HTK", "SDS", "XI"}  # as libsndfile checks it
SHOWN_WHEN_READ = {"FLAC", "OGG", "MP3"}  # a missing end; of others it is known when they are opened
PIECE = re.compile(r"(?P<path>.*\.(?i:tfrecord|tar))@(?P<begin>\d+)\+(?P<num_bytes>\d+)", re.DOTALL)

Waveform: TypeAlias = npt.NDArray[np.int16]
AudioSource: TypeAlias = str | Path | BinaryIO


@dataclass(frozen=True, slots=True)
class AudioHeader:
    """What a file's header declares.

    Attributes:
        rate_hz: samples per second of each channel.
        num_channels: at least 1.
        duration_s: seconds of audio.
        container: name of the format: WAV, FLAC, OGG, MP3, MP4, Matroska, ...
        length_is_stated: whether a missing end would be noticed.
        needs_decoding: whether only decoding shows if the samples can be used.
    """

    rate_hz: int
    num_channels: int
    duration_s: float
    container: str
    length_is_stated: bool = True
    needs_decoding: bool = False


def read_audio(source: AudioSource) -> Waveform:
    """Read a whole recording, mix its channels down and resample it to 16 kHz.

    Args:
        source: a path, or a binary file object such as `io.BytesIO(received_bytes)`; any container,
            rate and channel count that libsndfile reads (WAV, FLAC, Ogg, Opus, MP3, ...) or FFmpeg (M4A, MP4,
            MOV, WebM, Matroska, AAC, WMA, AMR, 3GP, ...; of a video, its audio). A path may also name a
            recording within a larger file: see `piece_of_file`.

    Returns:
        (S,) int16 samples at 16 kHz.

    Raises:
        UserError: the file is missing, empty, truncated, not audio, or shorter than one 25 ms window.
    """
    with _open_stream(source) as (stream, name):
        return _read(stream, name)


def read_short_audio(path: str | Path, longest_s: float) -> Waveform | None:
    """Read a recording as `read_audio` does; return None if its header declares more than these seconds.

    Raises:
        UserError: see `read_audio`.
    """
    with _open_stream(path) as (stream, name):
        if _read_header(stream, name).duration_s > longest_s:
            return None
        stream.seek(0)
        return _read(stream, name)


def _read(stream: BinaryIO, name: str) -> Waveform:
    wav = _checked_wav(stream, name)
    if wav and wav.is_plain:
        samples, rate_hz = read_plain(stream, wav), wav.rate_hz
    else:
        with _open_coded(stream, name) as (decoded, rate_hz):
            parts = list(decoded)
        samples = np.concatenate(parts) if parts else np.zeros((0, 1), np.int16)
    blocks = [samples[begin : begin + BLOCK_FRAMES] for begin in range(0, len(samples), BLOCK_FRAMES)]
    mono = [_mix_down(block, rate_hz, name) for block in blocks or [samples]]  # as `audio_blocks` does
    waveform = resample(np.concatenate(mono) if len(mono) > 1 else mono[0], rate_hz)
    _refuse_too_short(name, len(waveform))
    return waveform


def audio_blocks(source: AudioSource, block_s: float) -> Iterator[Waveform]:
    """Read a recording of any length in blocks; concatenated they equal what `read_audio` returns.

    An error at the end of a recording is raised when its end is reached.

    Args:
        source: see `read_audio`; data from a pipe is kept in a temporary file.
        block_s: seconds of a block; the last one may be shorter.

    Returns:
        (S,) int16 samples at 16 kHz, block by block.

    Raises:
        UserError: see `read_audio`.
    """
    num_samples = 0
    with (
        _open_stream(source, on_disk=True) as (stream, name),
        _open_blocks(stream, name) as (blocks, rate_hz),
    ):
        waveforms = _resampled((_mix_down(block, rate_hz, name) for block in blocks), rate_hz)
        for block in _regrouped(waveforms, round(block_s * SAMPLE_RATE_HZ)):
            num_samples += len(block)
            yield block
        _refuse_too_short(name, num_samples)


def audio_header(source: AudioSource) -> AudioHeader:
    """Read the header of a file; check that the end can be read, and float samples of any scale.

    Args:
        source: see `read_audio`.

    Raises:
        UserError: the file is missing, empty, truncated or not audio.
    """
    with _open_stream(source) as (stream, name):
        return _read_header(stream, name)


def _read_header(stream: BinaryIO, name: str) -> AudioHeader:
    wav = _checked_wav(stream, name)
    if wav and wav.is_plain:
        return AudioHeader(wav.rate_hz, wav.num_channels, wav.num_frames / wav.rate_hz, "WAV")
    if kind := media_kind(stream):
        media, duration_s = media_header(stream, kind, name)
        _log_tracks(name, media.num_tracks)
        return AudioHeader(
            media.rate_hz, media.num_channels, duration_s, media.container, media.length_is_stated, True
        )
    with _open_sound(stream, name) as (file, whole):
        rate_hz, container, subtype = file.samplerate, file.format, file.subtype
        duration_s = file.frames / rate_hz
        # seeking to the end of a sound MP3 makes libmpg123 print errors: its bits may begin in earlier frames
        if container in SHOWN_WHEN_READ and not whole.is_complete and file.frames >= WINDOW_SAMPLES:
            _refuse_missing_end(file, name, duration_s)
        num_channels = file.channels
        if subtype in FLOATS:  # of any scale, which only the samples show
            for block in _complete_blocks(file, name):
                _refuse_other_scale(block, name)
    is_stated = wav.num_bytes < UNKNOWN_LENGTH if wav else whole.is_stated or container in STATE_LENGTH
    is_simple = container == "WAV" or (is_stated and container != "FLAC" and subtype in INTEGERS)
    return AudioHeader(rate_hz, num_channels, duration_s, container, is_stated, not is_simple)


def _checked_wav(stream: BinaryIO, name: str) -> Wav | None:
    wav, reason = checked_wav(stream)
    if reason:
        raise UserError(f"{name}: {reason}")
    return wav


def read_part(path: str | Path, begin_s: float, longest_s: float) -> tuple[npt.NDArray[np.float32], int]:
    """Read a part of a recording without decoding all that comes before it.

    Args:
        path: of the recording.
        begin_s: of the part, in seconds.
        longest_s: its length; it is shorter at the end of the recording.

    Returns:
        (S, channels) samples from -1 to 1, and their rate in Hz.

    Raises:
        UserError: see `read_audio`.
    """
    with _open_stream(path) as (stream, name):
        if kind := media_kind(stream):
            with open_media(stream, kind, name, begin_s, longest_s) as (media, blocks):
                parts = list(blocks)
            samples = np.concatenate(parts) if parts else np.zeros((0, media.num_channels), np.float32)
            scale = INT16_SCALE if samples.dtype == np.int16 else 1.0
            return samples.astype(np.float32) / np.float32(scale), media.rate_hz
        is_file = not (is_address(name) or PIECE.fullmatch(name))  # which libsndfile reads faster by itself
        try:
            with soundfile.SoundFile(name if is_file else _Decoded(stream)) as file:
                file.seek(round(begin_s * file.samplerate))
                return _frames(file, round(longest_s * file.samplerate), "float32"), int(file.samplerate)
        except (soundfile.LibsndfileError, TypeError) as error:
            reason = f"cannot be read at {begin_s:g} s ({_reason(error)})"
            raise UserError(f"{path}: {reason}; copy it again") from None


@functools.lru_cache(maxsize=1024)
def _log_tracks(name: str, num_tracks: int) -> None:
    if num_tracks > 1:  # once a file, which training reads in each epoch
        logger.info("%s: has %d audio tracks; the default one is read, or else the first", name, num_tracks)


def audio_duration_s(path: str | Path) -> float:
    """Return the duration of a file in seconds, from `audio_header`."""
    return audio_header(path).duration_s


def refuse_pipe(path: str | Path) -> None:
    """Raise a UserError for a pipe: it can be read only once, and may never end."""
    if Path(path).is_fifo():
        raise UserError(f"{path}: expected a file, received a pipe; save its data to a file")


def piece_of_file(path: str | Path, begin: int, num_bytes: int) -> str:
    """Return a path for `read_audio` that names a recording within a larger file, such as a pack."""
    return f"{path}@{begin}+{num_bytes}"


def stored_bytes(path: str) -> bytes:
    """Return a recording as it is stored: a file, or a piece of a larger one.

    Raises:
        UserError: it cannot be read.
    """
    with _open_file(path) as file:
        return file.read()


def refuse_missing_piece(path: str) -> None:
    """Raise a UserError if a file in object storage ends before a recording in it does."""
    piece = PIECE.fullmatch(path)
    assert piece is not None
    if int(piece["begin"]) + int(piece["num_bytes"]) > state_of_opened(piece["path"]).num_bytes:
        raise UserError(f"{path}: cut off: the file ends before this recording does; pack or copy it again")


def _refuse_too_short(name: str, num_samples: int) -> None:
    if num_samples < WINDOW_SAMPLES:
        raise UserError(
            f"{name}: expected at least {WINDOW_SAMPLES} samples at 16 kHz (25 ms), received {num_samples}; "
            "leave the recording out"
        )


@contextlib.contextmanager
def _open_stream(source: AudioSource, *, on_disk: bool = False) -> Iterator[tuple[BinaryIO, str]]:
    """Open a source as a seekable stream, and return it with its name for errors; refuse an empty one.

    Args:
        source: a path or a stream.
        on_disk: whether a long stream that has to be copied to be seekable is copied to the disk.
    """
    copied = _copied_to_disk if on_disk else _copied_to_memory
    if isinstance(source, str | Path):
        name = str(source)
        stream = _open_file(name)
    else:
        name, stream = str(getattr(source, "name", "audio stream")), copied(source)
    if not stream.seekable():  # libsndfile needs to seek
        with stream:
            stream = copied(stream)
    with stream:
        if not stream.read(1):
            raise UserError(f"{name}: empty file; copy or record it again")
        stream.seek(0)
        yield without_tags(stream), name


def _copied_to_memory(stream: BinaryIO) -> BinaryIO:
    return io.BytesIO(stream.read())


def _copied_to_disk(stream: BinaryIO) -> BinaryIO:
    if isinstance(stream, io.BytesIO):
        return _copied_to_memory(stream)  # where it is already
    copy = tempfile.SpooledTemporaryFile(max_size=COPY_BYTES_IN_MEMORY)  # noqa: SIM115 (closed later)
    try:
        shutil.copyfileobj(stream, copy, COPY_BYTES_AT_ONCE)
    except OSError as error:
        folder = tempfile.gettempdir()
        raise UserError(
            f"{folder}: cannot buffer a recording there ({error.strerror}); free space, "
            "or set TMPDIR to another folder"
        ) from None
    copy.seek(0)
    return typing.cast(BinaryIO, copy)


def _open_file(name: str) -> BinaryIO:
    piece = PIECE.fullmatch(name)
    if is_address(name):
        if not piece:
            return open_stored(name)
        return io.BytesIO(read_range(piece["path"], int(piece["begin"]), int(piece["num_bytes"])))
    try:
        if not piece:
            return open(name, "rb")  # noqa: PTH123 (pathlib takes as long as reading; closed later)
        begin, num_bytes = int(piece["begin"]), int(piece["num_bytes"])
        state = os.stat(piece["path"])  # noqa: PTH116 (as above)
        file = _opened_once(piece["path"], state.st_ino)
        if begin + num_bytes > state.st_size:  # before memory is allocated for it
            raise UserError(f"{name}: the file ends before this recording does; pack or copy it again")
        return io.BytesIO(os.pread(file.fileno(), num_bytes, begin))
    except FileNotFoundError as error:
        if (other := str(path_of(path_on_disk(name)))) != name and other != os.path.normpath(name):
            return _open_file(other)
        raise UserError(f"{name}: cannot read this file ({error.strerror})") from None
    except IsADirectoryError:
        raise UserError(f"{name}: expected an audio file, received a folder") from None
    except (OSError, ValueError, OverflowError) as error:  # a ValueError where the name contains a zero byte
        reason = getattr(error, "strerror", error)
        raise UserError(f"{name}: cannot read this file ({reason})") from None


@functools.lru_cache(maxsize=MAX_OPEN_FILES)
def _opened_once(path: str, inode: int) -> BinaryIO:
    """Return a file that stays open until nobody uses it, as opening is slow on network disks."""
    return open(path, "rb", buffering=0)  # noqa: PTH123


class _Decoded:
    """A stream for libsndfile, which a broken header makes seek to before the beginning.

    The stream's own error would be printed with its traceback, since no caller of the callback takes it.

    Attributes:
        failure: why object storage could not be read, at which libsndfile sees the end of the file.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failure: UserError | None = None
        self.tell, self.read = stream.tell, stream.read

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except UserError as error:
            self.failure = error
            return 0

    def seek(self, offset: int, origin: int) -> None:
        with contextlib.suppress(ValueError, OSError, OverflowError):
            self._stream.seek(offset, origin)


@contextlib.contextmanager
def _open_sound(stream: BinaryIO, name: str) -> Iterator[tuple[Any, Whole]]:
    """Open a stream with libsndfile; refuse a missing end, and a sample rate that cannot be right.

    Returns:
        The file, and what is known of its end.
    """
    whole = whole_audio(stream)
    if whole.reason:
        raise UserError(f"{name}: {whole.reason}")
    whole.stream.seek(0)
    decoded = _Decoded(whole.stream)
    try:
        file = soundfile.SoundFile(decoded)
    except (soundfile.LibsndfileError, TypeError) as error:
        reason = "SILK, as WeChat stores voice messages" if is_silk(stream) else _reason(error)
        remedy = "convert it by silk-v3-decoder" if is_silk(stream) else f"convert it: {conversion(name)}"
        raise decoded.failure or UserError(
            f"{name}: not audio that can be read ({reason}); {remedy}"
        ) from None
    try:
        with file:
            if not RATES_HZ[0] <= file.samplerate <= RATES_HZ[1]:
                raise UserError(
                    f"{name}: expected a sample rate of {RATES_HZ[0]} to {RATES_HZ[1]} Hz, received "
                    f"{file.samplerate}; the header is wrong: convert the file again"
                )
            yield file, whole
    finally:
        if decoded.failure:
            raise decoded.failure


@contextlib.contextmanager
def _open_blocks(stream: BinaryIO, name: str) -> Iterator[tuple[Iterator[npt.NDArray[Any]], int]]:
    """Open a recording as an iterator of (S, channels) blocks, with its sample rate."""
    wav = _checked_wav(stream, name)
    if wav and wav.is_plain:
        yield plain_blocks(stream, wav, BLOCK_FRAMES), wav.rate_hz
        return
    with _open_coded(stream, name) as opened:
        yield opened


@contextlib.contextmanager
def _open_coded(stream: BinaryIO, name: str) -> Iterator[tuple[Iterator[npt.NDArray[Any]], int]]:
    """Open what is not plain WAV as `_open_blocks` does."""
    if kind := media_kind(stream):
        with open_media(stream, kind, name) as (media, blocks):
            _log_tracks(name, media.num_tracks)
            yield blocks, media.rate_hz
        return
    with _open_sound(stream, name) as (file, _):
        yield _complete_blocks(file, name), file.samplerate


def _complete_blocks(file: Any, name: str) -> Iterator[npt.NDArray[Any]]:
    """Yield (S, channels) blocks; raise a UserError at the end if samples are missing."""
    num_read = 0
    for block in _blocks(file, name):
        num_read += len(block)
        yield block
    if num_read < file.frames:
        reason = cut_off_reason(file.frames / file.samplerate, num_read / file.samplerate)
        raise UserError(f"{name}: {reason}")


def _blocks(file: Any, name: str) -> Iterator[npt.NDArray[Any]]:
    """Yield (S, channels) blocks until the end; a wrong length in the header allocates no memory."""
    dtype = "int16" if file.subtype == "PCM_16" else "float32"
    try:
        while len(block := _frames(file, BLOCK_FRAMES, dtype)):
            yield block
    except (soundfile.LibsndfileError, ValueError) as error:  # a ValueError for a negative number of frames
        raise UserError(
            f"{name}: broken after its header ({_reason(error)}); copy it again, or convert it: "
            f"{conversion(name)}"
        ) from None


def _frames(file: Any, num_frames: int, dtype: str) -> npt.NDArray[Any]:
    """Read the next (S, channels) samples, at most `num_frames` of each channel."""
    samples: npt.NDArray[Any] = file.read(num_frames, dtype=dtype, always_2d=True)
    return samples


def _refuse_missing_end(file: Any, name: str, duration_s: float) -> None:
    try:
        file.seek(file.frames - WINDOW_SAMPLES)
        num_read = len(_frames(file, WINDOW_SAMPLES, "float32"))
    except (soundfile.LibsndfileError, ValueError):
        num_read = 0
    if num_read < WINDOW_SAMPLES:
        raise UserError(
            f"{name}: cut off: the header declares {duration_s:.2f} s, whose end cannot be read; "
            "copy the file again"
        )


def resample(waveform: npt.NDArray[Any], rate_hz: int) -> Waveform:
    """Resample to 16 kHz with a polyphase low-pass filter, which avoids aliasing.

    Args:
        waveform: (S,) samples on the int16 scale.
        rate_hz: sample rate of the waveform.
    """
    if rate_hz == SAMPLE_RATE_HZ:
        return to_int16(waveform)
    import scipy.signal  # takes longer than all of a server's other imports

    divisor = math.gcd(rate_hz, SAMPLE_RATE_HZ)
    up, down = SAMPLE_RATE_HZ // divisor, rate_hz // divisor
    return to_int16(scipy.signal.resample_poly(waveform.astype(np.float32), up, down))


class Resampler:
    """Resampling piece by piece; the pieces are those of what `resample` returns for the whole.

    Args:
        rate_hz: sample rate of the recording.
    """

    def __init__(self, rate_hz: int) -> None:
        divisor = math.gcd(rate_hz, SAMPLE_RATE_HZ)
        self._rate_hz, self._up, self._down = rate_hz, SAMPLE_RATE_HZ // divisor, rate_hz // divisor
        # half-width of resample_poly's filter; cutting at multiples of `down` preserves its phase
        widest = 10 * max(self._up, self._down)
        self._reach = self._down * math.ceil((widest / self._up + 1) / self._down)
        self._held: npt.NDArray[Any] = np.zeros(0, np.float32)
        self._done = 0  # of the samples held

    def feed(self, waveform: npt.NDArray[Any]) -> Waveform:
        """Return the samples at 16 kHz that further samples, (S,) on the int16 scale, complete."""
        if self._rate_hz == SAMPLE_RATE_HZ:
            return to_int16(waveform)
        self._held = np.concatenate([self._held, waveform], dtype=np.float32)
        end = (len(self._held) - self._reach) // self._down * self._down
        if end <= self._done:
            return np.zeros(0, np.int16)
        found = resample(self._held[: end + self._reach], self._rate_hz)
        found = found[self._done * self._up // self._down : end * self._up // self._down]
        self._held, self._done = self._held[max(0, end - self._reach) :], min(end, self._reach)
        return found

    def finish(self) -> Waveform:
        """Return the remaining samples at the end of the recording."""
        if len(self._held) <= self._done:
            return np.zeros(0, np.int16)
        return resample(self._held, self._rate_hz)[self._done * self._up // self._down :]


def _resampled(waveforms: Iterable[npt.NDArray[Any]], rate_hz: int) -> Iterator[Waveform]:
    """Yield the samples that `resample` would return for the whole, piece by piece."""
    resampler = Resampler(rate_hz)
    yield from map(resampler.feed, waveforms)
    yield resampler.finish()


def _regrouped(waveforms: Iterable[Waveform], num_samples: int) -> Iterator[Waveform]:
    """Yield samples in blocks of the given length; the last one may be shorter."""
    held = np.zeros(0, np.int16)
    for waveform in waveforms:
        held = np.concatenate([held, waveform])
        whole = len(held) // num_samples * num_samples
        yield from (held[begin : begin + num_samples] for begin in range(0, whole, num_samples))
        held = held[whole:]
    if len(held):
        yield held


def to_int16(waveform: npt.NDArray[Any]) -> Waveform:
    """Round samples on the int16 scale, and clip them."""
    if waveform.dtype == np.int16:
        return waveform
    rounded: Waveform = np.clip(np.rint(waveform), -32768, 32767).astype(np.int16)
    return rounded


def pad_waveforms(waveforms: Sequence[Waveform]) -> tuple[Waveform, npt.NDArray[np.int32]]:
    """Return waveforms as one (B, S) array, padded with zeros at the end, and their (B,) lengths."""
    num_samples = np.array([len(waveform) for waveform in waveforms], np.int32)
    padded = np.zeros((len(waveforms), num_samples.max()), np.int16)
    for row, waveform in zip(padded, waveforms, strict=True):
        row[: len(waveform)] = waveform
    return padded, num_samples


def encoded(waveform: Waveform, rate_hz: int, container: str, codec: str, **options: object) -> bytes:
    """Return the contents of an audio file; names and options are those of libsndfile."""
    file = io.BytesIO()
    soundfile.write(file, waveform, rate_hz, format=container, subtype=codec, **options)
    return file.getvalue()


def write_wav(path: Path, waveform: Waveform) -> None:
    """Write a waveform as 16 kHz mono 16-bit WAV; an existing file is replaced once the new one is complete.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        with replacing(path) as temporary:
            soundfile.write(str(temporary), waveform, SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
    except (OSError, soundfile.LibsndfileError) as error:
        raise UserError(f"{path}: cannot write this recording ({_reason(error)}); free space there") from None


def _mix_down(samples: npt.NDArray[Any], rate_hz: int, name: str) -> npt.NDArray[Any]:
    """Return the channels' mix on the int16 scale, (S, channels) -> (S,).

    Raises:
        UserError: a sample is not a finite number, or far beyond full scale.
    """
    _refuse_other_scale(samples, name)
    return mixed_down(samples, rate_hz)


def _refuse_other_scale(samples: npt.NDArray[Any], name: str) -> None:
    if reason := float_reason(samples):
        raise UserError(f"{name}: {reason}")


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", error)).strip().rstrip(".").lower()
