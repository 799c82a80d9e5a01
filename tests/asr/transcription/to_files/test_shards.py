"""Test the division among jobs; tests/asr/cli/test_transcribe.py transcribes with it."""

from pathlib import Path

import pytest

from asr.base.errors import UserError
from asr.transcription import recognizer
from asr.transcription.to_files.shards import Shard, merge_shards

SOURCES = [Path(f"{number}.wav") for number in range(10)]


@pytest.mark.parametrize("count", [1, 3, 5, 10, 16])
def test_each_recording_is_in_one_shard_and_in_order(count):
    shards = [Shard(number, count).of(SOURCES, 1) for number in range(1, count + 1)]
    assert [source for shard in shards for source in shard] == SOURCES
    assert max(map(len, shards)) <= -(-len(SOURCES) // count)


def test_shards_are_of_whole_chunks_where_there_are_enough(monkeypatch):
    monkeypatch.setattr(recognizer, "FILES_AT_ONCE", 3)
    assert [len(Shard(number, 2).of(SOURCES, 1)) for number in (1, 2)] == [6, 4]
    assert [len(Shard(number, 2).of(SOURCES, 2)) for number in (1, 2)] == [6, 4]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1 / 4"])
def test_what_is_not_a_shard_is_refused(text):
    with pytest.raises(UserError, match="such as 3/16"):
        Shard.read(text)


def write(folder, *names):
    for name in names:
        (folder / name).write_text(f"{name}\n", encoding="utf-8")


def test_missing_and_unfinished_shards_are_named(tmp_path):
    write(tmp_path, "all-10-of-12.jsonl", "all-2-of-12.jsonl.unfinished")
    with pytest.raises(UserError, match=r"11 of 12 shards missing .*all-1-of-12.*6 more.*1 shard of them"):
        merge_shards(tmp_path / "all.jsonl")


@pytest.mark.parametrize("names", [[], ["other-1-of-2.jsonl"], ["all-1-of-2.csv"]])
def test_files_of_other_names_are_no_shards(tmp_path, names):
    write(tmp_path, *names)
    with pytest.raises(UserError, match="found none"):
        merge_shards(tmp_path / "all.jsonl")
    with pytest.raises(UserError, match="found none"):
        merge_shards(tmp_path / "missing" / "all.jsonl")


def test_shards_of_two_divisions_are_refused(tmp_path):
    write(tmp_path, "all-1-of-1.jsonl", "all-1-of-2.jsonl")
    with pytest.raises(UserError, match="of 1 and of 2"):
        merge_shards(tmp_path / "all.jsonl")


def test_shards_are_in_the_order_of_their_numbers(tmp_path):
    names = [f"[a]-{number}-of-11.txt" for number in range(1, 12)]
    write(tmp_path, *reversed(names))
    assert merge_shards(tmp_path / "[a].txt") == 11
    assert (tmp_path / "[a].txt").read_text(encoding="utf-8").split() == names


def test_another_table_is_no_shard(tmp_path):
    write(tmp_path, "all-1-of-1.csv")
    with pytest.raises(UserError, match="another table"):
        merge_shards(tmp_path / "all.csv")
    assert not (tmp_path / "all.csv").exists()
