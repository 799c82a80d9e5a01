import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio.media import kinds
from asr.audio.mpeg import mpeg_frames
from asr.base.system.storage.address import path_of
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from data_pipeline.doctor import checked_files as checked
from data_pipeline.doctor import quick
from data_pipeline.doctor.checked_files import CheckedFiles, CheckedRecording, checked_files, file_state
from data_pipeline.doctor.quick import CheckedShare, check_audio, check_utterances


@pytest.fixture
def corpus(tmp_path):
    """Return the path of a manifest and its utterances, whose files are an hour old."""
    rng = np.random.default_rng(0)
    utterances = []
    for name in ("a.flac", "b.ogg", "c.wav"):
        path = tmp_path / name
        soundfile.write(path, rng.normal(0, 0.1, 8000), 16000)
        made_old(path)
        utterances.append(Utterance(name, str(path), 0.5, "", ("a1",)))
    (tmp_path / "train.jsonl").touch()
    return tmp_path / "train.jsonl", utterances


@pytest.fixture
def decoded(monkeypatch):
    """Return the list of paths that the check decodes or reads the header of."""
    paths = []

    def spied(function):
        def spy(path):
            paths.append(path)
            return function(path)

        return spy

    monkeypatch.setattr(quick, "read_audio", spied(quick.read_audio))
    monkeypatch.setattr(quick, "audio_header", spied(quick.audio_header))
    return paths


def made_old(path, age_s=3600):
    os.utime(path, (time.time() - age_s,) * 2)


def test_second_check_of_an_unchanged_corpus_opens_no_recording(corpus, decoded):
    manifest, utterances = corpus
    assert check_audio(utterances, manifest=manifest) == [""] * 3
    assert len(decoded) == 5  # three headers, two of them of compressed files that are decoded
    decoded.clear()
    assert check_audio(utterances, manifest=manifest) == [""] * 3
    assert decoded == []
    assert check_audio(utterances) == [""] * 3  # without a manifest nothing is remembered
    assert len(decoded) == 5


def test_recording_that_does_not_state_its_length_is_remembered_and_named_each_time(corpus, decoded, caplog):
    manifest, (first, *_) = corpus
    mp3 = manifest.with_name("d.mp3")
    soundfile.write(mp3, np.random.default_rng(0).normal(0, 0.1, 8000), 16000)
    with mp3.open("rb") as file:
        first_frame = mpeg_frames(file).runs[0][0]
    mp3.write_bytes(mp3.read_bytes()[first_frame:])  # without the Xing frame, as in Common Voice
    made_old(mp3)
    duration_s = quick.audio_header(mp3).duration_s
    utterances = [first, dataclasses.replace(first, id="d", audio_path=str(mp3), duration_s=duration_s)]
    decoded.clear()
    for num_opened in (4, 0, 0):
        caplog.clear()
        assert check_audio(utterances, manifest=manifest) == ["", ""]
        assert len(decoded) == num_opened
        assert [record.getMessage() for record in caplog.records] == [
            "1 MP3 recording without a stated length, so that a missing end is not noticed"
        ]
        decoded.clear()


def test_every_name_of_a_container_is_remembered_whole(corpus):
    manifest, (first, *_) = corpus
    containers = [kind.name for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)]
    assert len(containers) > 10
    for container in [*containers, *soundfile.available_formats()]:
        files, path = CheckedFiles.load(manifest), manifest.with_name("kept")
        found = CheckedRecording(0.5, container)
        files.add(first.audio_path, file_state(first.audio_path), found)
        files.save(path, manifest)
        assert CheckedFiles.load(path).find(first.audio_path) == found


def test_of_two_checks_of_a_recording_the_later_one_is_kept(corpus):
    manifest, utterances = corpus
    path, kept = manifest.with_name("kept"), CheckedFiles.load(manifest.with_name("kept"))
    for duration_s in (0.5, 0.7):
        for utterance in utterances[:2]:
            kept.add(utterance.audio_path, file_state(utterance.audio_path), CheckedRecording(duration_s))
    kept.save(path, manifest)
    again = CheckedFiles.load(path)
    assert len(again) == 2
    assert [again.find(utterance.audio_path) for utterance in utterances] == [
        CheckedRecording(0.7),
        CheckedRecording(0.7),
        None,
    ]
    again.add(utterances[0].audio_path, file_state(utterances[0].audio_path), CheckedRecording(0.9, "MP3"))
    again.save(path, manifest)
    found = CheckedFiles.load(path)
    assert [found.find(utterance.audio_path) for utterance in utterances] == [
        CheckedRecording(0.9, "MP3"),
        CheckedRecording(0.7),
        None,
    ]


def test_changed_recording_is_checked_again_and_alone(corpus, decoded):
    manifest, utterances = corpus
    check_audio(utterances, manifest=manifest)
    decoded.clear()
    path = manifest.with_name("a.flac")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 300] = b"\xff" * 300  # the size remains
    path.write_bytes(data)
    made_old(path, age_s=60)
    problems = check_audio(utterances, manifest=manifest)
    assert str(path) in problems[0]
    assert problems[1:] == ["", ""]
    assert set(decoded) == {str(path)}


