"""Adds recorded or synthetic noise to speech at a given signal-to-noise ratio."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.fft

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, to_int16
from asr.audio.speech_level import active_power, frame_powers
from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from asr.base.system.storage.refusals import StorageError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.augment.sounds import (
    CACHE_BYTES,
    SoundCache,
    SoundPiece,
    check_sounds,
    cut_into_pieces,
    find_sounds,
    read_piece,
)

logger = logging.getLogger(__name__)

FADE_SAMPLES = 160  # 10 ms of cross-fade where a short noise repeats
EDGE_SAMPLES = 160  # cut off from synthetic noise, which is periodic: its end would continue in its beginning
LOWEST_NOISE_HZ = 50.0  # below it the power of synthetic noise is constant; it would be inaudible
SYNTHETIC_RMS = 1000.0  # on the int16 scale
MAX_UNREADABLE = 20  # pieces drawn in a row, until the error is raised

Samples = npt.NDArray[np.float32]


def add_noise(speech: Samples, noise: Samples, snr_db: float) -> Samples:
    """Add noise to speech at a signal-to-noise ratio, without changing the level of the speech.

    Silent noise leaves the speech unchanged, and silent speech gets no noise.

    Args:
        speech: (S,); its power is that of its active parts, so that pauses do not lower it.
        noise: (S,) on the int16 scale; its power is the mean over all samples.
        snr_db: ratio of these two powers.
    """
    power = _power(noise)
    if power < 1:  # below the last of 16 bits
        return speech
    speech_power = active_power(frame_powers(speech))
    return speech + noise * np.float32(math.sqrt(speech_power / power) * 10 ** (-snr_db / 20))


def _power(samples: Samples) -> float:
    return float(np.square(samples).mean(dtype=np.float64))


@dataclass(frozen=True)
class RecordedNoises:
    """Noise from recordings, each with the same probability, as is each minute of a long one."""

    pieces: list[SoundPiece]
    cache: SoundCache
    reported: set[Path] = field(default_factory=set)

    def draw(self, rng: np.random.Generator, num_samples: int) -> tuple[Samples, str]:
        """Draw a section of a recording, repeated if it is too short; return it and the file's name."""
        noise, name = self._draw_piece(rng)
        return cut_noise(noise, num_samples, rng.random()).astype(np.float32), name

    def _draw_piece(self, rng: np.random.Generator) -> tuple[Waveform, str]:
        """Draw until a piece can be read: the check before training does not decode long recordings."""
        errors: list[UserError] = []
        while len(errors) < MAX_UNREADABLE:
            piece = self.pieces[int(rng.integers(len(self.pieces)))]
            try:
                return self.cache.get(piece), piece.path.name
            except StorageError:
                raise
            except UserError as error:
                errors.append(error)
            if piece.path not in self.reported:
                self.reported.add(piece.path)
                logger.warning("augment.noise: %s; other noise is drawn", errors[-1])
        raise errors[-1]


class ColouredNoises:
    """Gaussian noise, the power of which falls by 0 (white) to 6 dB (brown) per octave; 3 dB is pink."""

    def draw(self, rng: np.random.Generator, num_samples: int) -> tuple[Samples, str]:
        """Draw a slope and noise of that slope; return the noise and the slope's description."""
        slope = rng.random()
        length = scipy.fft.next_fast_len(num_samples + EDGE_SAMPLES, real=True)
        bins = rng.standard_normal((length // 2 + 1, 2), np.float32).view(np.complex64)[:, 0]
        frequencies_hz = np.arange(len(bins), dtype=np.float32) * np.float32(SAMPLE_RATE_HZ / length)
        bins *= np.maximum(frequencies_hz / np.float32(LOWEST_NOISE_HZ), 1) ** np.float32(-slope)
        noise: Samples = scipy.fft.irfft(bins, length)[:num_samples]
        return noise * np.float32(SYNTHETIC_RMS / math.sqrt(_power(noise))), f"{-6.02 * slope:.1f} dB/octave"


def cut_noise(noise: Waveform, num_samples: int, position: float) -> Waveform:
    """Return a section of a noise; a shorter noise is repeated, its end faded into its beginning.

    Args:
        noise: (N,) int16.
        num_samples: length of the section.
        position: where the section begins, 0 to 1.
    """
    if len(noise) >= num_samples:
        start = int(position * (len(noise) - num_samples + 1))
        return noise[start : start + num_samples]
    num_faded = min(FADE_SAMPLES, len(noise) // 2)
    angle = np.linspace(
        0, np.pi / 2, num_faded, dtype=np.float32
    )  # squares of sine and cosine add up to 1: constant power
    period = noise[: len(noise) - num_faded].copy()
    period[:num_faded] = to_int16(period[:num_faded] * np.sin(angle) + noise[-num_faded:] * np.cos(angle))
    return np.resize(np.roll(period, -int(position * len(period))), num_samples)


Noises: TypeAlias = RecordedNoises | ColouredNoises


def find_noises(where: str, on_progress: OnProgress = ignore_progress) -> Noises | None:
    """Return the source of noise that `augment.noise` names; None for "".

    Args:
        where: "coloured", a folder or a manifest.
        on_progress: receives the number of recordings checked.

    Raises:
        UserError: there is no such folder or manifest, or a recording cannot be read.
    """
    if not where:
        return None
    if where == "coloured":
        return ColouredNoises()
    paths = find_sounds(path_of(where), "augment.noise", built_in="coloured")
    pieces = cut_into_pieces(paths, check_sounds(paths, "augment.noise", on_progress=on_progress))
    return RecordedNoises(pieces, SoundCache(read_piece, CACHE_BYTES))
