import dataclasses
import gzip
import re

import pytest

from asr.base.errors import UserError
from asr.base.types import Utterance
from asr.base.vocabulary import Vocabulary
from data_pipeline.batches.dataset import Dataset
from data_pipeline.manifests.manifest import holds_utterances, read_manifest, write_manifest

NUM = 90


@pytest.fixture
def utterances(tmp_path):
    folder = tmp_path / "corpus"
    return [
        Utterance(f"a-{n}", str(folder / f"audio/{n}.wav"), 1 + n / 8, "你好", ("ni3", "hao3")[: n % 3])
        for n in range(NUM)
    ]


@pytest.fixture
def sharded(utterances, tmp_path):
    """Return the name of three shards, of which the second is compressed."""
    folder = tmp_path / "corpus"
    write_manifest(folder / "train.jsonl", utterances)
    for number, name in enumerate(("train-0.jsonl", "train-1.jsonl.gz", "train-2.jsonl")):
        write_manifest(folder / name, utterances[number * 30 : number * 30 + 30])
    return folder / "train-*"


def test_shards_are_read_as_one_file_with_all_their_lines(utterances, sharded):
    whole = read_manifest(sharded.with_name("train.jsonl"))
    assert read_manifest(sharded) == utterances == whole
    vocabulary = Vocabulary(["ni3", "hao3"])
    one, other = Dataset(whole, vocabulary, 30.0), Dataset(read_manifest(sharded), vocabulary, 30.0)
    assert other.checksum == one.checksum
    assert other.epoch(3, 1, lambda n, _: True)[0] == one.epoch(3, 1, lambda n, _: True)[0]


def test_compressed_manifest_has_the_same_bytes_each_time(utterances, sharded):
    shard = sharded.with_name("train-1.jsonl.gz")
    first = shard.read_bytes()
    assert gzip.decompress(first).count(b"\n") == 30
    assert holds_utterances(shard, utterances[30:60])
    assert not holds_utterances(shard, utterances[30:59])
    write_manifest(shard, utterances[30:60])
    assert shard.read_bytes() == first


def test_errors_name_the_shard_and_its_line(sharded):
    for name, line in (("train-0.jsonl", 3), ("train-2.jsonl", 2)):
        path = sharded.with_name(name)
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[line - 1] = "[]"
        path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_manifest(sharded)
    assert re.findall(r"(train-\d\.jsonl:\d): expected a JSON object", str(error.value)) == [
        "train-0.jsonl:3",
        "train-2.jsonl:2",
    ]


def test_id_in_two_shards_is_refused_with_both_lines(utterances, sharded):
    again = dataclasses.replace(utterances[70], id="a-31")
    write_manifest(sharded.with_name("train-2.jsonl"), [*utterances[60:70], again])
    where = r"train-2\.jsonl: duplicate id 'a-31' in line 11 and in .*train-1\.jsonl\.gz:2;"
    with pytest.raises(UserError, match=where):
        read_manifest(sharded)


def test_id_twice_in_one_shard_is_refused_as_in_a_manifest_of_one_file(utterances, sharded):
    write_manifest(sharded.with_name("train-2.jsonl"), [*utterances[60:70], utterances[61]])
    with pytest.raises(UserError, match=r"train-2\.jsonl: duplicate id 'a-61' in lines 2 and 11;"):
        read_manifest(sharded)


def test_empty_and_half_written_shards_are_refused_by_their_names(sharded):
    second = sharded.with_name("train-1.jsonl.gz")
    whole = second.read_bytes()
    second.write_bytes(whole[:-20])
    with pytest.raises(UserError, match=r"train-1\.jsonl\.gz: .* half-written"):
        read_manifest(sharded)
    second.write_bytes(gzip.compress(b""))
    with pytest.raises(UserError, match=r"train-1\.jsonl\.gz: no utterances"):
        read_manifest(sharded)


def test_shard_that_is_missing_at_the_end_of_a_name_is_no_error_of_one_that_is_there(sharded):
    sharded.with_name("train-2.jsonl").unlink()
    assert len(read_manifest(sharded)) == 60