def test_broken_recording_is_not_remembered(corpus, decoded):
    manifest, utterances = corpus
    manifest.with_name("b.ogg").write_bytes(b"OggS")
    made_old(manifest.with_name("b.ogg"))
    for _ in range(2):
        decoded.clear()
        assert "b.ogg" in check_audio(utterances, manifest=manifest)[1]
    assert len(decoded) == 1


def test_other_duration_in_the_manifest_is_noticed_though_the_recording_is_remembered(corpus):
    manifest, utterances = corpus
    check_audio(utterances, manifest=manifest)
    longer = [Utterance("a", utterances[0].audio_path, 0.7, "", ("a1",))]
    assert "the manifest says 0.70 s" in check_audio(longer, manifest=manifest)[0]


def test_recording_written_a_moment_ago_is_not_remembered(corpus, decoded):
    manifest, utterances = corpus
    made_old(manifest.with_name("c.wav"), age_s=-3600)  # a clock that is ahead
    check_audio(utterances, manifest=manifest)
    decoded.clear()
    check_audio(utterances, manifest=manifest)
    assert decoded == [utterances[2].audio_path]


@pytest.mark.parametrize("content", [b"", b"not a list", b"PK\x03\x04" + bytes(100)])
def test_damaged_list_is_replaced(corpus, content):
    manifest, utterances = corpus
    path = manifest.with_name("train.jsonl.checked")
    path.write_bytes(content)
    assert check_audio(utterances, manifest=manifest) == [""] * 3
    assert CheckedFiles.load(path).find(utterances[0].audio_path) == CheckedRecording(0.5)


def test_list_cut_anywhere_is_ignored(corpus):
    manifest, utterances = corpus
    check_audio(utterances, manifest=manifest)
    path = manifest.with_name("train.jsonl.checked")
    data = path.read_bytes()
    for length in range(0, len(data), 37):
        path.write_bytes(data[:length])
        assert CheckedFiles.load(path).find(utterances[0].audio_path) is None


def test_entries_of_other_recordings_remain(corpus, decoded):
    manifest, utterances = corpus
    for utterance in utterances:
        check_audio([utterance], manifest=manifest)
    decoded.clear()
    check_audio(utterances, manifest=manifest)
    assert decoded == []


def test_missing_file_has_no_state(tmp_path):
    assert file_state(str(tmp_path / "none.wav")) is None
    assert file_state("a\0b") is None


def test_workers_share_the_first_check(corpus, monkeypatch):
    """The second worker runs while the first one, done with its share, decodes a recording of the other."""
    manifest, (utterance, *_) = corpus
    manifest.touch()
    utterances = []
    for number in range(32):
        path = manifest.with_name(f"{number:02}.flac")
        path.write_bytes(Path(utterance.audio_path).read_bytes())
        made_old(path)
        utterances.append(dataclasses.replace(utterance, id=path.stem, audio_path=str(path)))
    read, decoded, by_second = quick.read_audio, [], []

    def check_as(worker):
        share = CheckedShare(worker, 2)
        return check_utterances(
            utterances, Vocabulary(["a1"]), lambda *_: True, manifest=manifest, share=share
        )

    def spy(path):
        place = int(Path(path).stem)
        decoded.append(place)
        if place == 16 and not by_second:
            before = len(decoded)
            by_second.append(-1)
            assert check_as(1) == (utterances, [])
            by_second[:] = decoded[before:]
            del decoded[before:]
        return read(path)

    monkeypatch.setattr(quick, "read_audio", spy)
    assert check_as(0) == (utterances, [])
    assert sorted(by_second) == list(range(16, 32))
    assert sorted(decoded) == list(range(18))  # 17 was in the part at hand


def test_what_two_processes_find_is_kept(tmp_path):
    (tmp_path / "train.jsonl").touch()
    path = tmp_path / "train.jsonl.checked"
    found = [CheckedFiles.load(path) for _ in range(2)]
    for files, name in zip(found, "ab", strict=True):
        audio = tmp_path / f"{name}.flac"
        audio.touch()
        made_old(audio)
        files.add(str(audio), file_state(str(audio)), CheckedRecording(1.5))
        files.save(path, tmp_path / "train.jsonl")
    both = CheckedFiles.load(path)
    assert len(both) == 2
    assert [both.find(str(tmp_path / f"{name}.flac")) for name in "ab"] == [CheckedRecording(1.5)] * 2


def test_what_many_threads_find_of_a_manifest_at_an_address_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(checked, "cache_folder", lambda: tmp_path)
    manifest = path_of("s3://bucket/train.jsonl")
    names = [str(tmp_path / f"{number}.flac") for number in range(64)]

    def find(name):
        Path(name).touch()
        made_old(name)
        with checked_files(manifest) as files:
            files.add(name, file_state(name), CheckedRecording(1.5))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(find, names))
    with checked_files(manifest) as files:
        assert [files.find(name) for name in names] == [CheckedRecording(1.5)] * 64


def test_second_check_of_unchanged_shards_opens_no_recording(corpus, decoded):
    manifest, utterances = corpus
    for number in range(2):
        manifest.with_name(f"train-{number}.jsonl").touch()
    shards = manifest.with_name("train-*")
    assert check_audio(utterances, manifest=shards) == [""] * 3
    decoded.clear()
    assert check_audio(utterances, manifest=shards) == [""] * 3
    assert decoded == []
