"""Says any text that espeak reads, at 16 kHz."""

from __future__ import annotations

import ctypes

import numpy as np

from asr.audio.recording import Waveform, resample
from data_pipeline.recordings.synthesis import (
    PHONEMES,
    PITCH,
    POS_CHARACTER,
    RATE,
    SILENCE_SAMPLES,
    UTF8,
    Synthesizer,
)


class Voice(Synthesizer):
    """A voice of espeak, in any of its languages.

    Args:
        language: name of the voice, such as "en-us".
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def say_text(self, text: str, rate_wpm: int, pitch: int, variant: str) -> Waveform:
        """Return a text as speech, with 0.1 s of silence around it."""
        self._call("espeak_SetVoiceByName", f"{self._language}+{variant}".encode())
        self._call("espeak_SetParameter", RATE, rate_wpm, 0)
        self._call("espeak_SetParameter", PITCH, pitch, 0)
        self._samples.clear()
        size, flags = ctypes.c_size_t(len(text.encode()) + 1), UTF8 | PHONEMES
        self._call("espeak_Synth", text.encode(), size, 0, POS_CHARACTER, 0, flags, None, None)
        self._call("espeak_Synchronize")
        speech = resample(np.frombuffer(bytes(self._samples), np.int16), self._rate_hz)
        silence = np.zeros(SILENCE_SAMPLES, np.int16)
        return np.concatenate([silence, speech, silence])

    def spelled(self, syllable: str) -> str:
        """Return a toned syllable as this voice reads it."""
        return self._spell(syllable)
