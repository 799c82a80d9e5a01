"""Finds the recordings that augmentation uses, checks them before training, and reads them in pieces."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.signal

from asr.audio.formats import AUDIO_SUFFIXES
from asr.audio.recording import (
    INT16_SCALE,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    Waveform,
    audio_duration_s,
    read_part,
    refuse_pipe,
    resample,
)
from asr.base.errors import UserError
from asr.base.system.files import read_lines
from asr.base.system.shards import has_manifest, shards_of
from asr.base.system.storage.address import Address, is_address, path_of
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import files_below
from data_pipeline.work import in_parallel

CACHE_BYTES = 256 << 20
PIECE_S = 60.0  # length of the pieces in which a long recording is drawn from and kept in memory
LONGEST_RESPONSE_S = 2.0
ONSET_SHARE = 0.3  # of the highest peak: the direct sound is the first sample above it, echoes may be louder


@dataclass(frozen=True)
class SoundPiece:
    """A part of a recording: at most `PIECE_S` seconds from `begin_s` on."""

    path: Path
    begin_s: float = 0.0


class SoundCache:
    """A cache of sounds up to a number of bytes, which drops the least recently used one first.

    Safe to use from several threads: two that need the same missing sound at once both read it.
    """

    def __init__(self, read: Callable[[SoundPiece], npt.NDArray[Any]], max_bytes: int) -> None:
        self._read, self._max_bytes = read, max_bytes
        self._kept: OrderedDict[SoundPiece, npt.NDArray[Any]] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def get(self, piece: SoundPiece) -> npt.NDArray[Any]:
        """Return the sound of a piece, read-only."""
        with self._lock:
            if piece in self._kept:
                self._kept.move_to_end(piece)
                return self._kept[piece]
        sound = self._read(piece)
        sound.flags.writeable = False
        with self._lock:
            if piece not in self._kept:
                self._kept[piece] = sound
                self._num_bytes += sound.nbytes
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= self._kept.popitem(last=False)[1].nbytes
        return sound


def find_sounds(where: Path, key: str, built_in: str) -> list[Path]:
    """Return the audio files of a folder, in the order of their names, or of a manifest, in its order.

    Args:
        where: the folder or the manifest; or a single audio file.
        key: the configuration key that names it, for errors.
        built_in: the other value that the key takes, for errors.

    Raises:
        UserError: the path does not exist, it has no audio, or a line of the manifest names none.
    """
    if isinstance(where, Address) and where.is_dir():
        paths = [path for path in where.rglob() if path.name.lower().endswith(AUDIO_SUFFIXES)]
    elif where.is_dir():
        paths = list(files_below(where, AUDIO_SUFFIXES))
    elif where.name.lower().endswith(AUDIO_SUFFIXES) and where.exists():
        paths = [where]
    elif has_manifest(where):
        paths = [
            _audio_path(shard, number, line)
            for shard in shards_of(where)
            for number, line in enumerate(read_lines(shard, "manifest"), 1)
            if line.strip()
        ]
    else:
        raise UserError(f'{key}: {where}: no such folder or manifest; "{built_in}" is built in')
    if not paths:
        raise UserError(
            f"{key}: {where}: no audio found; expected files such as *.wav or *.flac, or a manifest"
        )
    return paths


def _audio_path(manifest: Path, number: int, line: str) -> Path:
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError, UnicodeDecodeError):
        record = None
    audio = record.get("audio") if isinstance(record, dict) else None
    if not isinstance(audio, str):
        raise UserError(
            f'{manifest}:{number}: expected a JSON object with an audio path, {{"audio": "a.wav"}}, '
            f"received {line[:40]!r}"
        )
    return path_of(audio) if is_address(audio) else manifest.parent / audio


def check_sounds(
    paths: list[Path],
    key: str,
    read: Callable[[SoundPiece], object] | None = None,
    on_progress: OnProgress = ignore_progress,
) -> list[float]:
    """Check recordings by their headers and ends, and return the duration of each in seconds.

    Args:
        paths: paths of the recordings.
        key: the configuration key that names them, for errors.
        read: a function that must be able to read each of them as well.
        on_progress: receives the number of recordings checked.

    Raises:
        UserError: a recording cannot be read or is shorter than 25 ms; the first is named, others counted.
    """

    def check(path: Path) -> float | str:
        try:
            refuse_pipe(path)
            duration_s = audio_duration_s(path)
            if read:
                read(SoundPiece(path))
        except UserError as error:
            return str(error)
        if round(duration_s * SAMPLE_RATE_HZ) >= WINDOW_SAMPLES:
            return duration_s
        return f"{path}: expected at least 25 ms of audio, received {duration_s * 1000:.1f} ms; leave it out"

    checked = list(in_parallel(check, paths, key, at_once=1, on_progress=on_progress))
    broken = [result for result in checked if isinstance(result, str)]
    if broken:
        more = f" ({len(broken) - 1} more of {len(paths)} files are broken)" * (len(broken) > 1)
        raise UserError(f"{key}: {broken[0]}{more}")
    return [result for result in checked if isinstance(result, float)]


def cut_into_pieces(paths: list[Path], durations_s: list[float]) -> list[SoundPiece]:
    """Split recordings into pieces of at most `PIECE_S`; a remainder under 25 ms is dropped."""
    shortest_s = WINDOW_SAMPLES / SAMPLE_RATE_HZ
    return [
        SoundPiece(path, number * PIECE_S)
        for path, duration_s in zip(paths, durations_s, strict=True)
        for number in range(max(1, math.ceil((duration_s - shortest_s) / PIECE_S)))
    ]


def read_piece(piece: SoundPiece) -> Waveform:
    """Read a piece as (S,) int16 at 16 kHz, the mean of its channels.

    Raises:
        UserError: the piece cannot be read.
    """
    samples, rate_hz = _read(piece, PIECE_S)
    mono: npt.NDArray[np.float32] = samples.mean(axis=1, dtype=np.float32)
    return resample(mono * np.float32(INT16_SCALE), rate_hz)


def read_response(piece: SoundPiece) -> npt.NDArray[np.float32]:
    """Read an impulse response from the direct sound on, for two seconds at most: (N,) at 16 kHz.

    Uses the first channel, since the mean of several microphones is a comb filter, and floating-point
    samples, since a quiet response would lose its tail in 16 bits.

    Raises:
        UserError: the file can no longer be read, or it is silent.
    """
    samples, rate_hz = _read(piece, PIECE_S)
    divisor = math.gcd(rate_hz, SAMPLE_RATE_HZ)
    first = samples[:, 0]
    response = scipy.signal.resample_poly(first, SAMPLE_RATE_HZ // divisor, rate_hz // divisor)
    loudness = np.abs(response)
    peak = loudness.max()
    if peak == 0:
        raise UserError(f"{piece.path}: expected an impulse response, received silence; leave it out")
    onset = int(np.argmax(loudness >= ONSET_SHARE * peak))
    last = onset + round(LONGEST_RESPONSE_S * SAMPLE_RATE_HZ)
    cut: npt.NDArray[np.float32] = (response[onset:last] / peak).astype(np.float32)
    return cut


def _read(piece: SoundPiece, longest_s: float) -> tuple[npt.NDArray[np.float32], int]:
    """Return the samples of a piece, (S, channels), and their rate in Hz."""
    samples, rate_hz = read_part(piece.path, piece.begin_s, longest_s)
    if not len(samples):
        raise UserError(
            f"{piece.path}: ends before {piece.begin_s:g} s, contrary to its header; convert it again"
        )
    return np.nan_to_num(samples, posinf=0.0, neginf=0.0), rate_hz
