"""Takes are cut at their silences and judged, at the rates and with the sounds of real devices."""

import numpy as np
import pytest
import scipy.signal

from asr.audio.recording import read_audio
from asr.audio.speech_level import active_power, frame_powers
from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.take import Take
from data_pipeline.collection.take_quality import judge_take, usual_pace

LEAD_S, TAIL_S, EDGE_S = 0.5, 0.4, 0.06  # the demo's clips have silence of about EDGE_S at their ends
RATES_HZ = [8000, 16000, 44100, 48000]


@pytest.fixture(scope="module")
def clip(clips):
    return max(clips, key=lambda one: one.duration_s)


@pytest.fixture(scope="module")
def prompt(clip):
    return Prompt(clip.id, clip.text, clip.tokens)


@pytest.fixture(scope="module")
def speech(clip):
    """Return a clip with a level of -26 dBFS."""
    samples = read_audio(clip.audio_path).astype(np.float32)
    return samples * np.float32(1640 / np.sqrt(active_power(frame_powers(samples))))


def take_of(speech, rate_hz=16000, lead_s=LEAD_S, tail_s=TAIL_S, noise_rms=4.0):
    """Return a take: speech with the noise of a room before, after and during it."""
    padded = np.pad(speech, (round(lead_s * 16000), round(tail_s * 16000)))
    padded = padded + np.random.default_rng(1).normal(scale=noise_rms, size=len(padded))
    divisor = np.gcd(rate_hz, 16000)
    samples = scipy.signal.resample_poly(padded, rate_hz // divisor, 16000 // divisor)
    return np.clip(np.rint(samples), -32768, 32767).astype(np.int16)


def kinds(quality):
    return [problem.kind for problem in quality.problems]


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_good_take_is_cut_at_its_silences(speech, prompt, rate_hz):
    quality = judge_take(take_of(speech, rate_hz), rate_hz, prompt)
    assert kinds(quality) == []
    lead_s = LEAD_S + EDGE_S - quality.start / rate_hz
    assert 0.15 < lead_s < 0.45
    end_s = LEAD_S + len(speech) / 16000
    assert end_s - EDGE_S + 0.1 < quality.end / rate_hz < end_s + 0.35
    assert quality.level_dbfs == pytest.approx(-26, abs=1.5)
    assert 35 < quality.snr_db < 60


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_speech_without_a_lead_in_or_a_quiet_end_is_cut_off(speech, prompt, rate_hz):
    take = take_of(speech, rate_hz)
    first, last = round((LEAD_S + 0.2) * rate_hz), len(take) - round((TAIL_S + 0.2) * rate_hz)
    assert kinds(judge_take(take[first:], rate_hz, prompt)) == ["cut-start"]
    assert kinds(judge_take(take[:last], rate_hz, prompt)) == ["cut-end"]
    assert kinds(judge_take(take[first:last], rate_hz, prompt)) == ["cut-start", "cut-end"]


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_clipped_quiet_and_noisy_takes_are_found(speech, prompt, rate_hz):
    limit = np.percentile(np.abs(speech), 98.5)
    assert kinds(judge_take(take_of(speech * 32767 / limit, rate_hz), rate_hz, prompt)) == ["clipped"]
    overdriven = (take_of(speech * 32767 / limit, rate_hz) * 0.2).astype(np.int16)
    assert kinds(judge_take(overdriven, rate_hz, prompt)) == ["clipped"]
    assert kinds(judge_take(take_of(speech * 0.03, rate_hz, noise_rms=0.3), rate_hz, prompt)) == ["quiet"]
    assert "noisy" in kinds(judge_take(take_of(speech, rate_hz, noise_rms=900), rate_hz, prompt))


def test_sounds_of_devices_are_not_speech(speech, prompt):
    """The click of the key, digital silence before the microphone starts, hum and an offset."""
    take = take_of(speech).astype(np.float32)
    plain = judge_take(take.astype(np.int16), 16000, prompt)
    click = 4000 * np.random.default_rng(2).normal(size=320) * np.exp(-np.arange(320) / 50)
    clicked = take.copy()
    clicked[100:420] += click
    clicked[-500:-180] += click
    hum = 60 * np.sin(2 * np.pi * 50 * np.arange(len(take)) / 16000)
    for changed in (clicked, take + 1000, take + hum):
        quality = judge_take(changed.astype(np.int16), 16000, prompt)
        assert kinds(quality) == []
        assert quality.start == pytest.approx(plain.start, abs=800)
        assert quality.end == pytest.approx(plain.end, abs=800)
    zeros = np.zeros(4800, np.int16)
    delayed = judge_take(np.concatenate([zeros, take.astype(np.int16), zeros]), 16000, prompt)
    assert kinds(delayed) == []
    assert delayed.start - len(zeros) == pytest.approx(plain.start, abs=160)


def test_takes_without_speech_are_silent(speech, prompt):
    for samples in (
        np.zeros(0, np.int16),
        np.zeros(100, np.int16),
        np.full(32000, 300, np.int16),
        take_of(np.zeros(16000)),
    ):
        assert kinds(judge_take(samples, 16000, prompt)) == ["silent"]


def test_takes_too_long_or_short_for_their_text_are_found_by_the_speakers_own_pace(speech, prompt):
    twice = Prompt("", prompt.text * 4, prompt.tokens * 4)
    assert kinds(judge_take(take_of(speech), 16000, twice)) == ["short"]
    slow = take_of(np.concatenate([speech] * 6))
    assert kinds(judge_take(slow, 16000, prompt)) == ["long"]
    assert kinds(judge_take(slow, 16000, prompt, usual_pace=5.0)) == []


def takes_of(prompt, durations_s, **fields):
    path = "audio/a/p-1.flac"
    return [Take("a", "p", path, duration_s, prompt.text, (), **fields) for duration_s in durations_s]


def test_usual_pace_is_the_median_of_takes_that_are_enough_and_said_as_written(speech, prompt):
    quality = judge_take(take_of(speech), 16000, prompt)
    durations_s = [(quality.end - quality.start) / 16000] * 8 + [0.6, 20.0]
    assert usual_pace(takes_of(prompt, durations_s)) == pytest.approx(quality.pace, rel=0.01)
    assert usual_pace(takes_of(prompt, durations_s[:9])) == 1.0
    assert usual_pace(takes_of(prompt, durations_s, in_doubt=True)) == 1.0
    assert usual_pace(takes_of(prompt, durations_s, problems=({"kind": "noisy"},))) == 1.0
    # who reads slowly keeps takes that were called too long
    slow = takes_of(prompt, [20.0] * 10, problems=({"kind": "long"},))
    assert usual_pace(slow) == 2.0


def test_take_of_a_slow_reader_is_not_long_once_the_pace_is_known(speech, prompt):
    slow = take_of(np.tile(speech, 4))
    assert "long" in kinds(judge_take(slow, 16000, prompt))
    assert "long" not in kinds(judge_take(slow, 16000, prompt, usual_pace=2.0))
