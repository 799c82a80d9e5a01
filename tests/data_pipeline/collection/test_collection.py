"""Test what a page is answered: sessions, judged takes, and sentences that are not there."""

import io

import numpy as np
import pytest
import soundfile
from helpers.takes import collection_in, noise

from asr.audio.recording import read_audio

SILENCE = np.zeros(16_000, np.int16)


def test_session_shows_what_is_done_and_what_remains(tmp_path):
    with collection_in(tmp_path) as (_, collection):
        collection.record("a", "p1", noise(), 16_000, keep=True)
        collection.record("b", "p1", noise(seconds=2), 16_000, keep=True)
        session = collection.session("a")
    assert [row["state"] for row in session["prompts"]] == ["todo", "kept", "todo", "todo", "todo"]
    assert session["kept_s"] == pytest.approx(1.0)
    assert (session["speaker"], session["language"], session["checks"]) == ("a", "zh", False)


def test_pinyin_is_shown_above_each_hanzi(tmp_path):
    with collection_in(tmp_path, ["今天，好。"]) as (_, collection):
        assert collection.session("a")["prompts"][0]["syllables"] is None  # of characters


def test_spoiled_take_is_offered_again_and_stored_only_on_demand(tmp_path):
    with collection_in(tmp_path) as (takes, collection):
        good = collection.record("a", "p0", noise(), 16_000, keep=True)
        judged = collection.record("a", "p0", SILENCE, 16_000, keep=False)
        assert judged["state"] == "again"
        assert judged["problems"]
        assert takes.find("a", "p0").duration_s == good["duration_s"]
        kept = collection.record("a", "p0", SILENCE, 16_000, keep=True)
        assert kept["state"] == "kept"
        assert kept["problems"] == judged["problems"]
        assert collection.session("a")["prompts"][0]["problems"] == judged["problems"]


@pytest.mark.parametrize(("rate_hz", "stored_hz"), [(8000, 8000), (44_100, 44_100), (96_000, 16_000)])
def test_rate_of_the_device_is_stored_unless_it_is_very_high(tmp_path, rate_hz, stored_hz):
    with collection_in(tmp_path) as (_, collection):
        collection.record("a", "p0", noise(rate_hz=rate_hz), rate_hz, keep=True)
        samples, read_hz = soundfile.read(io.BytesIO(collection.recording("a", "p0")))
    assert read_hz == stored_hz
    assert len(samples) == pytest.approx(stored_hz, rel=0.01)


def test_sentence_or_take_that_does_not_exist_is_none(tmp_path):
    with collection_in(tmp_path) as (_, collection):
        assert collection.record("a", "p9", noise(), 16_000, keep=True) is None
        assert collection.recording("a", "p0") is None
        assert collection.drop("a", "p0") is None
        assert collection.accept("a", "p0") is None
        collection.record("a", "p0", noise(), 16_000, keep=True)
        assert collection.recording("b", "p0") is None
        assert collection.drop("a", "p0")["state"] == "todo"


def test_finish_counts_what_was_written(tmp_path):
    with collection_in(tmp_path) as (_, collection):
        for number in range(5):
            collection.record("a", f"p{number}", noise(number), 16_000, keep=True)
        finished = collection.finish()
    assert sum(finished["manifests"].values()) == 5
    assert (tmp_path / "train.jsonl").exists()


def test_takes_are_judged_by_the_pace_of_their_speaker(tmp_path, clips):
    clip = max(clips, key=lambda one: one.duration_s)
    samples = np.pad(np.tile(read_audio(clip.audio_path), 2), 8000)
    samples = (samples + np.random.default_rng(1).normal(scale=4.0, size=len(samples))).astype(np.int16)
    short = clip.text[: len(clip.text) // 3]  # for which it is long
    with collection_in(tmp_path, [f"{short}{'。' * number}" for number in range(11)]) as (_, collection):
        for number in range(10):
            found = collection.record("a", f"p{number}", samples, 16_000, keep=True)
            assert [one["kind"] for one in found["problems"]] == ["long"]
        assert collection.record("a", "p10", samples, 16_000, keep=False)["problems"] == []
        assert collection.record("b", "p10", samples, 16_000, keep=False)["problems"]
