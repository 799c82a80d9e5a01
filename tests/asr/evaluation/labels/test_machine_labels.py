import dataclasses
import shutil

import numpy as np
import pytest

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.errors import UserError
from asr.base.version import __version__
from asr.ctc.confidence import Calibration
from asr.evaluation.labels.calibrated_confidence import CalibratedConfidence
from asr.evaluation.labels.machine_labels import AUDIO, LIMITS, NO_SPEECH, MachineLabeller
from asr.transcription import recognizer as recognizer_module
from asr.transcription.recognizer import Recognizer
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.types import UNREADABLE_AUDIO

MEAN_CONFIDENCE = CalibratedConfidence(np.array([0.0, 1.0]), 100, Calibration((), 0.0), np.zeros(0))


@pytest.fixture(scope="module")
def recognizer(separable_run):
    return Recognizer.load(separable_run)


@pytest.fixture(scope="module")
def folder(clips, tmp_path_factory):
    """Return a folder of a short clip, a long recording of ten clips, silence, and a file without sound."""
    folder = tmp_path_factory.mktemp("recordings")
    shutil.copy(clips[0].audio_path, folder / "short.wav")
    silence = np.zeros(2 * SAMPLE_RATE_HZ, np.int16)
    parts = [part for clip in clips[:10] for part in (read_audio(clip.audio_path), silence)]
    write_wav(folder / "long.wav", np.concatenate(parts))
    write_wav(folder / "silent.wav", np.zeros(30 * SAMPLE_RATE_HZ, np.int16))
    (folder / "broken.wav").write_text("not sound")
    return folder


def labelled(recognizer, folder, out, min_confidence):
    labeller = MachineLabeller(recognizer, MEAN_CONFIDENCE, folder / "run", min_confidence)
    return labeller.label(sorted(folder.glob("*.wav")), out)


@pytest.fixture(scope="module")
def everything(recognizer, folder, tmp_path_factory):
    return labelled(recognizer, folder, tmp_path_factory.mktemp("all") / "labelled.jsonl", 0.0)


def test_segments_of_a_long_recording_become_files_with_their_labels(everything, recognizer, folder):
    transcript = recognizer.transcribe(folder / "long.wav")
    assert len(transcript.segments) == 10
    whole = read_audio(folder / "long.wav")
    rows = [u for u in read_manifest(everything.manifest) if u.labelled_by.source.endswith("long.wav")]
    assert len({row.id for row in rows}) == 10
    for row, segment in zip(rows, transcript.segments, strict=True):
        assert (row.text, row.tokens) == (segment.text, segment.tokens)
        begin = round(row.labelled_by.begin_s * SAMPLE_RATE_HZ)
        assert row.labelled_by.begin_s == pytest.approx(segment.start_s, abs=1e-3)
        samples = read_audio(row.audio_path)
        assert len(samples) == pytest.approx((segment.end_s - segment.start_s) * SAMPLE_RATE_HZ, abs=2)
        np.testing.assert_array_equal(samples, whole[begin : begin + len(samples)])
        assert row.duration_s == pytest.approx(len(samples) / SAMPLE_RATE_HZ, abs=1e-4)


def test_a_round_that_cuts_otherwise_keeps_the_recordings_of_the_one_before(everything, recognizer, folder):
    before = {row.audio_path: read_audio(row.audio_path) for row in everything.utterances}
    transcript = recognizer.transcribe(folder / "long.wav")
    longer = tuple(dataclasses.replace(segment, end_s=segment.end_s + 0.1) for segment in transcript.segments)
    labeller = MachineLabeller(recognizer, MEAN_CONFIDENCE, folder / "run", 0.0)
    again = labeller._of_recording(
        folder / "long.wav",
        dataclasses.replace(transcript, segments=longer),
        everything.manifest.parent / AUDIO,
    )
    assert len({row.audio_path for row in again} - before.keys()) == len(longer)
    for path, samples in before.items():
        np.testing.assert_array_equal(read_audio(path), samples)
    assert not list((everything.manifest.parent / AUDIO).glob(".*"))


def test_a_short_recording_stays_where_it_is(everything, folder):
    (row,) = [u for u in everything.utterances if "short" in u.id]
    assert row.audio_path == str(folder / "short.wav")
    assert row.duration_s == pytest.approx(len(read_audio(row.audio_path)) / SAMPLE_RATE_HZ)


