from pathlib import Path

import pytest

from asr.base.errors import UserError
from asr.transcription.files import audio_files, files_of_recordings, format_of


@pytest.fixture
def lectures(tmp_path):
    for name in ("intro.mp3", "week 1/monday.wav", "week 1/周二.flac", "week 2/monday.wav"):
        (tmp_path / "lectures" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lectures" / name).touch()
    return tmp_path / "lectures"


def outs_of(out, arguments, format_name="srt"):
    arguments = list(map(str, arguments))
    return list(files_of_recordings(out, arguments, audio_files(arguments), format_name).values())


def test_files_are_arranged_below_the_folder_as_the_recordings_are(lectures, tmp_path):
    out = tmp_path / "subtitles"
    assert [path.relative_to(out).as_posix() for path in outs_of(out, [lectures])] == [
        "intro.srt",
        "week 1/monday.srt",
        "week 1/周二.srt",
        "week 2/monday.srt",
    ]


def test_files_may_be_put_beside_their_recordings(lectures):
    recording = lectures / "week 1/周二.flac"
    assert recording.with_suffix(".TextGrid") in outs_of(lectures, [lectures], "textgrid")
    assert outs_of(lectures / "week 1", [recording], "vtt") == [recording.with_suffix(".vtt")]


def test_single_recording_is_written_to_the_named_file(lectures, tmp_path):
    assert outs_of(tmp_path / "a.srt", [lectures / "intro.mp3"]) == [tmp_path / "a.srt"]
    assert outs_of(tmp_path / "new", ["-"]) == [tmp_path / "new"]


def test_folder_of_one_recording_is_still_a_folder(lectures, tmp_path):
    assert outs_of(tmp_path / "new", [lectures / "week 2"]) == [tmp_path / "new/monday.srt"]


def test_recordings_that_differ_in_their_suffix_keep_it(lectures, tmp_path):
    (lectures / "intro.wav").touch()
    names = [path.name for path in outs_of(tmp_path / "new", [lectures])]
    assert names == ["intro.mp3.srt", "intro.wav.srt", "monday.srt", "周二.srt", "monday.srt"]


def test_two_recordings_of_one_name_are_refused_by_name(lectures, tmp_path):
    both = [lectures / "week 1/monday.wav", lectures / "week 2/monday.wav"]
    with pytest.raises(UserError, match="one file") as caught:
        outs_of(tmp_path / "new", both)
    assert all(str(path) in str(caught.value) for path in both)


@pytest.mark.parametrize("name", ["all.srt", "all.VTT", "there"])
def test_several_recordings_need_a_folder(name, lectures, tmp_path):
    (tmp_path / "there").touch()
    with pytest.raises(UserError, match="expected a folder"):
        outs_of(tmp_path / name, [lectures])


def test_recording_is_not_overwritten(lectures):
    with pytest.raises(UserError, match="one of the recordings"):
        outs_of(lectures / "intro.mp3", [lectures / "intro.mp3"])


def test_format_is_that_of_the_suffix():
    names = ("a.srt", "a.VTT", "a.TextGrid", "a.csv", "a.jsonl", "a.txt", "subtitles")
    found = [format_of(Path(name)) for name in names]
    assert found == ["srt", "vtt", "textgrid", "csv", "jsonl", "text", "text"]
    assert format_of(None) == "text"


def test_folders_are_replaced_by_their_audio_files_in_order_and_other_files_are_counted(tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "deep").mkdir()
    for name in ("b.WAV", "a.mp3", "deep/c.flac", "notes.txt", "d.m4a", "cover.jpg"):
        (tmp_path / name).touch()
    found = audio_files([str(tmp_path), "x.wav", "-"])
    assert [p.name for p in found] == ["a.mp3", "b.WAV", "d.m4a", "c.flac", "x.wav", "-"]
    assert "2 files" in caplog.text
    assert ".jpg, .txt" in caplog.text


def test_linked_folders_are_searched_and_hidden_files_are_not(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "given").mkdir()
    for name in ("elsewhere/a.wav", "elsewhere/._a.wav", "given/b.wav", "given/._b.wav"):
        (tmp_path / name).touch()
    (tmp_path / "given" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "given" / "back").symlink_to(tmp_path / "given")
    names = [path.relative_to(tmp_path).as_posix() for path in audio_files([str(tmp_path / "given")])]
    assert names == ["given/b.wav", "given/link/a.wav"]


@pytest.mark.parametrize("brand", [b"heic", b"mif1", b"avif", b"crx "])
def test_photos_of_a_phone_are_no_recordings_and_its_videos_are(brand, tmp_path):
    for name, kind in (("IMG_1.heic", brand), ("IMG_2.video", b"qt  ")):
        (tmp_path / name).write_bytes(b"\0\0\0\x18ftyp" + kind + bytes(4) + b"mif1" + kind)
    assert [path.name for path in audio_files([str(tmp_path)])] == ["IMG_2.video"]


def test_a_folder_without_audio_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no audio file"):
        audio_files([str(tmp_path)])
