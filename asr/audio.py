"""Any audio file -> a mono waveform at the model's rate, as int16."""

from __future__ import annotations

import contextlib
import io
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.signal
import soundfile

from asr.types import UserError

SAMPLE_RATE_HZ = 16000
WINDOW_SAMPLES = 400  # 25 ms: a shorter clip has no frame
INT16_SCALE = 32768.0
BLOCK_FRAMES = 1 << 20
UNKNOWN_LENGTH = 0x7FFFF000  # at least that is declared by programs that write to a pipe
RATES_HZ = (1000, 768_000)
MPEG_TAIL_BYTES = 1 << 14  # tags may follow the sound

Waveform: TypeAlias = npt.NDArray[np.int16]
AudioSource: TypeAlias = str | Path | BinaryIO


def read_audio(source: AudioSource) -> Waveform:
    """Read a whole recording, mix its channels down and resample it to 16 kHz.

    Args:
        source: a path, or a binary file object such as `io.BytesIO(received_bytes)`; any container,
            rate and channel count that libsndfile reads (WAV, FLAC, Ogg, Opus, MP3, ...).

    Returns:
        (S,) int16 samples at 16 kHz.

    Raises:
        UserError: the file is missing, empty, cut off, not audio, or shorter than one 25 ms window.
    """
    with _open(source) as (file, name, stream):
        parts = list(_blocks(file, name))
        rate_hz, declared = file.samplerate, file.frames
        if file.format == "MP3" and _unread_bytes(stream) > MPEG_TAIL_BYTES:
            raise UserError(
                f"{name}: an MP3 without its length, of which only a part is read; convert it to WAV"
            )
    samples = np.concatenate(parts) if parts else np.zeros((0, 1), np.int16)
    if len(samples) < declared:
        raise UserError(_cut_off(name, declared / rate_hz, len(samples) / rate_hz))
    waveform = resample(_mix_down(samples), rate_hz)
    if len(waveform) < WINDOW_SAMPLES:
        raise UserError(
            f"{name}: {len(waveform)} samples at 16 kHz, at least {WINDOW_SAMPLES} (25 ms) are needed; "
            "leave it out"
        )
    return waveform


def audio_duration_s(path: Path) -> float:
    """Seconds of audio by the file's header; of other containers than WAV the end is read too.

    Raises:
        UserError: the file is missing, empty, cut off or not audio.
    """
    with _open(path) as (file, name, _):
        duration_s = float(file.frames / file.samplerate)
        if file.format != "WAV" and file.frames >= WINDOW_SAMPLES:
            # a WAV's length is checked when it is opened; others show only at their end that it is missing
            try:
                file.seek(file.frames - WINDOW_SAMPLES)
                num_read = len(file.read(WINDOW_SAMPLES, dtype="float32"))
            except soundfile.LibsndfileError:
                num_read = 0
            if num_read < WINDOW_SAMPLES:
                raise UserError(
                    f"{name}: cut off: its header declares {duration_s:.2f} s, whose end cannot be read; "
                    "copy it again"
                )
        return duration_s


@contextlib.contextmanager
def _open(source: AudioSource) -> Iterator[tuple[Any, str, BinaryIO]]:
    """A soundfile.SoundFile, the name to call it by, and the stream below it."""
    if isinstance(source, str | Path):
        name = str(source)
        try:
            stream: BinaryIO = Path(source).open("rb")  # noqa: SIM115 (closed below)
        except IsADirectoryError:
            raise UserError(f"{name}: a folder, expected an audio file") from None
        except (OSError, ValueError) as error:  # a ValueError where the name holds a zero byte
            reason = getattr(error, "strerror", error)
            raise UserError(f"{name}: cannot read this file ({reason})") from None
    else:
        name, stream = str(getattr(source, "name", "audio stream")), io.BytesIO(source.read())
    if not stream.seekable():  # libsndfile seeks, which a pipe cannot
        with stream:
            stream = io.BytesIO(stream.read())
    with stream:
        _refuse_broken_header(stream, name)
        try:
            file = soundfile.SoundFile(stream)
        except (soundfile.LibsndfileError, TypeError) as error:
            raise UserError(
                f"{name}: not audio that libsndfile reads ({_reason(error)}); convert it"
            ) from None
        if not RATES_HZ[0] <= file.samplerate <= RATES_HZ[1]:
            raise UserError(
                f"{name}: {file.samplerate} samples per second, expected {RATES_HZ[0]} to {RATES_HZ[1]}; "
                "its header is wrong, convert it again"
            )
        with file:
            yield file, name, stream


