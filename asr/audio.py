"""Any audio file -> a mono waveform at the model's rate, as int16."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.signal
import soundfile

from asr.types import UserError

SAMPLE_RATE_HZ = 16000
WINDOW_SAMPLES = 400  # 25 ms: a shorter clip has no frame
INT16_SCALE = 32768.0

Waveform: TypeAlias = npt.NDArray[np.int16]
AudioSource: TypeAlias = str | Path | BinaryIO


def read_audio(source: AudioSource) -> Waveform:
    """Read a whole file, mix its channels down and resample it to 16 kHz.

    Args:
        source: a path, or a binary file object such as `io.BytesIO(received_bytes)`; any container,
            rate and channel count that libsndfile reads (WAV, FLAC, Ogg, Opus, MP3, ...).

    Returns:
        (S,) int16 samples at 16 kHz.

    Raises:
        UserError: the file is missing, empty, cut off, not audio, or shorter than one 25 ms window.
    """
    name = _name(source)
    _refuse_empty(source, name)
    try:
        with soundfile.SoundFile(str(source) if isinstance(source, Path) else source) as file:
            rate_hz, declared = file.samplerate, file.frames
            samples = file.read(dtype="int16" if file.subtype == "PCM_16" else "float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise UserError(f"{name}: not audio that libsndfile reads ({_reason(error)}); convert it") from None
    if len(samples) < declared:
        raise UserError(
            f"{name}: cut off: its header declares {declared / rate_hz:.2f} s, "
            f"{len(samples) / rate_hz:.2f} s are there; copy it again"
        )
    waveform = resample(_mix_down(samples), rate_hz)
    if len(waveform) < WINDOW_SAMPLES:
        raise UserError(
            f"{name}: {len(waveform)} samples at 16 kHz, expected at least {WINDOW_SAMPLES} (25 ms); leave it out"
        )
    return waveform


def audio_duration_s(path: Path) -> float:
    """Seconds of audio by the file's header, which is all that is read.

    Raises:
        UserError: the file is missing, empty or not audio.
    """
    _refuse_empty(path, str(path))
    try:
        info = soundfile.info(str(path))
    except (soundfile.LibsndfileError, RuntimeError) as error:
        raise UserError(f"{path}: not audio that libsndfile reads ({_reason(error)}); convert it") from None
    return float(info.frames / info.samplerate)


def resample(waveform: Waveform | npt.NDArray[np.float32], rate_hz: int) -> Waveform:
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


def to_int16(waveform: npt.NDArray[np.generic]) -> Waveform:
    """Round and clip samples that are on the int16 scale."""
    if waveform.dtype == np.int16:
        return waveform.astype(np.int16, copy=False)
    return np.clip(np.rint(waveform), -32768, 32767).astype(np.int16)


def write_wav(path: Path, waveform: Waveform) -> None:
    """Write 16 kHz mono 16-bit WAV."""
    soundfile.write(str(path), waveform, SAMPLE_RATE_HZ, subtype="PCM_16")


def _mix_down(samples: npt.NDArray[np.generic]) -> Waveform | npt.NDArray[np.float32]:
    """(S, channels) -> (S,), on the int16 scale: the mean of the channels."""
    if samples.dtype == np.int16:
        if samples.shape[1] == 1:
            return samples[:, 0].astype(np.int16, copy=False)
        return samples.mean(axis=1, dtype=np.float32)
    return (samples.mean(axis=1, dtype=np.float32) * INT16_SCALE).astype(np.float32)


def _refuse_empty(source: AudioSource, name: str) -> None:
    if not isinstance(source, str | Path):
        return
    path = Path(source)
    if not path.exists():
        raise UserError(f"{name}: no such file")
    if path.is_dir():
        raise UserError(f"{name}: a folder, expected an audio file")
    if path.stat().st_size == 0:
        raise UserError(f"{name}: empty file; copy or record it again")


def _name(source: AudioSource) -> str:
    return str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "audio stream"))


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", error)).strip().rstrip(".").lower()
