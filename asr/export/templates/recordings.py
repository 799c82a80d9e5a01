"""Read recordings of any rate and container, and cut long ones at their pauses; needs NumPy and soundfile."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
from containers import cut_off_reason, whole_audio, without_tags  # type: ignore[import-not-found]
from formats import conversion  # type: ignore[import-not-found]
from mixing import MIXED_AT_ONCE, float_reason, mixed_down  # type: ignore[import-not-found]
from paths import path_on_disk  # type: ignore[import-not-found]
from wav import RATES_HZ, checked_wav, read_plain  # type: ignore[import-not-found]

RATE_HZ = 16000
SHORTEST = 400  # samples: 25 ms

Waveform = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]


class RecordingError(Exception):
    """A recording cannot be read; the message names it."""


def read_recording(path: str) -> Waveform:
    """Read a recording, mix its channels down, and resample it to 16 kHz.

    Args:
        path: of a file in any format of libsndfile (WAV, FLAC, Ogg, MP3, ...); "-" for standard input. The
            error for another names the command that converts it.

    Returns:
        (S,) int16 samples, at least 400.

    Raises:
        RecordingError: there is no such file, or it is empty, broken, not audio, or too short.
    """
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path_on_disk(path)).read_bytes()
    except OSError as error:
        raise RecordingError(f"{path}: cannot read this file ({error.strerror})") from None
    if not data:
        raise RecordingError(f"{path}: empty file; copy or record it again")
    waveform = _decoded(io.BytesIO(data), path)
    if len(waveform) < SHORTEST:
        raise RecordingError(
            f"{path}: expected at least {SHORTEST} samples at 16 kHz (25 ms), received {len(waveform)}"
        )
    return waveform


def _decoded(stream: BinaryIO, path: str) -> Waveform:
    stream = without_tags(stream)
    wav, reason = checked_wav(stream)
    if reason:
        raise RecordingError(f"{path}: {reason}")
    samples, rate_hz = (read_plain(stream, wav), wav.rate_hz) if wav and wav.is_plain else _read(stream, path)
    blocks = [samples[begin : begin + MIXED_AT_ONCE] for begin in range(0, len(samples), MIXED_AT_ONCE)]
    if reason := next(filter(None, map(float_reason, blocks)), ""):
        raise RecordingError(f"{path}: {reason}")
    mono = np.concatenate([mixed_down(block, rate_hz) for block in blocks or [samples]])
    return to_int16(resampled(mono, rate_hz))


def _read(stream: BinaryIO, path: str) -> tuple[npt.NDArray[Any], int]:
    """Decode a whole file with libsndfile to (S, channels) samples, and return them with their rate."""
    whole = whole_audio(stream)
    if whole.reason:
        raise RecordingError(f"{path}: {whole.reason}")
    whole.stream.seek(0)
    try:
        file = soundfile.SoundFile(whole.stream)
    except (soundfile.LibsndfileError, TypeError) as error:
        raise RecordingError(
            f"{path}: not audio that libsndfile reads ({_reason(error)}); convert it: {conversion(path)}"
        ) from None
    with file:
        num_frames, rate_hz = file.frames, file.samplerate
        try:
            samples = file.read(dtype="int16" if file.subtype == "PCM_16" else "float32", always_2d=True)
        except (soundfile.LibsndfileError, ValueError) as error:
            raise RecordingError(
                f"{path}: broken after its header ({_reason(error)}); copy it again, or convert it: "
                f"{conversion(path)}"
            ) from None
    if len(samples) < num_frames:
        raise RecordingError(f"{path}: {cut_off_reason(num_frames / rate_hz, len(samples) / rate_hz)}")
    if not RATES_HZ[0] <= rate_hz <= RATES_HZ[1]:
        raise RecordingError(
            f"{path}: expected a sample rate of {RATES_HZ[0]} to {RATES_HZ[1]} Hz, received {rate_hz}"
        )
    return samples, rate_hz


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", error)).strip().rstrip(".").lower()


def to_int16(samples: npt.NDArray[Any]) -> Waveform:
    """Round samples on the int16 scale, and clip them."""
    rounded: Waveform = np.clip(np.rint(samples), -32768, 32767).astype(np.int16)
    return rounded


def resampled(samples: npt.NDArray[Any], rate_hz: int) -> npt.NDArray[Any]:
    """Return samples (S,) at 16 kHz, by a polyphase filter as in `scipy.signal.resample_poly`."""
    if rate_hz == RATE_HZ:
        return samples
    divisor = math.gcd(rate_hz, RATE_HZ)
    up, down = RATE_HZ // divisor, rate_hz // divisor
    side = 10 * max(up, down)  # half the length of the low-pass filter
    places = np.arange(-side, side + 1)
    taps = np.sinc(places / max(up, down)) * np.kaiser(2 * side + 1, 5.0)
    taps *= up / taps.sum()
    num_out = -(-len(samples) * up // down)
    # output m is the sum over n of samples[n] * taps[m * down - n * up + side]
    num_taps = 2 * side // up + 1
    padded = np.pad(samples.astype(np.float32), (num_taps, num_taps + down))
    windows = np.lib.stride_tricks.sliding_window_view(padded, num_taps)
    found = np.empty(num_out, np.float32)
    for phase in range(min(up, num_out)):  # outputs phase, phase + up, ... share their taps
        last = (phase * down + side) // up  # the last sample that the first of them needs
        own = taps[phase * down + side - last * up :: up][:num_taps]
        own = np.pad(own, (0, num_taps - len(own)))[::-1].astype(np.float32)
        outputs = found[phase::up]
        first = last - num_taps + 1 + num_taps  # within `padded`
        outputs[:] = windows[first::down][: len(outputs)] @ own
    return found


# Pauses. A frame of 10 ms is speech if its bands exceed the noise around it on average; each band has its own
# noise level, the 10th percentile of the frames nearby.
FRAME = 160  # samples
NUM_BANDS = 12
EDGES_HZ = 700 * np.expm1(np.linspace(np.log1p(120 / 700), np.log1p(5000 / 700), NUM_BANDS + 1))
BAND_BINS = np.searchsorted(np.linspace(0, RATE_HZ / 2, 257), EDGES_HZ)
SPEECH_DB, MAX_BAND_DB, DYNAMIC_DB, MIN_POWER = 2.5, 10.0, 40.0, 1e3
BLOCK_FRAMES = 3000  # noise is estimated over a block of 30 s and its neighbours
SHORT_GAP, LONGEST_PIECE = 20, 2500  # frames
# the shortest pause that ends a piece, and what the piece keeps of it, in frames
BRIEF, ROOMY = (30, 10), (60, 30)

# recordings are cut if they are longer than WHOLE_S, or than ALWAYS_WHOLE_S with a pause of LONG_PAUSE_S
WHOLE_S, ALWAYS_WHOLE_S, LONG_PAUSE_S = 20.0, 4.0, 0.8


class Piece(NamedTuple):
    """A part of a recording that begins at sample `begin`."""

    begin: int
    waveform: Waveform


def pieces(waveform: Waveform, ignores_silence: bool = False) -> list[Piece]:
    """Return what to recognize at once: a short recording as it is, others cut at their pauses.

    Args:
        waveform: (S,) at 16 kHz.
        ignores_silence: as `model.json` says; pauses in a short recording then do not matter.
    """
    duration_s = len(waveform) / RATE_HZ
    if duration_s <= (WHOLE_S if ignores_silence else ALWAYS_WHOLE_S):
        return [Piece(0, waveform)]
    found = list(_speech_pieces(waveform, *(ROOMY if ignores_silence else BRIEF)))
    ends = [0, *(piece.begin + len(piece.waveform) for piece in found)]
    longest_pause_s = max(np.subtract([*(piece.begin for piece in found), len(waveform)], ends)) / RATE_HZ
    if duration_s <= WHOLE_S and longest_pause_s <= LONG_PAUSE_S:
        return [Piece(0, waveform)]
    return found


def _speech_pieces(waveform: Waveform, pause: int, margin: int) -> Iterator[Piece]:
    """Yield the stretches of speech between pauses; one longer than 25 s is cut in its longest gap."""
    speech = _speech_flags(waveform)
    spoken = np.flatnonzero(speech)
    starts = np.flatnonzero(np.diff(spoken, prepend=-pause - 2) > pause)
    end = 0
    for place, following in zip(starts, [*starts[1:], len(spoken)], strict=True):
        first, last = int(spoken[place]), int(spoken[following - 1])
        begin = 0 if end == 0 and first <= pause else max(end, first - margin)
        while last + 1 - begin > LONGEST_PIECE:
            half, most = begin + LONGEST_PIECE // 2, begin + LONGEST_PIECE - 200
            end = half + _longest_gap(speech[half:most])
            yield Piece(begin * FRAME, waveform[begin * FRAME : end * FRAME])
            begin = end
        at_end = following == len(spoken) and len(speech) - 1 - last <= pause
        end = len(speech) if at_end else last + 1 + margin
        yield Piece(begin * FRAME, waveform[begin * FRAME : end * FRAME])


def _speech_flags(waveform: Waveform) -> Flags:
    powers = _band_powers(waveform)
    if len(powers) <= 2 * BLOCK_FRAMES:
        return _speech_by_powers(powers)
    flags = []
    for begin in range(0, len(powers), BLOCK_FRAMES):
        first = max(0, begin - BLOCK_FRAMES)
        around = _speech_by_powers(powers[first : begin + 2 * BLOCK_FRAMES])
        flags.append(around[begin - first :][:BLOCK_FRAMES])
    return np.concatenate(flags)


def _band_powers(waveform: Waveform) -> npt.NDArray[np.float32]:
    """Return the (T, bands) powers of each frame, in a window of 25 ms around it."""
    num_frames = -(-len(waveform) // FRAME)
    side = (SHORTEST - FRAME) // 2
    padded = np.pad(waveform, (side, side + num_frames * FRAME - len(waveform)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, SHORTEST)[::FRAME]
    shape = np.hanning(SHORTEST).astype(np.float32)
    parts = []
    for first in range(0, num_frames, 1000):
        spectra = np.fft.rfft(windows[first : first + 1000] * shape, 512)
        powers = np.square(spectra.real) + np.square(spectra.imag)
        parts.append(np.add.reduceat(powers, BAND_BINS, axis=1)[:, :NUM_BANDS])
    return np.concatenate(parts)


def _speech_by_powers(powers: npt.NDArray[np.float32]) -> Flags:
    padded = np.pad(powers, ((4, 4), (0, 0)), mode="edge")
    smooth = np.lib.stride_tricks.sliding_window_view(padded, 9, axis=0).mean(axis=2)
    levels = 10 * np.log10(smooth + MIN_POWER)
    noise, loud = np.percentile(levels, [10.0, 99.5], axis=0)
    above = np.clip(levels - np.maximum(noise, loud - DYNAMIC_DB), 0, MAX_BAND_DB).mean(axis=1)
    speech: Flags = above > SPEECH_DB
    spoken = np.flatnonzero(speech)
    for place in np.flatnonzero(np.diff(spoken) <= SHORT_GAP):  # closures of stop consonants
        speech[spoken[place] : spoken[place + 1]] = True
    return speech


def _longest_gap(speech: Flags) -> int:
    """Return the middle of the longest gap, or the end where there is none."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], speech, [True]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return len(speech)
    longest = int(np.argmax(ends - begins))
    return int(begins[longest] + ends[longest]) // 2
