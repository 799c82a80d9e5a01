"""Judges a take: where its speech is, and what is wrong with it.

    quality = judge_take(samples, 48000, prompt)
    kept = samples[quality.start : quality.end]

A take runs from key to key: it begins and ends with the noise of the room, perhaps with the click of a key.
What silent and clipped mean is defined for the doctor of corpora as well (asr/audio/levels.py). The
level and the duration are judged more strictly than the doctor does, whose `quiet` is a peak below 1 % and
whose durations are compared with those of the whole corpus: a sentence is quickly read again. The doctor
measures no noise. benchmarks/accuracy/known_text/takes.py measures what these limits find.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from asr.audio.levels import SILENCE_DBFS, is_clipped, level_dbfs, num_clipped
from asr.audio.noise_level import signal_to_noise_db
from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ, Waveform
from asr.audio.speech_level import active_power, frame_powers
from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.take import Take
from data_pipeline.collection.take_speech import TakeSpeech, speech_of_take
from data_pipeline.text.reading_text import reading_time_s

MARGIN_S = 0.25  # of the room's noise, kept before and after the speech
MIN_LEVEL_DBFS = -46.0  # of speech; the demo's and AISHELL's are -33 to -20
MIN_SNR_DB = 13.0
SHORT, LONG, LONG_S = 0.4, 2.2, 1.0  # times the expected duration of speech, and seconds
ENOUGH_TAKES = 10  # whose median pace is that of a speaker
# AISHELL's readers and the demo's voices are within; further out, takes would shift the limits of the next
SLOWEST_PACE, FASTEST_PACE = 2.0, 0.5
OF_PACE = frozenset({"short", "long"})  # problems that a slow or a fast reader always has

ProblemKind: TypeAlias = Literal[
    "silent", "clipped", "quiet", "noisy", "cut-start", "cut-end", "short", "long"
]


@dataclass(frozen=True)
class TakeProblem:
    """A reason to record a sentence again.

    Attributes:
        kind: name for programs.
        detail: the figure measured; without words, since pages are in several languages.
    """

    kind: ProblemKind
    detail: str


@dataclass(frozen=True)
class TakeQuality:
    """The judgement of a take.

    Attributes:
        start: the first sample to keep.
        end: the sample after the last one to keep.
        problems: empty for a good take.
        level_dbfs: root mean square of the speech.
        snr_db: signal-to-noise ratio.
        pace: duration of the speech as a multiple of what is expected.
    """

    start: int
    end: int
    problems: tuple[TakeProblem, ...]
    level_dbfs: float
    snr_db: float
    pace: float = 1.0


def judge_take(
    samples: Waveform, sample_rate_hz: int, prompt: Prompt, usual_pace: float = 1.0
) -> TakeQuality:
    """Judge a raw take.

    Args:
        samples: (S,) as the microphone gave them.
        sample_rate_hz: sample rate of the samples.
        prompt: the text to be read.
        usual_pace: of the speaker, such as the median of earlier takes.
    """
    level = level_dbfs(samples) if len(samples) else -math.inf
    speech = speech_of_take(samples, sample_rate_hz)
    if speech.begin == speech.end or level < SILENCE_DBFS:
        return TakeQuality(0, len(samples), (_without_speech(speech.waveform, level),), level, 0.0)
    speech_dbfs = 10 * math.log10(active_power(frame_powers(speech.spoken)) / INT16_SCALE**2 + 1e-12)
    snr_db = signal_to_noise_db(speech.waveform)
    expected_s = _expected_speech_s(prompt.text)
    spoken_s = len(speech.spoken) / SAMPLE_RATE_HZ
    usual_s = usual_pace * expected_s
    num_flat = num_clipped(samples, sample_rate_hz)
    found: dict[ProblemKind, tuple[bool, str]] = {
        "clipped": (is_clipped(num_flat, len(samples)), f"{num_flat / len(samples):.2%}"),
        "quiet": (speech_dbfs < MIN_LEVEL_DBFS, f"{speech_dbfs:.0f} dBFS"),
        "noisy": (snr_db < MIN_SNR_DB, f"{snr_db:.0f} dB"),
        "cut-start": (not speech.has_lead, ""),
        "cut-end": (not speech.has_tail, ""),
        "short": (spoken_s < SHORT * usual_s, f"{spoken_s:.1f} s"),
        "long": (spoken_s > LONG * usual_s + LONG_S, f"{spoken_s:.1f} s"),
    }
    problems = tuple(TakeProblem(kind, detail) for kind, (is_so, detail) in found.items() if is_so)
    start, end = _kept(speech, sample_rate_hz, len(samples))
    return TakeQuality(start, end, problems, speech_dbfs, snr_db, spoken_s / expected_s)


def usual_pace(takes: Sequence[Take]) -> float:
    """Return the median pace of a speaker's takes; 1 while there are few."""
    paces = [
        (take.duration_s - 2 * MARGIN_S) / _expected_speech_s(take.text)
        for take in takes
        if not take.in_doubt and OF_PACE.issuperset(problem["kind"] for problem in take.problems)
    ]
    if len(paces) < ENOUGH_TAKES:
        return 1.0
    return min(max(statistics.median(paces), FASTEST_PACE), SLOWEST_PACE)


def _expected_speech_s(text: str) -> float:
    """Return the seconds that a person needs to read a text aloud, without silence around it."""
    return max(reading_time_s(text) - 2 * MARGIN_S, MARGIN_S)


def _without_speech(waveform: Waveform, level: float) -> TakeProblem:
    """Return why no speech is found in a take: noise hides it, or there is none."""
    if level >= MIN_LEVEL_DBFS and (snr_db := signal_to_noise_db(waveform)) < MIN_SNR_DB:
        return TakeProblem("noisy", f"{snr_db:.0f} dB")
    return TakeProblem("silent", f"{level:.0f} dBFS")


def _kept(speech: TakeSpeech, sample_rate_hz: int, num_samples: int) -> tuple[int, int]:
    """Return the first sample to keep, and the one after the last, at the take's rate."""
    begin_s, end_s = speech.begin / SAMPLE_RATE_HZ - MARGIN_S, speech.end / SAMPLE_RATE_HZ + MARGIN_S
    begin, end = (speech.dropped + round(seconds * sample_rate_hz) for seconds in (begin_s, end_s))
    return max(0, begin), min(num_samples, end)
