import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from helpers.corpora.tar_archives import flac, sound, write_tar

from asr.audio.recording import read_audio
from asr.base.errors import UserError
from data_pipeline.corpora.forms import tar_shards
from data_pipeline.corpora.tar_members import DAMAGED, NOT_IN_PLACE
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus


def read(source):
    return tar_shards.CORPUS.read(Path(source), Path("unused"))


def reasons(reading):
    return {out.what.rpartition("/")[2]: out.reason for out in reading.left_out}


@pytest.fixture
def shards(tmp_path):
    """Return a folder of shards as WebDataset's and WeNet's writers make them."""
    folder = tmp_path / "shards"
    write_tar(folder / "train-000000.tar", {"a-1.flac": flac(1), "a-1.txt": "你好\n"})
    record = {"text": "世界", "speaker": "b", "tokens": "shi4 jie4"}
    write_tar(folder / "train-000001.tar", {"b-1.json": json.dumps(record), "b-1.flac": flac(2)})
    write_tar(folder / "dev-000000.tar", {"clips/c.flac": flac(3), "clips/c.txt": "再见"})
    return folder


def test_samples_are_read_in_place_and_their_shards_name_the_splits(shards):
    reading = read(shards)
    assert {split: [one.id for one in found] for split, found in reading.splits.items()} == {
        "dev": ["clips/c"],
        "train": ["a-1", "b-1"],
    }
    one, other = reading.splits["train"]
    assert (one.text, one.speaker) == ("你好", "")
    assert (other.text, other.speaker, other.tokens) == ("世界", "b", ("shi4", "jie4"))
    np.testing.assert_array_equal(read_audio(other.audio_path), sound(2))
    assert not reading.left_out


def test_prepared_manifest_reads_the_archives(shards, tmp_path):
    prepared = prepare_corpus("tar_shards", str(shards), tmp_path / "data")
    (path,) = [prepared.manifests["train"]]
    utterances = read_manifest(path)
    assert [u.tokens for u in utterances] == [("ni3", "hao3"), ("shi4", "jie4")]
    assert [u.duration_s for u in utterances] == [0.5, 0.5]
    assert [len(read_audio(u.audio_path)) for u in utterances] == [8000, 8000]
    assert not list((tmp_path / "data").rglob("*.flac"))


def test_one_archive_is_a_whole_corpus(shards):
    assert list(read(shards / "train-000001.tar").splits) == ["train"]
    other = (shards / "train-000001.tar").rename(shards / "mine.tar")
    assert list(read(other).splits) == ["all"]


def test_names_that_shards_have_in_common_get_those_of_their_shards(tmp_path):
    for number in range(2):
        write_tar(
            tmp_path / f"mine-{number}.tar", {"0.flac": flac(number), "0.txt": "好", f"x{number}.txt": "x"}
        )
    reading = read(tmp_path)
    assert [one.id for one in reading.splits["all"]] == ["mine-0-0", "mine-1-0"]
    assert set(reasons(reading).values()) == {"transcript without audio"}


def test_what_is_wrong_with_a_sample_is_said(tmp_path):
    files = {
        "a.flac": flac(1),
        "b.flac": flac(1),
        "b.wav": flac(1),
        "b.txt": "好",
        "c.flac": flac(1),
        "c.json": "[1]",
        "d.flac": flac(1),
        "d.txt": b"\xff\xfe\xff",
        "e.flac": flac(1),
        "e.txt": " ",
        "f.flac": flac(1),
        "f.json": '{"text": 3}',
        "g.flac": flac(1),
        "g.txt": "好",
        "._g.txt": "Apple's",
        "h.flac": flac(1),
        "h.txt": "x" * (2 << 20),
    }
    write_tar(tmp_path / "mine.tar", files)
    write_tar(tmp_path / "packed.tar.gz", {"a.flac": flac(1)}, "w:gz")
    reading = read(tmp_path)
    assert [one.id for one in reading.splits["all"]] == ["g"]
    assert reasons(reading) == {
        "mine.tar:a.flac": "audio without a transcript",
        "mine.tar:b.flac": "duplicate id",
        "mine.tar:b.wav": "duplicate id",
        "mine.tar:c.flac": "transcript is not a JSON object",
        "mine.tar:d.flac": "transcript cannot be read",
        "mine.tar:e.flac": "empty transcript",
        "mine.tar:f.flac": "text is not a string",
        "mine.tar:h.flac": "transcript cannot be read",
        "packed.tar.gz": NOT_IN_PLACE,
    }


