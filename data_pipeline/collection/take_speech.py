"""Finds the speech of a raw take: a person pressed a key, waited, spoke, and pressed the key again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asr.audio.recording import FRAME_SAMPLES, SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform, resample, to_int16
from asr.audio.speech_level import active_power
from asr.audio.voice_activity import speech_frames, stretches

LOWEST_HZ = 70.0  # below speech are hum, rumble, and a constant offset
QUIET_S = 0.09  # the least lead-in; closures of stop consonants are shorter
CLICK_S = 0.06  # the click of the key may come before it
LEAD_DB, TAIL_DB = -26.0, -20.0  # of quiet, relative to the speech; in a room, the end of speech fades
ABOVE_NOISE_DB = 8.0  # the noise is the quietest tenth, if a take has so much of it: it is no louder than
NOISE_PERCENTILE, LOUDEST_NOISE_DB = 10.0, -14.0  # this, relative to the speech
CLICK_POWER = 0.01  # of its loudest frame: the frames above it are no longer than a click

Powers = npt.NDArray[np.float64]


class TakeSpeech(NamedTuple):
    """Where the speech of a take is.

    Attributes:
        waveform: (S,) int16, the take at 16 kHz without hum, offset, and digital silence at its ends.
        dropped: samples of the take, at its rate, before the waveform.
        begin: the first sample of the speech in the waveform.
        end: the sample after its last one; `begin` if there is no speech.
        has_lead: whether it is quiet before the speech; else its beginning is cut off.
        has_tail: whether it is quiet after the speech.
    """

    waveform: Waveform
    dropped: int
    begin: int
    end: int
    has_lead: bool
    has_tail: bool

    @property
    def spoken(self) -> npt.NDArray[np.float32]:
        """Return the samples of the speech."""
        return self.waveform[self.begin : self.end].astype(np.float32)


def speech_of_take(samples: Waveform, sample_rate_hz: int) -> TakeSpeech:
    """Return the speech of a take.

    Args:
        samples: (S,) as the microphone gave them.
        sample_rate_hz: sample rate of the samples.
    """
    # some devices begin with exact zeros; they would be the lowest noise of all
    before, after = _constant_ends(samples)
    waveform = _filtered(samples[before : len(samples) - after], sample_rate_hz)
    if len(waveform) < WINDOW_SAMPLES:
        return TakeSpeech(waveform, before, 0, 0, True, True)
    frames = waveform[: len(waveform) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    powers: Powers = np.square(frames, dtype=np.float64).mean(axis=1)
    lead, tail = _frames_before_quiet(powers, LEAD_DB), _frames_before_quiet(powers[::-1], TAIL_DB)
    inner = slice(lead or 0, len(powers) - (tail or 0))  # without the clicks at the ends
    runs = stretches(speech_frames(frames[inner].ravel()))
    runs = [run for run in runs if not _is_click(powers[inner][slice(*run)])]
    first, last = (runs[0][0], runs[-1][1]) if runs else (0, 0)
    return TakeSpeech(
        waveform,
        before,
        (inner.start + first) * FRAME_SAMPLES,
        (inner.start + last) * FRAME_SAMPLES,
        lead is not None or before >= QUIET_S * sample_rate_hz,
        tail is not None or after >= QUIET_S * sample_rate_hz,
    )


def _constant_ends(samples: Waveform) -> tuple[int, int]:
    """Return the number of equal samples at the beginning and at the end of a take."""
    changes = np.flatnonzero(np.diff(samples))
    if not len(changes):
        return len(samples), 0
    return int(changes[0]), len(samples) - 2 - int(changes[-1])


def _filtered(samples: Waveform, sample_rate_hz: int) -> Waveform:
    import scipy.signal

    if not len(samples):
        return samples
    waveform = resample(samples - np.float32(samples.mean()), sample_rate_hz)
    sections = scipy.signal.butter(2, LOWEST_HZ, "highpass", fs=SAMPLE_RATE_HZ, output="sos")
    # forwards and backwards, so that nothing moves
    return to_int16(scipy.signal.sosfiltfilt(sections, waveform.astype(np.float32), padlen=0))


def _frames_before_quiet(powers: Powers, quiet_db: float) -> int | None:
    """Return how many frames there are before the lead-in, no more than a click; None without a lead-in."""
    speech = active_power(powers)
    noise = float(np.percentile(powers, NOISE_PERCENTILE)) * 10 ** (ABOVE_NOISE_DB / 10)
    limit = max(speech * 10 ** (quiet_db / 10), min(noise, speech * 10 ** (LOUDEST_NOISE_DB / 10)))
    num_quiet, num_click = (round(s * SAMPLE_RATE_HZ / FRAME_SAMPLES) for s in (QUIET_S, CLICK_S))
    near = powers[: num_click + num_quiet] < limit
    for first in range(len(near) - num_quiet + 1):
        if near[first : first + num_quiet].all():
            return first
    return None


def _is_click(powers: Powers) -> bool:
    """Return whether a stretch of sound, (T,) frames, is too short for a syllable."""
    return int(np.sum(powers >= CLICK_POWER * powers.max())) * FRAME_SAMPLES <= CLICK_S * SAMPLE_RATE_HZ
