"""Recordings of phones are prepared like any others, and what cannot be read is named with a remedy."""

import mimetypes

import numpy as np
import pytest
from helpers.media import written

from asr.audio.recording import read_audio, write_wav
from asr.cli.main import main
from data_pipeline.manifests.manifest import read_manifest


@pytest.fixture
def folder(clips, tmp_path):
    """Return a folder of recordings with their texts, some of which cannot be read."""
    folder = tmp_path / "手机"
    folder.mkdir()
    for number, name in enumerate(["m4a", "mp4", "amr", "webm"]):
        path = folder / f"新录音{number}.{name}"
        path.write_bytes(written(read_audio(clips[number].audio_path), name))
        path.with_suffix(".txt").write_text(clips[number].text, encoding="utf-8")
    for name in ("lossless.ape", "odd.rmvb2", "odd.ra"):
        (folder / name).write_bytes(b"no sound that is known" * 100)
        (folder / name).with_suffix(".txt").write_text("你好", encoding="utf-8")
    (folder / "odd.m1v").write_bytes(b"no sound that is known" * 100)
    (folder / "VID_2024.mp4").write_bytes(written(read_audio(clips[0].audio_path), "mp4"))
    return folder


def prepared(folder, tmp_path, capsys):
    assert main(["prepare", "folder", str(folder), str(tmp_path / "data")]) == 0
    out = capsys.readouterr()
    left_out = [path.read_text(encoding="utf-8") for path in (tmp_path / "data").glob("left_out*")]
    return out.out + out.err + "".join(left_out)


def test_recordings_of_phones_are_prepared(folder, clips, tmp_path, capsys):
    found = prepared(folder, tmp_path, capsys)
    manifests = (tmp_path / "data").glob("*.jsonl")
    utterances = [utterance for manifest in manifests for utterance in read_manifest(manifest)]
    assert {utterance.audio_path[-4:] for utterance in utterances} == {".m4a", ".mp4", ".amr", "webm"}
    for utterance in utterances:
        assert utterance.duration_s == pytest.approx(len(read_audio(utterance.audio_path)) / 16000, abs=0.003)
    assert "transcript without audio" not in found


def test_what_cannot_be_read_is_listed_with_the_command_that_converts_it(folder, tmp_path, capsys):
    found = prepared(folder, tmp_path, capsys)
    ape = folder / "lossless.ape"
    assert f"ffmpeg -i {ape} -ac 1 -ar 16000 {ape.with_suffix('.wav')}" in found.replace("'", "")
    assert "VID_2024.mp4" in found


def test_recording_of_an_unknown_kind_is_not_a_missing_one(folder, clips, tmp_path, capsys):
    (folder / "odd.ra").unlink()
    (folder / "odd.m1v").unlink()
    (folder / "odd.rmvb2").rename(folder / "odd.movie")
    assert (mimetypes.guess_type("odd.movie")[0] or "").startswith("video/")
    found = prepared(folder, tmp_path, capsys)
    assert "odd.movie" in found
    assert "odd.txt" not in found


def test_sounds_for_augmentation_may_be_recordings_of_phones(clips, tmp_path):
    from data_pipeline.augment.sounds import SoundPiece, read_piece

    speech = read_audio(clips[0].audio_path)
    (tmp_path / "noise.m4a").write_bytes(written(speech, "alac.m4a"))
    write_wav(tmp_path / "noise.wav", speech)
    found, expected = (read_piece(SoundPiece(tmp_path / f"noise.{suffix}")) for suffix in ("m4a", "wav"))
    assert np.corrcoef(found[:8000], expected[:8000])[0, 1] > 0.99
