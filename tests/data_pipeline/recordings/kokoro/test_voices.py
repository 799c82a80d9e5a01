import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.kokoro import write_voices

from asr.base.errors import UserError
from data_pipeline.recordings.kokoro.voices import Speaker, draw_speaker, read_voices, style_of, without


@pytest.fixture
def folder(tmp_path):
    return write_voices(tmp_path / "voices", ["zf_one", "zm_two", "af_three"])


def test_folder_and_archive_give_the_same_voices(folder, tmp_path):
    of_folder = read_voices(folder)
    archive = tmp_path / "voices-v1.0.bin"
    with archive.open("wb") as file:
        np.savez(file, **{name: styles.reshape(510, 1, 256) for name, styles in of_folder.items()})
    of_archive = read_voices(archive)
    assert list(of_folder) == list(of_archive) == ["af_three", "zf_one", "zm_two"]
    for name, styles in of_folder.items():
        assert styles.shape == (510, 256)
        np.testing.assert_array_equal(styles, of_archive[name])


def test_single_file_is_a_voice(folder):
    assert list(read_voices(folder / "zm_two.bin")) == ["zm_two"]


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-3])


def not_finite(path):
    path.write_bytes(np.full((510, 256), np.nan, "<f4").tobytes())


def git_lfs_pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 522240\n")


@pytest.mark.parametrize("spoil", [cut_off, not_finite, git_lfs_pointer, lambda path: path.write_bytes(b"")])
def test_broken_voice_raises_with_its_file(folder, spoil):
    spoil(folder / "zm_two.bin")
    with pytest.raises(UserError, match=r"zm_two\.bin: expected .*float|zm_two\.bin: expected finite"):
        read_voices(folder)


@pytest.mark.parametrize("array", [np.zeros((3, 100), np.float32), np.zeros((510, 256), np.int64)])
def test_archive_of_other_arrays_raises_with_the_name(tmp_path, array):
    np.savez(tmp_path / "a.npz", zf_one=array)
    with pytest.raises(UserError, match=r"a\.npz: zf_one: expected styles"):
        read_voices(tmp_path / "a.npz")


def test_archive_that_is_cut_off_or_pickled_raises(tmp_path):
    np.savez(tmp_path / "a.npz", zf_one=np.array([{}], object))
    with pytest.raises(UserError, match="cannot read these voices"):
        read_voices(tmp_path / "a.npz")
    write_voices(tmp_path / "one", ["zf_one"])
    np.savez(tmp_path / "b.npz", zf_one=read_voices(tmp_path / "one")["zf_one"])
    data = bytearray((tmp_path / "b.npz").read_bytes())
    data[1000:2000] = bytes(1000)
    (tmp_path / "b.npz").write_bytes(data)
    with pytest.raises(UserError, match="cannot read these voices"):
        read_voices(tmp_path / "b.npz")


def test_archive_of_other_files_raises_with_the_name(folder, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "voices"), "zip", folder)
    with pytest.raises(UserError, match=r"voices\.zip: af_three\.bin: expected an array of NumPy"):
        read_voices(Path(archive))


def test_missing_and_empty_folders_raise(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_voices(tmp_path / "none")
    with pytest.raises(UserError, match="no voices in this folder"):
        read_voices(tmp_path)


def test_unknown_excluded_voice_raises_with_those_that_exist(folder):
    with pytest.raises(UserError, match="'zf_none' to exclude; expected one of af_three, zf_one, zm_two"):
        without(read_voices(folder), ["zf_none"])


def test_no_mandarin_voice_raises(folder):
    with pytest.raises(UserError, match=r"standard Mandarin.*received af_three"):
        without(read_voices(folder), ["zf_one", "zm_two"])


def test_voice_with_other_tones_than_its_labels_is_never_used(tmp_path):
    names = ["zf_one", "zf_xiaoni"]
    voices = read_voices(write_voices(tmp_path, names))
    assert list(without(voices, [])) == ["zf_one"]
    assert list(without(voices, ["zf_xiaoni"])) == ["zf_one"]
    with pytest.raises(UserError, match=r"zf_xiaoni has other tones\); received none"):
        without(voices, ["zf_one"])


def test_every_speaker_has_a_mandarin_voice_for_at_least_half():
    rng = np.random.default_rng(0)
    speakers = {draw_speaker(["af_three", "zf_one", "zm_two"], rng) for _ in range(500)}
    assert {speaker.voice for speaker in speakers} == {"zf_one", "zm_two"}
    assert {speaker.other for speaker in speakers} == {"af_three", "zf_one", "zm_two"}
    assert max(speaker.share for speaker in speakers) == 50


def test_name_says_the_mixture():
    assert Speaker("zf_one", "af_three", 35).name == "zf_one+af_three-35"
    assert Speaker("zf_one", "af_three", 0).name == Speaker("zf_one", "zf_one", 35).name == "zf_one"


def test_style_is_the_average_for_the_number_of_symbols():
    rows = np.arange(510, dtype=np.float32)[:, None] * np.ones(256, np.float32)
    voices = {"zf_one": rows, "af_two": rows + 100}
    style = style_of(Speaker("zf_one", "af_two", 20), voices, 30)
    np.testing.assert_allclose(style, np.full((1, 256), 29 + 20), rtol=1e-6)
    assert style_of(Speaker("zf_one", "af_two", 0), voices, 600)[0, 0] == 509