def test_names_may_have_dots_as_wenet_writes_them(tmp_path):
    files = {}
    for number, name in enumerate(["sp0.9-a", "sp0.9-b", "sp1.1-a", "d"]):
        files |= {f"{name}.txt": "好", f"{name}.flac": flac(number)}
    write_tar(tmp_path / "mine.tar", files)
    reading = read(tmp_path)
    assert [one.id for one in reading.splits["all"]] == ["sp0.9-a", "sp0.9-b", "sp1.1-a", "d"]
    assert not reading.left_out


def test_names_may_have_several_suffixes_as_webdataset_allows(tmp_path):
    write_tar(
        tmp_path / "mine.tar", {"a.left.flac": flac(1), "a.txt": "好", "b.left.flac": flac(2), "b.txt": "坏"}
    )
    assert [(one.id, one.text) for one in read(tmp_path).splits["all"]] == [("a", "好"), ("b", "坏")]


def test_speaker_is_read_from_json_beside_a_text(tmp_path):
    files = {"a.flac": flac(1), "a.txt": "好", "a.json": '{"speaker": "s1"}'}
    (one,) = read(write_tar(tmp_path / "mine.tar", files)).splits["all"]
    assert (one.text, one.speaker) == ("好", "s1")


def test_texts_are_in_one_line_and_one_unicode_form(tmp_path):
    write_tar(tmp_path / "mine.tar", {"a.flac": flac(1), "a.txt": "he\u0301llo\u3000u\u0308ber\nzwei\n"})
    assert [one.text for one in read(tmp_path).splits["all"]] == ["héllo über zwei"]


def test_shards_of_the_same_name_in_two_folders_have_ids_of_their_own(tmp_path):
    for folder in ("one", "two"):
        write_tar(tmp_path / folder / "train-000.tar", {"a.flac": flac(1), "a.txt": "好"})
    found = read(tmp_path).splits["train"]
    assert [one.id for one in found] == ["one-train-000-a", "two-train-000-a"]


def test_archive_with_a_damaged_header_is_said_to_be_damaged(tmp_path):
    files = {}
    for number in range(5):
        files |= {f"{number}.txt": "好", f"{number}.flac": flac(number)}
    path = write_tar(tmp_path / "mine.tar", files)
    with tarfile.open(path) as tar:
        header = tar.getmember("2.txt").offset
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[header + 148] ^= 1  # of its checksum
    for content in (bytes(damaged), whole[:header], whole[: header + 100]):
        path.write_bytes(content)
        reading = read(tmp_path)
        assert [one.id for one in reading.splits["all"]] == ["0", "1"]
        assert [(out.reason, out.detail) for out in reading.left_out] == [(DAMAGED, "after 1.flac")]


def test_archive_of_another_name_is_refused_and_capitals_are_read(shards):
    capitals = (shards / "train-000001.tar").rename(shards / "TRAIN-000001.TAR")
    (one,) = read(capitals).splits["train"]
    np.testing.assert_array_equal(read_audio(one.audio_path), sound(2))
    with pytest.raises(UserError, match=r"expected a tar archive; rename it so that it ends in \.tar"):
        read(capitals.rename(shards / "shard"))


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.3])
def test_archive_that_is_cut_off_gives_what_is_whole(kept, tmp_path):
    files = {}
    for number in range(6):
        files |= {f"{number}.txt": "好", f"{number}.flac": flac(number)}
    path = write_tar(tmp_path / "mine.tar", files)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    reading = read(tmp_path)
    assert 0 < len(reading.splits["all"]) < 6
    assert DAMAGED in reasons(reading).values()
    for recording in reading.splits["all"]:
        np.testing.assert_array_equal(read_audio(recording.audio_path), sound(int(recording.id)))


def test_folder_without_a_usable_recording_raises(tmp_path):
    with pytest.raises(
        UserError, match=r"no tar archive below this folder; expected .*; found an empty folder"
    ):
        read(tmp_path)
    with pytest.raises(UserError, match="no such file or folder"):
        read(tmp_path / "none")
    write_tar(tmp_path / "mine.tar", {"a.flac": flac(1)})
    with pytest.raises(
        UserError, match=r"no usable recording .*mine\.tar:a\.flac: audio without a transcript"
    ):
        read(tmp_path)
    (tmp_path / "mine.tar").write_bytes(b"not a tar archive" * 100)
    with pytest.raises(UserError, match=r"mine\.tar: not a tar archive"):
        read(tmp_path)


def test_archive_that_changed_after_preparation_is_an_error(shards):
    (recording,) = read(shards / "dev-000000.tar").splits["dev"]
    (shards / "dev-000000.tar").write_bytes(b"")
    with pytest.raises(UserError, match="the file ends before this recording does"):
        read_audio(recording.audio_path)
