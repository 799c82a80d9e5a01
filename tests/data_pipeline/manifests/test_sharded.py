"""Test that a large manifest is written in shards, which together are the manifest in one file."""

import gzip

import pytest

from asr.base.errors import UserError
from asr.base.system.shards import single_file
from asr.base.types import Utterance
from data_pipeline.manifests import sharded
from data_pipeline.manifests.manifest import read_manifest, write_manifest
from data_pipeline.manifests.sharded import manifest_to_write, manifests_in, remove_manifest, write_in_shards

NAMES = ["train-00000-of-00003.jsonl.gz", "train-00001-of-00003.jsonl.gz", "train-00002-of-00003.jsonl.gz"]


@pytest.fixture(autouse=True)
def _three_in_a_shard(monkeypatch):
    monkeypatch.setattr(sharded, "UTTERANCES_PER_SHARD", 3)


@pytest.fixture
def utterances(tmp_path):
    return [Utterance(f"a-{n}", str(tmp_path / f"{n}.wav"), 1 + n, "你好", ("ni3", "hao3")) for n in range(7)]


@pytest.fixture
def path(tmp_path, utterances):
    path = manifest_to_write(tmp_path, "train", len(utterances))
    write_in_shards(path, utterances)
    return path


def test_shards_together_have_the_bytes_of_one_file(utterances, path, tmp_path):
    assert sorted(one.name for one in tmp_path.iterdir()) == NAMES
    write_manifest(tmp_path / "one.jsonl", utterances)
    joined = b"".join(gzip.decompress((tmp_path / name).read_bytes()) for name in NAMES)
    assert joined == (tmp_path / "one.jsonl").read_bytes()
    assert path.name == "train-*.jsonl.gz"
    assert read_manifest(path) == utterances
    assert single_file(path) == tmp_path / "train.jsonl"


def test_few_utterances_are_in_one_file(tmp_path, utterances):
    path = manifest_to_write(tmp_path, "dev", 3)
    write_in_shards(path, utterances[:3])
    assert [one.name for one in tmp_path.iterdir()] == ["dev.jsonl"]


def test_missing_shard_is_named(path):
    path.with_name(NAMES[1]).unlink()
    with pytest.raises(UserError, match=rf"1 of 3 shards missing, such as {NAMES[1]}"):
        read_manifest(path)
    assert len(read_manifest(path.with_name("train-0000[02]-*"))) == 4  # which ask for these alone


def test_shards_of_two_sets_are_refused(path, utterances):
    write_manifest(path.with_name("train-00000-of-00001.jsonl.gz"), utterances)
    with pytest.raises(UserError, match=r"different sets \(1, 3 shards\)"):
        read_manifest(path)


def test_fewer_shards_replace_earlier_ones_and_other_files_stay(path, utterances, tmp_path):
    others = ["train-clean.jsonl.gz", "train_2-00000-of-00001.jsonl.gz"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    write_in_shards(path, utterances[:4])
    assert {one.name for one in tmp_path.iterdir()} == {
        "train-00000-of-00002.jsonl.gz",
        "train-00001-of-00002.jsonl.gz",
        *others,
    }
    remove_manifest(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == others


def test_manifests_of_a_folder_are_found_in_one_file_or_in_shards(path, utterances, tmp_path):
    write_manifest(tmp_path / "test_other.jsonl", utterances)
    assert manifests_in(tmp_path) == {"train": path, "test_other": tmp_path / "test_other.jsonl"}
