import gzip
from pathlib import Path

import pytest

from asr.base.errors import UserError
from asr.base.system.shards import has_manifest, is_manifest_name, open_shard, shards_of, single_file


@pytest.fixture
def folder(tmp_path):
    for name in ("train-2.jsonl", "train-0.jsonl", "train-1.jsonl.gz", "train-0.jsonl.checked", "test.jsonl"):
        (tmp_path / name).touch()
    return tmp_path


def test_wildcards_name_manifests_in_the_order_of_their_names(folder):
    names = [path.name for path in shards_of(folder / "train-*")]
    assert names == ["train-0.jsonl", "train-1.jsonl.gz", "train-2.jsonl"]
    assert shards_of(folder / "train-[12]*") == [folder / "train-1.jsonl.gz", folder / "train-2.jsonl"]
    assert has_manifest(folder / "train-?.jsonl")


def test_name_of_a_file_means_that_file_even_with_brackets(folder):
    odd = folder / "train-[0].jsonl"
    odd.touch()
    for path in (folder / "test.jsonl", folder / "none.jsonl", odd):
        assert shards_of(path) == [path]
    assert has_manifest(odd)
    assert not has_manifest(folder / "none.jsonl")


def test_wildcards_without_a_manifest_are_refused(folder):
    (folder / "dev-0.txt").touch()
    assert not has_manifest(folder / "dev-*")
    with pytest.raises(UserError, match=r"dev-\*: no manifest has such a name; expected files that end in"):
        shards_of(folder / "dev-*")
    with pytest.raises(UserError, match=r"wildcards in the name of the files only"):
        shards_of(folder / "*" / "train.jsonl")


def test_corpus_is_named_as_if_it_were_in_one_file(folder):
    for name, single in (
        ("train-*.jsonl", "train.jsonl"),
        ("train-?.jsonl.gz", "train.jsonl"),
        ("*.jsonl", "all.jsonl"),
        ("train-1.jsonl.gz", "train-1.jsonl"),
        ("test.jsonl", "test.jsonl"),
        ("list.txt", "list.txt"),
    ):
        assert single_file(folder / name) == folder / single
    assert [is_manifest_name(name) for name in ("a.jsonl", "a.JSONL.gz", "a.gz", "a.tsv")] == [1, 1, 0, 0]


def test_damaged_gzip_is_reported_by_its_name(tmp_path):
    whole = gzip.compress(b"a line\n" * 1000)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(whole)
    with open_shard(path) as file:
        assert file.read() == b"a line\n" * 1000
    overwritten = whole[:20] + b"\xff" * 30 + whole[50:]
    for data in (whole[: len(whole) // 2], whole[:12], b"not compressed", overwritten):
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"a\.jsonl\.gz: expected a whole gzip file, .*; write it again"):
            read(path)


def read(path: Path):
    with open_shard(path) as file:
        return list(file)
