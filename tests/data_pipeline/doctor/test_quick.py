import dataclasses

import numpy as np
import pytest
import soundfile
from helpers.object_storage import object_storage

from asr.audio import recording
from asr.audio.recording import audio_duration_s, piece_of_file, read_audio
from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from data_pipeline.doctor import checked_files
from data_pipeline.doctor.quick import check_audio, check_utterances, log_left_out, shared_sentences


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"audio_path": "none.wav"}, "No such file"),
        ({"tokens": ("xyz1",)}, "'xyz1' is not in the vocabulary"),
        ({"tokens": ()}, "no label"),
        ({"tokens": ("many",) * 50}, "50 labels, too many"),
        ({"duration_s": 9.0}, "the manifest says 9.00 s"),
        ({"audio_path": "{tmp}/short.wav", "duration_s": 0.02}, "expected at least one window"),
        ({"audio_path": "{tmp}/cut.wav"}, "cut off"),
        ({"audio_path": "{tmp}/cut.flac"}, "cut off"),
    ],
)
def test_unusable_utterances_are_separated_with_their_reasons(clips, tmp_path, changes, reason):
    soundfile.write(tmp_path / "short.wav", np.zeros(320), 16000)
    whole = open(clips[0].audio_path, "rb").read()  # noqa: PTH123, SIM115
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2])
    soundfile.write(tmp_path / "whole.flac", read_audio(clips[0].audio_path), 16000)
    flac = (tmp_path / "whole.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(flac[: len(flac) // 2])
    filled = {k: v.format(tmp=tmp_path) if isinstance(v, str) else v for k, v in changes.items()}
    bad = dataclasses.replace(clips[0], id="bad", **filled)
    vocabulary = Vocabulary(sorted({t for c in clips for t in c.tokens} | {"many"}))
    sound, problems = check_utterances(
        [clips[1], bad, clips[2]], vocabulary, lambda n, labels: len(labels) < 50
    )
    assert sound == [clips[1], clips[2]]
    assert len(problems) == 1
    assert reason in problems[0]
    assert problems[0].startswith("bad: ")
    assert bad.audio_path in problems[0]


def test_long_list_of_left_out_recordings_is_cut_and_counted(caplog):
    log_left_out([f"reason {i}" for i in range(30)], 100, "m.jsonl")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "m.jsonl: 30 of 100 recordings left out" in record.getMessage()
    assert "reason 9\n  and 20 more" in record.getMessage()


def test_nothing_is_logged_if_no_recording_is_left_out(caplog):
    log_left_out([], 100, "m.jsonl")
    assert not caplog.records


def test_checking_audio_reports_its_progress(clips):
    reports = []
    check_audio(clips, on_progress=reports.append)
    assert [(work.done, work.total) for work in reports] == [(0, len(clips)), (len(clips), len(clips))]


def test_recording_longer_than_an_utterance_is_a_problem(tmp_path):
    soundfile.write(tmp_path / "long.wav", np.zeros(301 * 8000, np.int16), 8000)
    long = [Utterance("long", str(tmp_path / "long.wav"), 301.0, "", ("a",))]
    assert "5 min long, expected one utterance of at most 300 s" in check_audio(long)[0]


def test_damage_inside_a_compressed_file_is_found_by_the_quick_check(clips, tmp_path):
    soundfile.write(tmp_path / "whole.flac", read_audio(clips[0].audio_path), 16000)
    data = bytearray((tmp_path / "whole.flac").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 500] = b"\xff" * 500
    (tmp_path / "hurt.flac").write_bytes(data)
    hurt = [dataclasses.replace(clips[0], audio_path=str(tmp_path / "hurt.flac"))]
    assert audio_duration_s(hurt[0].audio_path) == pytest.approx(clips[0].duration_s)  # its end is intact
    assert "hurt.flac: broken after its header" in check_audio(hurt)[0]


def test_shared_sentences_are_counted_by_text_and_tokens(clips):
    other = dataclasses.replace(clips[0], id="other", text=f" {clips[0].text} ")
    unlike = dataclasses.replace(clips[1], id="unlike", text="别的", tokens=("bie2", "de5"))
    assert shared_sentences(clips, [other, unlike]) == 1
    untitled = [dataclasses.replace(clip, text="") for clip in (clips[0], clips[1])]
    assert shared_sentences(untitled[:1], untitled) == 1


@pytest.fixture(scope="module")
def bucket():
    with object_storage() as bucket:
        yield bucket


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Return the list of addresses that recordings are read from; what is remembered is in a folder."""
    opened, read = [], recording.open_stored
    monkeypatch.setattr(recording, "open_stored", lambda name: opened.append(name) or read(name))
    monkeypatch.setattr(checked_files, "cache_folder", lambda: tmp_path)
    return opened


def test_recordings_in_a_bucket_are_read_again_only_when_they_have_changed(
    clips, bucket, opened, monkeypatch
):
    monkeypatch.setattr(checked_files, "SETTLED_NS", 0)
    stored = [
        dataclasses.replace(clip, audio_path=bucket.put(open(clip.audio_path, "rb").read(), f"{clip.id}.wav"))  # noqa: PTH123, SIM115
        for clip in clips[:3]
    ]
    manifest = path_of(f"{bucket.address}/train.jsonl")
    assert check_audio(stored, manifest=manifest) == ["", "", ""]
    assert sorted(opened) == sorted(one.audio_path for one in stored)
    opened.clear()
    assert check_audio(stored, manifest=manifest) == ["", "", ""]
    assert opened == []
    bucket.put(b"RIFF", f"{clips[1].id}.wav")
    problems = check_audio(stored, manifest=manifest)
    assert [bool(problem) for problem in problems] == [False, True, False]
    assert problems[1].startswith(f"{clips[1].id}: {stored[1].audio_path}: ")
    assert opened == [stored[1].audio_path]


def test_of_packs_in_a_bucket_only_the_sizes_are_checked(clips, bucket, opened):
    address = bucket.put(bytes(1000), "a.tar")
    whole, cut = (
        dataclasses.replace(clips[0], audio_path=piece_of_file(address, begin, 500)) for begin in (500, 501)
    )
    problems = check_audio([whole, cut])
    assert problems[0] == ""
    assert "cut off: the file ends before this recording does; pack or copy it again" in problems[1]
    assert opened == []


@pytest.mark.parametrize("name", ["a.wav", "a.tar@0+10"])
def test_storage_that_cannot_be_used_ends_the_check_rather_than_leaving_recordings_out(clips, bucket, name):
    with pytest.raises(UserError, match=r"^s3://no-such/a.*: there is no bucket no-such"):
        check_audio([dataclasses.replace(clips[0], audio_path=f"s3://no-such/{name}")])
