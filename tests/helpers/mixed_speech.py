"""Speech in Mandarin with Latin words, by espeak-ng: each part by the voice of its language."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from asr.audio.recording import Waveform, resample
from asr.base.text.mixed import mixed_words
from data_pipeline.labels.from_text import label
from data_pipeline.recordings.synthesis import PITCH, POS_CHARACTER, RATE, UTF8, VOICE, Synthesizer

ENGLISH = "en-us"


class MixedSynthesizer(Synthesizer):
    """Synthesizes what mixed labels say."""

    def say_text(self, text: str, *, rate_wpm: int = 175, pitch: int = 50, variant: str = "") -> Waveform:
        """Synthesize a sentence as it is labelled: letters by their names, other Latin words in English."""
        voice = {"rate_wpm": rate_wpm, "pitch": pitch, "variant": variant}
        parts, syllables = [], []
        tokens = label(text, "mixed")
        for word in [*mixed_words(tokens), None]:
            if word is not None and not word.is_latin:
                syllables.append(word.text)
                continue
            if syllables:
                self._call("espeak_SetVoiceByName", VOICE.encode())  # which knows the syllables
                parts.append(self.say(syllables, **voice))
                syllables = []
            if word is not None:
                parts.append(self._say_latin(tokens[word.begin : word.end], **voice))
        return np.concatenate(parts)

    def _say_latin(self, tokens: Sequence[str], *, rate_wpm: int, pitch: int, variant: str) -> Waveform:
        self._call("espeak_SetVoiceByName", (f"{ENGLISH}+{variant}" if variant else ENGLISH).encode())
        self._call("espeak_SetParameter", RATE, rate_wpm, 0)
        self._call("espeak_SetParameter", PITCH, pitch, 0)
        self._samples.clear()
        text = " ".join(token.removeprefix("▁") for token in tokens).encode()
        self._call(
            "espeak_Synth", text, ctypes.c_size_t(len(text) + 1), 0, POS_CHARACTER, 0, UTF8, None, None
        )
        self._call("espeak_Synchronize")
        return resample(np.frombuffer(bytes(self._samples), np.int16), self._rate_hz)