def _blocks(file: Any, name: str) -> Iterator[npt.NDArray[Any]]:
    """(S, channels) pieces until the end; a header that lies about the length allocates nothing."""
    dtype = "int16" if file.subtype == "PCM_16" else "float32"
    try:
        while len(block := file.read(BLOCK_FRAMES, dtype=dtype, always_2d=True)):
            yield block
    except soundfile.LibsndfileError as error:
        raise UserError(
            f"{name}: broken after its header ({_reason(error)}); copy it again, or convert it to WAV"
        ) from None


def _unread_bytes(stream: BinaryIO) -> int:
    position = stream.tell()
    return stream.seek(0, io.SEEK_END) - position


def _refuse_broken_header(stream: BinaryIO, name: str) -> None:
    """An empty file, and a WAV file shorter than it declares, which libsndfile would take for a short one."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if size == 0:
        raise UserError(f"{name}: empty file; copy or record it again")
    declared, present, bytes_per_s = _wav_data_bytes(stream, size)
    stream.seek(0)
    if declared == 0 and present > 0:
        raise UserError(
            f"{name}: its header declares no samples, {present} bytes of them are there: "
            "whatever recorded it did not finish; convert it again"
        )
    if declared > present and declared < UNKNOWN_LENGTH:
        raise UserError(_cut_off(name, declared / bytes_per_s, present / bytes_per_s))


def _wav_data_bytes(stream: BinaryIO, size: int) -> tuple[int, int, int]:
    """Bytes of samples that a WAV file declares, those that are there, and bytes per second; else zeros."""
    riff = stream.read(12)
    if len(riff) < 12 or riff[:4] != b"RIFF" or riff[8:] != b"WAVE":
        return 0, 0, 1
    bytes_per_s = 1
    while len(header := stream.read(8)) == 8:
        chunk, length = struct.unpack("<4sI", header)
        if chunk == b"data":
            return length, size - stream.tell(), bytes_per_s
        start = stream.tell()
        if chunk == b"fmt ":
            bytes_per_s = max(1, struct.unpack("<I", stream.read(16)[8:12].ljust(4, b"\0"))[0])
        stream.seek(start + length + length % 2)
    return 0, 0, 1


def _cut_off(name: str, declared_s: float, present_s: float) -> str:
    return (
        f"{name}: cut off: its header declares {declared_s:.2f} s, {present_s:.2f} s are there; copy it again"
    )


def resample(waveform: npt.NDArray[Any], rate_hz: int) -> Waveform:
    """Change the rate to 16 kHz through a polyphase low-pass filter, so that nothing aliases.

    Args:
        waveform: (S,) samples on the int16 scale.
        rate_hz: their rate.
    """
    if rate_hz == SAMPLE_RATE_HZ:
        return to_int16(waveform)
    divisor = math.gcd(rate_hz, SAMPLE_RATE_HZ)
    up, down = SAMPLE_RATE_HZ // divisor, rate_hz // divisor
    return to_int16(scipy.signal.resample_poly(waveform.astype(np.float32), up, down))


def to_int16(waveform: npt.NDArray[Any]) -> Waveform:
    """Round and clip samples that are on the int16 scale."""
    if waveform.dtype == np.int16:
        return waveform
    rounded: Waveform = np.clip(np.rint(waveform), -32768, 32767).astype(np.int16)
    return rounded


def pad_waveforms(waveforms: Sequence[Waveform]) -> tuple[Waveform, npt.NDArray[np.int32]]:
    """Waveforms as one (B, S) array with zeros behind the shorter ones, and their (B,) lengths."""
    num_samples = np.array([len(waveform) for waveform in waveforms], np.int32)
    padded = np.zeros((len(waveforms), num_samples.max()), np.int16)
    for row, waveform in zip(padded, waveforms, strict=True):
        row[: len(waveform)] = waveform
    return padded, num_samples


def write_wav(path: Path, waveform: Waveform) -> None:
    """Write 16 kHz mono 16-bit WAV.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        soundfile.write(str(path), waveform, SAMPLE_RATE_HZ, subtype="PCM_16")
    except (OSError, soundfile.LibsndfileError) as error:
        raise UserError(f"{path}: cannot write this recording ({_reason(error)}); free space there") from None


def _mix_down(samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(S, channels) -> (S,), on the int16 scale: the mean of the channels."""
    if samples.dtype == np.int16 and samples.shape[1] == 1:
        return samples[:, 0]
    mono: npt.NDArray[np.float32] = samples.mean(axis=1, dtype=np.float32)
    return mono if samples.dtype == np.int16 else np.nan_to_num(mono) * np.float32(INT16_SCALE)


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", error)).strip().rstrip(".").lower()
