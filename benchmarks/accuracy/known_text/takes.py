"""Measures how many takes spoiled on purpose `asr record` finds, and how many good ones it refuses.

    python -m benchmarks.accuracy.known_text.takes MANIFEST [MANIFEST ...]
    python -m benchmarks.accuracy.known_text.takes --sentences MANIFEST
    python -m benchmarks.accuracy.known_text.takes --sentences MANIFEST --run RUN

A take is a clip of a manifest with what a key and a microphone add: 0.2 to 1 s of the clip's own room noise
before and 0.15 to 1 s after it, in half of them the click of a key and in half a room; levels from -40 to
-16 dBFS, and rates from 8 to 48 kHz. Takes of the sentences are also compared with their text, by `general`
or by a run that was trained on their voices; a take is found if either has a doubt.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.signal

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ, Waveform, read_audio, resample, to_int16
from asr.audio.speech_level import active_power, frame_powers
from asr.audio.voice_activity import stretches
from asr.base.text.pinyin import without_tone
from asr.base.types import Utterance
from asr.evaluation.written_text import words_of
from asr.transcription.alignment.aligner import align_recording
from asr.transcription.alignment.differences import differences
from asr.transcription.recognizer import Recognizer
from benchmarks.common import show
from data_pipeline.augment.noise import ColouredNoises, add_noise
from data_pipeline.augment.rooms import draw_room, impulse_response, reverberate
from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.take_quality import TakeQuality, judge_take
from data_pipeline.manifests.manifest import read_manifest

NUM_GOOD, NUM_SPOILED = 200, 60
SURE = 0.5  # confidence of an alignment
SYLLABLE_S = (0.1, 0.4)
RATES_HZ = (8000, 16000, 22050, 44100, 48000, 48000)
LEAD_S, TAIL_S = (0.2, 1.0), (0.15, 1.0)
LEVELS_DBFS = (-40.0, -16.0)
LOWEST_NOISE_DBFS = -78.0
ROOM_S = (0.15, 0.35)
STEP = SAMPLE_RATE_HZ // 100
CLICK_STEPS, APART_STEPS = 10, 15  # of 10 ms; AISHELL's clips have clicks of a mouse

Samples = npt.NDArray[np.float32]


class Model(NamedTuple):
    """A model that compares takes with their text, and whether it was trained on their voices."""

    recognizer: Recognizer
    knows_voice: bool


class Take(NamedTuple):
    """A raw take, and where its speech is."""

    samples: Waveform
    rate_hz: int
    begin_s: float
    end_s: float
    utterance: Utterance


def good_take(utterance: Utterance, rng: np.random.Generator) -> Take:
    """Return a clip as a person records it, from key to key."""
    clip = read_audio(utterance.audio_path).astype(np.float32)
    return recorded(utterance, clip, rng)


def recorded(utterance: Utterance, clip: Samples, rng: np.random.Generator) -> Take:
    begin, end = speech_bounds(clip)
    clip = clip[max(0, begin - 5 * STEP) : end + 5 * STEP]  # the lead-in is the one drawn here
    lead, tail = (round(rng.uniform(*limits) * SAMPLE_RATE_HZ) for limits in (LEAD_S, TAIL_S))
    padded = np.pad(clip, (lead, tail))
    if rng.random() < 0.5:
        padded = reverberate(padded, impulse_response(draw_room(rng, ROOM_S), rng))
    padded += room_noise(clip, lead, len(padded) - tail, len(padded), rng)
    if rng.random() < 0.5:
        add_clicks(padded, rng)
    level = active_power(frame_powers(clip))
    gain = 10 ** (rng.uniform(*LEVELS_DBFS) / 20) * INT16_SCALE / np.sqrt(level)
    gain = min(gain, 0.95 * INT16_SCALE / np.abs(padded).max())
    rate_hz = int(rng.choice(RATES_HZ))
    samples = at_rate(padded * np.float32(gain), rate_hz)
    begin, end = (lead + bound for bound in sure_bounds(clip))
    return Take(to_int16(samples), rate_hz, begin / SAMPLE_RATE_HZ, end / SAMPLE_RATE_HZ, utterance)


def room_noise(clip: Samples, begin: int, end: int, length: int, rng: np.random.Generator) -> Samples:
    """Return noise with the spectrum of a clip's quietest windows, around the clip, faded out within it."""
    windows = np.lib.stride_tricks.sliding_window_view(clip, 512)[::128]
    powers = np.square(windows).mean(axis=1)
    quiet = windows[powers <= np.percentile(powers, 5)] * np.hanning(512)
    spectrum = np.sqrt(np.square(np.abs(np.fft.rfft(quiet, axis=1))).mean(axis=0))
    white = np.fft.rfft(rng.standard_normal(length))
    noise = np.fft.irfft(white * np.interp(np.linspace(0, 256, len(white)), np.arange(257), spectrum), length)
    floor = 10 ** (LOWEST_NOISE_DBFS / 20) * INT16_SCALE
    rms = max(floor, float(np.sqrt(powers[powers <= np.percentile(powers, 5)].mean())))
    noise *= rms / max(1e-9, float(noise.std()))
    outside = np.ones(length)
    outside[begin:end] = 0.0  # the clip has its own
    outside = scipy.signal.fftconvolve(outside, np.hanning(321) / np.hanning(321).sum(), "same")
    return (noise * np.sqrt(np.clip(outside, 0.0, 1.0))).astype(np.float32)


