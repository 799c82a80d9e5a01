"""Join short recordings of a speaker to strings, which are as long as sentences.

Isolated words teach little about sentences, in which syllables are spoken together. In the sentences of an
unknown speaker, syllables that training had only in isolated words had 96 % errors, those that it had in
sentences 66 % (docs/experiments.md). In strings, words are spoken together, too.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from asr.audio.recording import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    Waveform,
    audio_duration_s,
    read_audio,
    write_wav,
)
from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.units import unit_of
from asr.base.types import Utterance
from asr.base.vocabulary import WORD_BOUNDARY
from asr.base.work import OnProgress, ignore_progress, reported

MAX_STRING_S = 6.0  # of recordings, which a last one may exceed
WORD_CUT_DB = (20.0, 45.0)
CONNECTED_SHARE = 0.6  # of the recordings that follow each other without a pause
MAX_PAUSE_S = 0.3
PAUSE_DEVIATION = 3.0  # of the noise in pauses, in steps of 16 bits


def joined_utterances(
    utterances: Sequence[Utterance], folder: Path, on_progress: OnProgress = ignore_progress
) -> list[Utterance]:
    """Join the utterances of one corpus to strings, each of one speaker, and return these.

    Every utterance is in one string, of random length, so that a few remain alone. Strings that are there
    from before are kept; others in the folder are removed.

    Args:
        utterances: of one corpus, of all speakers.
        folder: of the strings' audio files.
        on_progress: receives the progress of joining.

    Raises:
        UserError: a recording cannot be read, or a string cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    groups = list(_groups(utterances))
    are_letters = unit_of(token for one in utterances for token in one.tokens) == "characters"
    joined = _joined_letters if are_letters else _joined_tokens
    strings = [
        _string(group, joined(group), folder)
        for group in reported(groups, "joining words", "strings", on_progress)
    ]
    kept = {string.audio_path for string in strings}
    for path in folder.glob("*.wav*"):
        if str(path) not in kept:
            path.unlink()
    return strings


def cut_at_silence(waveform: Waveform, below_db: tuple[float, float], rng: np.random.Generator) -> Waveform:
    """Return a recording from the first to the last frame above a level, which is drawn for each end.

    Args:
        waveform: (S,) int16 at 16 kHz.
        below_db: range of the level, in dB below the loudest frame of 10 ms.
        rng: draws the levels.
    """
    whole = waveform[: len(waveform) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    powers = np.mean(np.square(whole, dtype=np.float64), axis=1)
    if not len(powers):
        return waveform
    begin_level, end_level = powers.max() * 10 ** (-rng.uniform(*below_db, 2) / 10)
    begin = np.flatnonzero(powers >= begin_level)[0]
    end = np.flatnonzero(powers >= end_level)[-1] + 1
    return waveform[begin * FRAME_SAMPLES : end * FRAME_SAMPLES]


def pause(max_s: float, rng: np.random.Generator) -> Waveform:
    """Return up to `max_s` of faint noise: digital silence would reveal where recordings begin."""
    num_samples = rng.integers(int(max_s * SAMPLE_RATE_HZ))
    return rng.normal(0, PAUSE_DEVIATION, num_samples).round().astype(np.int16)


def _groups(utterances: Sequence[Utterance]) -> Iterator[list[Utterance]]:
    """Yield the utterances of each string, in an order that follows from the speakers' names only."""
    by_speaker = sorted(utterances, key=lambda utterance: (utterance.speaker, utterance.id))
    for speaker, its_own in itertools.groupby(by_speaker, lambda utterance: utterance.speaker):
        rng = np.random.default_rng(zlib.crc32(speaker.encode()))
        ordered = list(its_own)
        group: list[Utterance] = []
        length_s = rng.uniform(0, MAX_STRING_S)
        for index in rng.permutation(len(ordered)):
            group.append(ordered[index])
            if sum(utterance.duration_s for utterance in group) >= length_s:
                yield group
                group, length_s = [], rng.uniform(0, MAX_STRING_S)
        if group:
            yield group


def _joined_tokens(group: Sequence[Utterance]) -> tuple[str, ...]:
    return tuple(token for one in group for token in one.tokens)


def _joined_letters(group: Sequence[Utterance]) -> tuple[str, ...]:
    """Return the characters of a string; words of letters are separated, as in a text of both."""
    tokens: list[str] = []
    for one in group:
        if tokens and one.tokens and not is_hanzi(tokens[-1]) and not is_hanzi(one.tokens[0]):
            tokens.append(WORD_BOUNDARY)
        tokens += one.tokens
    return tuple(tokens)


def _string(group: Sequence[Utterance], tokens: tuple[str, ...], folder: Path) -> Utterance:
    """Write the audio of a string, unless it is there, and return its utterance."""
    first = group[0]
    if len(group) == 1:
        return first
    contents = "\n".join(f"{one.audio_path} {one.duration_s}" for one in group)
    name = hashlib.blake2b(contents.encode(), digest_size=16).hexdigest()
    path = folder / f"{name}.wav"
    if not path.exists():
        write_wav(path, _joined(group, np.random.default_rng(int(name, 16))))
    return Utterance(
        id=f"{first.id}+{len(group) - 1}",
        audio_path=str(path),
        duration_s=audio_duration_s(path),
        text=" ".join(one.text for one in group if one.text),
        tokens=tokens,
        speaker=first.speaker,
        corpus=first.corpus,
    )


def _joined(group: Sequence[Utterance], rng: np.random.Generator) -> Waveform:
    """Return the recordings of a string, cut at silence, with a pause between some of them."""
    pieces: list[Waveform] = []
    for utterance in group:
        if pieces and rng.random() >= CONNECTED_SHARE:
            pieces.append(pause(MAX_PAUSE_S, rng))
        pieces.append(cut_at_silence(read_audio(utterance.audio_path), WORD_CUT_DB, rng))
    return np.concatenate(pieces)
