"""Open a recording to be recognized: short clips are read at once, long recordings piece by piece.

Models are trained on sentences, so recordings that are longer or have long pauses are cut at the pauses.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, AudioSource, Waveform, read_audio, read_short_audio
from asr.audio.voice_activity import speech_pieces
from asr.base.system.paths import path_on_disk
from asr.base.system.storage.address import Address, path_of

LONG_S = 60.0  # longer files are not read into memory as a whole
# clips are not cut up to ALWAYS_WHOLE_S, nor up to WHOLE_S if all pauses are shorter than PAUSE_S
WHOLE_S, ALWAYS_WHOLE_S, PAUSE_S = 20.0, 4.0, 0.8


class LongRecording(NamedTuple):
    """A recording to be recognized piece by piece."""

    source: AudioSource | Waveform


Opened: TypeAlias = Waveform | LongRecording


def open_recording(source: AudioSource, pauses_matter: bool = True) -> Opened:
    """Open a recording: return the samples of a short one, a `LongRecording` otherwise.

    Args:
        source: a path, or a binary file object.
        pauses_matter: whether a pause in a short recording makes a `LongRecording` of it.

    Raises:
        UserError: it is not an audio file that can be read.
    """
    # a pipe can be read only once
    if not isinstance(source, str | Path):
        return opened(read_audio(source), pauses_matter)
    path = path_of(path_on_disk(str(source)))
    if not isinstance(path, Address) and not path.is_file():
        return opened(read_audio(source), pauses_matter)
    waveform = read_short_audio(path, LONG_S)
    return LongRecording(path) if waveform is None else opened(waveform, pauses_matter)


def opened(waveform: Waveform, pauses_matter: bool = True) -> Opened:
    """Return what `open_recording` returns for a file with these samples, (S,) int16 at 16 kHz."""
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    always_whole_s = ALWAYS_WHOLE_S if pauses_matter else WHOLE_S
    in_pieces = duration_s > WHOLE_S or (duration_s > always_whole_s and longest_pause_s(waveform) > PAUSE_S)
    return LongRecording(waveform) if in_pieces else waveform


def longest_pause_s(waveform: Waveform) -> float:
    """Return the longest time without speech, in seconds.

    Args:
        waveform: (S,) int16 at 16 kHz.
    """
    pieces = list(speech_pieces([waveform], grid=1))
    begins = [piece.begin for piece in pieces]
    ends = [piece.begin + len(piece.waveform) for piece in pieces]
    return float(np.max(np.subtract([*begins, len(waveform)], [0, *ends]))) / SAMPLE_RATE_HZ