def add_clicks(samples: Samples, rng: np.random.Generator) -> None:
    """Add the click of a key at both ends."""
    length = SAMPLE_RATE_HZ // 50
    loudest = float(np.abs(samples).max())
    for begin in (round(rng.uniform(0, 0.03) * SAMPLE_RATE_HZ), len(samples) - 2 * length):
        decay = np.exp(-np.arange(length) / (SAMPLE_RATE_HZ * rng.uniform(0.001, 0.005)))
        samples[begin : begin + length] += (
            rng.uniform(0.02, 0.3) * loudest * rng.standard_normal(length) * decay
        )


def at_rate(samples: Samples, rate_hz: int) -> Samples:
    divisor = int(np.gcd(rate_hz, SAMPLE_RATE_HZ))
    found: Samples = scipy.signal.resample_poly(samples, rate_hz // divisor, SAMPLE_RATE_HZ // divisor)
    return found.astype(np.float32)


def speech_bounds(clip: Samples, below_db: float = 25.0, steps: int = 1) -> tuple[int, int]:
    """Return where speech begins and ends; a sound far from the others and no longer than a click is none.

    Args:
        clip: (S,).
        below_db: speech is this far below the mean of speech at most, and 8 dB above the noise.
        steps: of 10 ms, for which it has to be so at the beginning and at the end.
    """
    powers = np.square(clip[: len(clip) // STEP * STEP].reshape(-1, STEP)).mean(axis=1)
    limit = max(10 ** (-below_db / 10) * active_power(powers), 6 * np.percentile(powers, 5))
    runs = [run for run in stretches(powers >= limit) if run[1] - run[0] >= steps] or [(0, len(powers))]
    while len(runs) > 1 and is_apart(runs[0], runs[1]):
        runs.pop(0)
    while len(runs) > 1 and is_apart(runs[-1], runs[-2]):
        runs.pop()
    return runs[0][0] * STEP, runs[-1][1] * STEP


def sure_bounds(clip: Samples) -> tuple[int, int]:
    """Return where speech surely begins and ends, at 50 ms of a level that no breath or click has."""
    return speech_bounds(clip, 20.0, 5)


def is_apart(run: tuple[int, int], neighbour: tuple[int, int]) -> bool:
    """Return whether a sound is a click of the person who recorded the clip: short, and far from speech."""
    gap = max(neighbour[0] - run[1], run[0] - neighbour[1])
    return run[1] - run[0] <= CLICK_STEPS and gap >= APART_STEPS


def clipped(take: Take, rng: np.random.Generator) -> Take:
    """Overdrive the microphone until 0.2 to 4 % of the speech is clipped; half of them are attenuated."""
    speech = np.abs(take.samples[round(take.begin_s * take.rate_hz) : round(take.end_s * take.rate_hz)])
    limit = max(1.0, float(np.percentile(speech, 100 - 100 * 10 ** rng.uniform(-2.7, -1.4))))
    loud = np.clip(take.samples * np.float32(INT16_SCALE / limit), -INT16_SCALE, INT16_SCALE - 1)
    gain = 10 ** (-rng.uniform(1, 20) / 20) if rng.random() < 0.5 else 1.0
    return take._replace(samples=to_int16(loud.astype(np.float32) * np.float32(gain)))


def quiet(take: Take, rng: np.random.Generator) -> Take:
    """Attenuate to a level from -65 to -52 dBFS."""
    samples = take.samples.astype(np.float32)
    level = active_power(frame_powers(samples))
    gain = 10 ** (rng.uniform(-65, -52) / 20) * INT16_SCALE / np.sqrt(level)
    return take._replace(samples=to_int16(samples * np.float32(gain)))


def noisy(take: Take, rng: np.random.Generator) -> Take:
    """Add white to brown noise at 5 dB."""
    noise, _ = ColouredNoises().draw(rng, len(take.samples))
    samples = add_noise(take.samples.astype(np.float32), noise, 5.0)
    return take._replace(samples=to_int16(samples * np.float32(min(1, 30000 / np.abs(samples).max()))))


def cut_start(take: Take, rng: np.random.Generator) -> Take:
    """Begin 50 to 150 ms after the speech has begun."""
    first = round((take.begin_s + rng.uniform(0.05, 0.15)) * take.rate_hz)
    return take._replace(samples=take.samples[first:])


def cut_end(take: Take, rng: np.random.Generator) -> Take:
    """End 50 to 150 ms before the speech ends."""
    return take._replace(samples=take.samples[: round((take.end_s - rng.uniform(0.05, 0.15)) * take.rate_hz)])


SPOILED: dict[str, Callable[[Take, np.random.Generator], Take]] = {
    "clipped": clipped,
    "quiet": quiet,
    "noisy": noisy,
    "cut-start": cut_start,
    "cut-end": cut_end,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how many spoiled takes are found.")
    parser.add_argument("manifests", type=Path, nargs="*", metavar="MANIFEST", help="clips of many voices")
    parser.add_argument("--sentences", type=Path, help="manifest of sentences that a model compares")
    parser.add_argument("--run", type=Path, help="a run that knows their voices (default: general)")
    parser.add_argument("--good", type=int, default=NUM_GOOD, help="number of good takes")
    parser.add_argument("--spoiled", type=int, default=NUM_SPOILED, help="number of takes spoiled each way")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of clips and of what is added")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    rows = {}
    if arguments.manifests:
        rows |= acoustic_rows(arguments.manifests, arguments.good, arguments.spoiled, rng)
    if arguments.sentences:
        model = Model(Recognizer.of_known_text(arguments.run), knows_voice=arguments.run is not None)
        rows |= rows_with_model(model, arguments.sentences, arguments.good, arguments.spoiled, rng)
    show("takes found to have a problem", rows)


def acoustic_rows(
    manifests: Sequence[Path], num_good: int, num_spoiled: int, rng: np.random.Generator
) -> dict[str, str]:
    """Return how many takes are found good and bad by their sound, with equal shares of each manifest."""
    share = -(-num_good // len(manifests))
    good = [good_take(utterance, rng) for path in manifests for utterance in drawn(path, share, rng)]
    started_s = time.process_time()
    judged = list(map(judged_take, good))
    spent_s = time.process_time() - started_s
    false = [problem.kind for quality in judged for problem in quality.problems]
    rows = {"good, refused": f"{counted([bool(quality.problems) for quality in judged])}  {' '.join(false)}"}
    for kind, spoil in SPOILED.items():
        chosen = [good[index] for index in rng.choice(len(good), min(num_spoiled, len(good)), replace=False)]
        kinds = [[problem.kind for problem in judged_take(spoil(take, rng)).problems] for take in chosen]
        rows[kind] = counted([kind in one for one in kinds])
    return rows | {"processor time for a take": f"{1000 * spent_s / len(good):.1f} ms"}


def judged_take(take: Take) -> TakeQuality:
    prompt = Prompt("", take.utterance.text, take.utterance.tokens)
    return judge_take(take.samples, take.rate_hz, prompt)


def drawn(path: Path, number: int, rng: np.random.Generator) -> list[Utterance]:
    utterances = read_manifest(path)
    chosen = rng.permutation(len(utterances))[:number]
    return [utterances[index] for index in chosen]


def rows_with_model(
    model: Model, path: Path, num_good: int, num_spoiled: int, rng: np.random.Generator
) -> dict[str, str]:
    """Return how many takes are found good and bad by their sound and a model."""
    utterances = drawn(path, num_good, rng)
    good = [good_take(utterance, rng) for utterance in utterances]
    found = {"good, refused or doubted": [is_found(model, take) for take in good]}
    for kind, spoil in SPOILED.items():
        chosen = rng.choice(len(good), min(num_spoiled, len(good)), replace=False)
        found[kind] = [is_found(model, spoil(good[index], rng)) for index in chosen]
    for kind, said_otherwise in SAID_OTHERWISE.items():
        takes = (
            take
            for utterance in rng.permutation(np.array(utterances, object))
            if (take := said_otherwise(utterance, utterances, model.recognizer, rng)) is not None
        )
        found[kind] = [is_found(model, take) for take in itertools.islice(takes, num_spoiled)]
    return {name: counted(ones) for name, ones in found.items()}


def counted(found: Sequence[bool]) -> str:
    return f"{sum(found):3} of {len(found)}, {sum(found) / len(found):6.1%}"


def is_found(model: Model, take: Take) -> bool:
    """Return whether a take is refused, or a model finds that it was not said as written."""
    quality = judged_take(take)
    kept = resample(take.samples[quality.start : quality.end], take.rate_hz)
    return bool(
        quality.problems
        or differences(model.recognizer, kept, take.utterance.tokens, knows_voice=model.knows_voice)
    )


def of_another_sentence(
    utterance: Utterance, utterances: Sequence[Utterance], _: Recognizer, rng: np.random.Generator
) -> Take | None:
    """Return a take of another sentence by the same voice."""
    others = [one for one in utterances if one.speaker == utterance.speaker and one.text != utterance.text]
    if not others:
        return None
    return good_take(others[int(rng.integers(len(others)))], rng)._replace(utterance=utterance)


def with_a_word_left_out(
    utterance: Utterance, _: Sequence[Utterance], recognizer: Recognizer, rng: np.random.Generator
) -> Take | None:
    clip = read_audio(utterance.audio_path).astype(np.float32)
    shorter = without_word(clip, utterance, recognizer, rng)
    return None if shorter is None else recorded(utterance, shorter, rng)


def with_another_word(
    utterance: Utterance, utterances: Sequence[Utterance], _: Recognizer, rng: np.random.Generator
) -> Take | None:
    """Return a take of a text in which one word of two syllables is another word, of other sounds."""
    spans = [span for span in word_spans(utterance) if span[1] - span[0] == 2]
    other = utterances[int(rng.integers(len(utterances)))]
    words = [other.tokens[begin:end] for begin, end in word_spans(other) if end - begin == 2]
    if not spans or not words:
        return None
    begin, end = spans[int(rng.integers(len(spans)))]
    word = words[int(rng.integers(len(words)))]
    if any(
        without_tone(a) == without_tone(b) for a, b in zip(utterance.tokens[begin:end], word, strict=True)
    ):
        return None
    tokens = (*utterance.tokens[:begin], *word, *utterance.tokens[end:])
    return good_take(utterance, rng)._replace(utterance=replace(utterance, tokens=tokens))


def word_spans(utterance: Utterance) -> list[tuple[int, int]]:
    """Return where the words of an utterance begin and end among its syllables; none if it has others."""
    ends = np.cumsum([len(word) for word in words_of(utterance.text)]).tolist()
    return list(itertools.pairwise([0, *ends])) if ends and ends[-1] == len(utterance.tokens) else []


def without_word(
    clip: Samples, utterance: Utterance, recognizer: Recognizer, rng: np.random.Generator
) -> Samples | None:
    """Return a clip without one word of 1 to 3 syllables, chosen at random; None if none is surely aligned.

    The word is cut from the beginning of its first syllable to the end of its last one, as the model aligns
    them, where the model is sure of it and of its neighbours, and their syllables have plausible lengths.
    """
    written = [(token, token) for token in utterance.tokens]
    aligned = align_recording(recognizer, to_int16(clip), written, utterance.id).words
    spans = [(begin, end) for begin, end in word_spans(utterance) if end - begin <= 3]
    if len(spans) < 2 or len(aligned) != len(utterance.tokens):
        return None
    for begin, end in rng.permutation(spans).tolist():
        around = aligned[max(0, begin - 1) : end + 1]
        begin_s, end_s = aligned[begin].start_s, aligned[end - 1].end_s
        is_sure = min(word.confidence or 0.0 for word in around) > SURE
        if is_sure and SYLLABLE_S[0] < (end_s - begin_s) / (end - begin) < SYLLABLE_S[1]:
            return joined(clip[: round(begin_s * SAMPLE_RATE_HZ)], clip[round(end_s * SAMPLE_RATE_HZ) :])
    return None


def joined(before: Samples, after: Samples) -> Samples:
    """Return two stretches in a row, the end of one faded into the beginning of the other for 10 ms."""
    size = min(STEP, len(before), len(after))
    fade = np.linspace(0, 1, size, dtype=np.float32)
    middle = before[len(before) - size :] * (1 - fade) + after[:size] * fade
    return np.concatenate([before[: len(before) - size], middle, after[size:]])


SAID_OTHERWISE = {
    "another sentence": of_another_sentence,
    "a word left out": with_a_word_left_out,
    "another word": with_another_word,
}


if __name__ == "__main__":
    main()
