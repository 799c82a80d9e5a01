"""Sends clips through what is between a speaker and a server: telephone lines, MP3, and Opus as in calls.

    waveform, name = through_channel(waveform, rng)

A telephone carries 300 to 3,400 Hz in 8 bits (ITU-T G.711); a codec at a low rate loses what is above 4 to
6 kHz and adds sounds of its own. The codecs are those of libsndfile: LAME and libopus.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ, Waveform, encoded, to_int16

TELEPHONE_HZ = 8000
TELEPHONE_BAND_HZ = (300.0, 3400.0)
MU = 255  # of the µ-law
MP3_LEVEL = (0.8, 0.96)  # libsndfile's compression level: 43 to 17 kbit/s
MP3_DELAY = 1105  # samples: of an encoder (576) and a decoder (529), which files of low rates do not state
OPUS_LEVEL = (0.94, 1.0)  # 20 to 6 kbit/s

Channel = Callable[[Waveform, np.random.Generator], tuple[Waveform, str]]


def through_channel(waveform: Waveform, rng: np.random.Generator) -> tuple[Waveform, str]:
    """Return a clip as it arrives through a channel drawn at random, and the channel's name.

    Args:
        waveform: (S,) int16 at 16 kHz.
        rng: of what is drawn.

    Returns:
        (S,) int16, without delay.
    """
    channel = CHANNELS[int(rng.integers(len(CHANNELS)))]
    changed, name = channel(waveform, rng)
    return np.pad(changed, (0, max(0, len(waveform) - len(changed))))[: len(waveform)], name


def through_telephone(waveform: Waveform, rng: np.random.Generator) -> tuple[Waveform, str]:
    """Return a clip at 8 kHz, in half of the cases as a line of G.711 carries it."""
    narrow = soxr.resample(waveform.astype(np.float32), SAMPLE_RATE_HZ, TELEPHONE_HZ)
    is_line = rng.random() < 0.5
    if is_line:
        narrow = companded(in_band(narrow))
    wide = soxr.resample(narrow, TELEPHONE_HZ, SAMPLE_RATE_HZ)
    return to_int16(wide), "telephone" if is_line else "8 kHz"


def in_band(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return what a telephone line carries of a clip at 8 kHz."""
    import scipy.signal

    sections = scipy.signal.butter(4, TELEPHONE_BAND_HZ, "bandpass", fs=TELEPHONE_HZ, output="sos")
    found: npt.NDArray[np.float32] = scipy.signal.sosfilt(sections, samples).astype(np.float32)
    return found


def companded(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return samples, on the int16 scale, in the 256 steps of the µ-law."""
    level = np.clip(np.abs(samples) / INT16_SCALE, 0.0, 1.0)
    steps = np.round(np.log1p(MU * level) / math.log1p(MU) * 127) / 127
    found: npt.NDArray[np.float32] = np.copysign(np.expm1(steps * math.log1p(MU)) / MU, samples)
    return (found * INT16_SCALE).astype(np.float32)


def through_mp3(waveform: Waveform, rng: np.random.Generator) -> tuple[Waveform, str]:
    """Return a clip as MP3 of a low constant rate makes it."""
    decoded, rate = _coded(
        waveform, "MP3", "MPEG_LAYER_III", compression_level=rng.uniform(*MP3_LEVEL), bitrate_mode="CONSTANT"
    )
    delay = MP3_DELAY if len(decoded) > len(waveform) else 0
    return decoded[delay:], f"MP3 {rate:.0f} kbit/s"


def through_opus(waveform: Waveform, rng: np.random.Generator) -> tuple[Waveform, str]:
    """Return a clip as Opus of a low rate makes it."""
    decoded, rate = _coded(waveform, "OGG", "OPUS", compression_level=rng.uniform(*OPUS_LEVEL))
    return decoded, f"Opus {rate:.0f} kbit/s"


def _coded(waveform: Waveform, container: str, codec: str, **options: object) -> tuple[Waveform, float]:
    """Return a clip encoded and decoded, and the rate in kbit/s."""
    content = encoded(waveform, SAMPLE_RATE_HZ, container, codec, **options)
    decoded, _ = soundfile.read(io.BytesIO(content), dtype="int16")
    return decoded, 8 * len(content) * SAMPLE_RATE_HZ / len(waveform) / 1000


CHANNELS: tuple[Channel, ...] = (through_telephone, through_mp3, through_opus)
