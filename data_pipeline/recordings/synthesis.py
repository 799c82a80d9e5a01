"""Synthesize speech from toned pinyin, with a manifest, by espeak-ng (in the PyPI wheel espeakng-loader).

    from data_pipeline.recordings.synthesis import synthesize_corpus
    manifest = synthesize_corpus(Path("data/espeak"), num_utterances=1000, seed=0)

espeak-ng is a formant synthesizer: clear, monotonous, reproducible. It is good for tests and for comparing
settings but does not replace recordings. It says tones as written, without the tone sandhi of real speech.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, resample, write_wav
from asr.base.errors import UserError
from asr.base.text.pinyin import mandarin_syllables
from asr.base.types import Utterance
from asr.base.work import OnProgress, ignore_progress, reported
from data_pipeline.manifests.manifest import write_manifest

VOICE = "cmn-latn-pinyin"
VARIANTS = ("", *(f"f{i}" for i in range(1, 6)), *(f"m{i}" for i in range(1, 9)))  # "" is the default voice
RATES_WPM = (80, 450)  # that espeak accepts
PITCHES = (0, 100)
DRAWN_RATES_WPM = (130, 260)  # 2.5 to 5 syllables a second
DRAWN_PITCHES = (20, 80)  # 0.75 to 1.4 times the voice's own
DRAWN_LENGTHS = (2, 10)  # syllables of an utterance
SILENCE_SAMPLES = SAMPLE_RATE_HZ // 10

# espeak-ng 1.52 does not know jiong, qiong and xiong and reads them in English: they are given as phonemes
IONG_INITIALS = {"j": "tS;j", "q": "tS;hj", "x": "S;j"}
CONTOURS = {"1": "55", "2": "35", "3": "214", "4": "51", "5": "11"}  # as espeak's phonemes write a tone

# constants of speak_lib.h
AUDIO_OUTPUT_SYNCHRONOUS, DONT_EXIT = 2, 0x8000
RATE, PITCH = 1, 3
POS_CHARACTER = 1
UTF8, PHONEMES = 1, 0x100
SYNTH_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Synthesizer:
    """A synthesizer of speech from toned pinyin.

    espeak keeps its state in globals of its library, and the phase of its pitch flutter cannot be reset. Each
    Synthesizer therefore loads its own copy (3 MB, until the process ends): two do not affect each other, and
    the same calls in the same order give the same samples in any process. Repeating a call does not. Only one
    thread at a time may use a Synthesizer.

    Raises:
        UserError: the package espeakng-loader is missing, or espeak does not start.
    """

    def __init__(self) -> None:
        try:
            import espeakng_loader
        except ImportError:
            raise UserError(
                'speech synthesis needs espeak-ng; install it with: pip install "polyphone[synthesize]"'
            ) from None
        self._data = Path(espeakng_loader.get_data_path())
        self._library = _load_copy(Path(espeakng_loader.get_library_path()))
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._rate_hz = int(
            self._library.espeak_Initialize(AUDIO_OUTPUT_SYNCHRONOUS, 0, os.fsencode(self._data), DONT_EXIT)
        )
        if self._rate_hz <= 0:
            raise UserError(
                f"espeak_Initialize: no voices in {self._data} (espeak accepts paths up to 170 characters); "
                "install espeakng-loader again, in a folder with a shorter path"
            )
        # espeak seeds the noise of breathy variants with the time of day
        self._call("espeak_ng_SetRandSeed", ctypes.c_long(0))
        samples = self._samples = bytearray()  # int16, at espeak's rate

        def receive(wave: int | None, num_samples: int, events: int | None) -> int:
            if wave:
                samples.extend(ctypes.string_at(wave, 2 * num_samples))
            return 0  # continue

        self._receive = SYNTH_CALLBACK(receive)  # espeak holds no reference to it
        self._library.espeak_SetSynthCallback(self._receive)
        self._call("espeak_SetVoiceByName", VOICE.encode())

    def say(
        self, syllables: Sequence[str], *, rate_wpm: int = 175, pitch: int = 50, variant: str = ""
    ) -> Waveform:
        """Synthesize syllables, without silence around the speech.

        Args:
            syllables: toned pinyin, such as `lv4` (ü is v) and `de5` (neutral tone is 5).
            rate_wpm: words per minute, 80 to 450; 175 is about 3 syllables per second.
            pitch: 0 to 100; 50 is the voice's own.
            variant: another speaker, one of VARIANTS or any other of espeak's; "" is the default voice.

        Returns:
            (S,) int16 samples at 16 kHz.

        Raises:
            UserError: espeak cannot say a syllable, or has no such rate, pitch or variant, or a call fails.
        """
        for name, value, (lowest, highest) in (("rate_wpm", rate_wpm, RATES_WPM), ("pitch", pitch, PITCHES)):
            if not lowest <= value <= highest:
                raise UserError(f"`{name}`: expected {lowest} to {highest}, received {value}")
        self.expect_variant(variant)
        text = " ".join(self._spell(syllable) for syllable in syllables).encode()
        if not text:
            raise UserError("`syllables`: expected at least one syllable, received none")
        self._call("espeak_SetVoiceByName", (f"{VOICE}+{variant}" if variant else VOICE).encode())
        self._call("espeak_SetParameter", RATE, rate_wpm, 0)
        self._call("espeak_SetParameter", PITCH, pitch, 0)
        self._samples.clear()
        size, flags = ctypes.c_size_t(len(text) + 1), UTF8 | PHONEMES
        self._call("espeak_Synth", text, size, 0, POS_CHARACTER, 0, flags, None, None)
        self._call("espeak_Synchronize")
        return resample(np.frombuffer(bytes(self._samples), np.int16), self._rate_hz)

    def can_say(self, syllable: str) -> bool:
        """Say whether espeak reads this as one toned syllable, and not in English or letter by letter.

        Of `mandarin_syllables()` it cannot say those without a vowel (`hm5`, `m2`, `n2`; `ng2` it can),
        `ê1` and `wong4`.
        """
        if not re.fullmatch("[a-z]+[1-5]", syllable):
            return False
        if syllable[:-1] in ("jiong", "qiong", "xiong"):
            return True
        text = ctypes.c_char_p(syllable.encode())
        phonemes = (self._library.espeak_TextToPhonemes(ctypes.byref(text), UTF8, 0) or b"").decode()
        # such as `n'i214_|` for ni3; `(en)...(cmn)` if it changes the language
        return "(" not in phonemes and re.findall(r"\d+", phonemes) == [CONTOURS[syllable[-1]]]

    def _spell(self, syllable: str) -> str:
        """Return a syllable as espeak expects it."""
        if not self.can_say(syllable):
            raise UserError(f"{syllable!r}: espeak cannot say this; expected toned pinyin such as lv4 or de5")
        if syllable[1:-1] == "iong":
            return f"[[{IONG_INITIALS[syllable[0]]}'ong{CONTOURS[syllable[-1]]}]]"
        return syllable

    def expect_variant(self, variant: str) -> None:
        """Raise a UserError for a variant unknown to espeak, which would silently use the default voice."""
        folder = self._data / "voices" / "!v"
        if variant and not (folder / variant).is_file():
            raise UserError(f"unknown espeak voice variant {variant!r}; choose one of {folder}")

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise UserError(f"{name}: espeak failed with status {status}; install espeakng-loader again")


def synthesize_corpus(
    out_dir: Path,
    *,
    num_utterances: int,
    seed: int,
    variants: Sequence[str] = VARIANTS,
    on_progress: OnProgress = ignore_progress,
) -> Path:
    """Write WAV files of random syllables with 0.1 s of silence around them, then their manifest.

    Syllables, speaker, rate and pitch are drawn for each utterance. The same arguments give the same files.

    Args:
        out_dir: receives `manifest.jsonl` and `audio/espeak-00001.wav`, ...
        num_utterances: number to write; a smaller number gives the first of them.
        seed: 0 or more.
        variants: voices to draw from; the speaker of the default voice is named by its pitch, `espeak-p50`.
        on_progress: receives how many utterances are written.

    Returns:
        The path of the manifest.

    Raises:
        UserError: the manifest exists already, a number is out of range, espeak has no such variant, or it
            is missing.
    """
    manifest = out_dir / "manifest.jsonl"
    if manifest.exists():
        raise UserError(f"{manifest}: exists already; remove it or choose another folder")
    if num_utterances < 1 or seed < 0:
        raise UserError(
            "expected `num_utterances` of at least 1 and `seed` of at least 0; "
            f"received {num_utterances} and {seed}"
        )
    if not variants:
        raise UserError("expected at least one of `variants`, received none")
    synthesizer = Synthesizer()
    for variant in variants:
        synthesizer.expect_variant(variant)
    rng = np.random.default_rng(seed)
    sayable = [syllable for syllable in mandarin_syllables() if synthesizer.can_say(syllable)]
    try:
        (out_dir / "audio").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out_dir}: cannot write here ({error.strerror}); choose another folder") from None
    silence = np.zeros(SILENCE_SAMPLES, np.int16)
    utterances = []
    for number in reported(range(1, num_utterances + 1), "synthesizing", "utterances", on_progress):
        num_syllables = rng.integers(*DRAWN_LENGTHS, endpoint=True)
        syllables = [sayable[index] for index in rng.integers(len(sayable), size=num_syllables)]
        variant = variants[int(rng.integers(len(variants)))]
        rate_wpm = int(rng.integers(*DRAWN_RATES_WPM, endpoint=True))
        pitch = int(rng.integers(*DRAWN_PITCHES, endpoint=True))
        speech = synthesizer.say(syllables, rate_wpm=rate_wpm, pitch=pitch, variant=variant)
        waveform = np.concatenate([silence, speech, silence])
        path = out_dir / "audio" / f"espeak-{number:05d}.wav"
        write_wav(path, waveform)
        speaker = variant or f"espeak-p{pitch}"
        duration_s, text = len(waveform) / SAMPLE_RATE_HZ, " ".join(syllables)
        utterances.append(Utterance(path.stem, str(path), duration_s, text, tuple(syllables), speaker))
    write_manifest(manifest, utterances)
    return manifest


def _load_copy(library: Path) -> ctypes.CDLL:
    """Load a copy of the library with its own globals: loading the same file twice would share them."""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps a loaded file
            return ctypes.CDLL(shutil.copy(library, folder))
    except OSError as error:
        raise UserError(f"{library}: cannot be loaded ({error}); install espeakng-loader again") from None