def test_each_line_says_what_made_it(everything, folder, recognizer):
    for row in read_manifest(everything.manifest):
        label = row.labelled_by
        assert (label.run, label.model, label.version) == (str(folder / "run"), "epoch-0001", __version__)
        assert len(label.date) == 10
        assert 0 < label.confidence <= 1


def test_what_is_not_kept_is_counted_by_reason(everything, recognizer, folder, tmp_path):
    sure = sorted(utterance.labelled_by.confidence for utterance in everything.utterances)
    limit = round((sure[4] + sure[5]) / 2, 4)
    some = labelled(recognizer, folder, tmp_path / "some.jsonl", limit)
    assert [u.labelled_by.confidence for u in some.utterances] == [
        u.labelled_by.confidence for u in everything.utterances if u.labelled_by.confidence >= limit
    ]
    reasons = [row.reason for row in some.left_out]
    assert reasons.count(f"confidence below {limit:g}") == 5
    assert sorted(row.reason for row in everything.left_out) == sorted([NO_SPEECH, UNREADABLE_AUDIO])
    assert len(some.utterances) + 5 == len(some.segments) == len(everything.segments) == 11
    numbers = {limit: int(number) for limit, number, _ in some.rows_by_limit()[1:]}
    assert numbers == {f"{limit:g}": sum(one >= limit for one in sure) for limit in LIMITS}
    listed = some.left_out_path.read_text(encoding="utf-8").splitlines()
    assert len(listed) == 7
    assert any("silent.wav" in line and NO_SPEECH in line for line in listed)
    assert some.kept_s == pytest.approx(sum(utterance.duration_s for utterance in some.utterances))


def test_where_nothing_is_kept_another_limit_needs_no_second_recognition(
    recognizer, folder, everything, tmp_path, monkeypatch
):
    with pytest.raises(
        UserError,
        match=r"nothing is kept, as the highest confidence is 0.*; lower `min_(.|\n)*11  confidence below 1",
    ):
        labelled(recognizer, folder, tmp_path / "labelled.jsonl", 1.0)
    assert not (tmp_path / "labelled.jsonl").exists()
    monkeypatch.setattr(recognizer_module, "open_recording", None)  # opens what is recognized
    again = labelled(recognizer, folder, tmp_path / "labelled.jsonl", 0.0)
    same = [dataclasses.replace(u, audio_path="") for u in everything.utterances]
    assert [dataclasses.replace(u, audio_path="") for u in again.utterances] == same
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_recordings_without_speech_alone_are_an_error_that_says_so(recognizer, folder, tmp_path):
    shutil.copy(folder / "silent.wav", tmp_path)
    with pytest.raises(UserError, match=rf"no speech was found(.|\n)*1  {NO_SPEECH}"):
        labelled(recognizer, tmp_path, tmp_path / "labelled.jsonl", 0.0)


def test_short_recording_without_speech_is_not_labelled_whatever_the_model_writes(
    recognizer, folder, tmp_path
):
    rng = np.random.default_rng(4)
    waveforms = {"zeros": np.zeros(48000), "noise": rng.normal(0, 100, 48000)}
    for name, waveform in waveforms.items():
        write_wav(tmp_path / f"{name}.wav", waveform.astype(np.int16))
    assert any(recognizer.transcribe(tmp_path / f"{name}.wav").tokens for name in waveforms)
    shutil.copy(folder / "short.wav", tmp_path)
    some = labelled(recognizer, tmp_path, tmp_path / "labelled.jsonl", 0.0)
    assert [row.audio_path for row in some.utterances] == [str(tmp_path / "short.wav")]
    assert [row.reason for row in some.left_out] == [NO_SPEECH] * 2
    assert len(some.segments) == 1


def test_standard_input_and_its_own_manifest_are_refused(recognizer, folder, tmp_path):
    labeller = MachineLabeller(recognizer, MEAN_CONFIDENCE, folder / "run")
    with pytest.raises(UserError, match="standard input cannot be labelled"):
        labeller.label([folder / "-", *map(type(folder), ["-"])], tmp_path / "a.jsonl")
    with pytest.raises(UserError, match="is one of the recordings"):
        labeller.label([folder / "short.wav"], folder / "short.wav")
