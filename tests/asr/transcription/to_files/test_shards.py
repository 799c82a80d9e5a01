"""Test the division among jobs; tests/asr/cli/test_transcribe.py transcribes with it."""

import dataclasses
from pathlib import Path

import pytest

from asr.base.errors import UserError
from asr.transcription import file_recognizer
from asr.transcription.to_files import shards
from asr.transcription.to_files.shards import CSV_HEADER, Shard, ShardInfo, merge_shards

SOURCES = [Path(f"{number}.wav") for number in range(40)]


@pytest.mark.parametrize("count", [1, 3, 5, 40, 64])
def test_each_recording_is_in_one_shard_and_in_order(count):
    found = [Shard(number, count).of(SOURCES) for number in range(1, count + 1)]
    assert [source for shard in found for source in shard] == SOURCES
    assert max(map(len, found)) <= -(-len(SOURCES) // count)


def test_shards_are_of_whole_chunks_where_there_are_enough(monkeypatch):
    monkeypatch.setattr(file_recognizer, "FILES_AT_ONCE", 2)
    assert [len(Shard(number, 2).of(SOURCES)) for number in (1, 2)] == [20, 20]
    odd = SOURCES[:34]  # 17 chunks
    assert [len(Shard(number, 2).of(odd)) for number in (1, 2)] == [16, 18]
    monkeypatch.setattr(shards, "MIN_CHUNKS", 9)
    assert [len(Shard(number, 2).of(odd)) for number in (1, 2)] == [17, 17]


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/4/2", "1 / 4"])
def test_what_is_not_a_shard_is_refused(text):
    with pytest.raises(UserError, match="such as 3/16"):
        Shard.read(text)


def write(folder, *names, sources=SOURCES, model="m", format_name="jsonl", first=b""):
    """Write shards whose only line is their name."""
    for name in names:
        (folder / name).write_bytes(first + f"{name}\n".encode())
        ShardInfo.of(folder / name, sources, model, format_name).write(folder / name)


def test_missing_and_unfinished_shards_are_named(tmp_path):
    write(tmp_path, "all-10-of-12.jsonl", "all-11-of-12.jsonl")
    (tmp_path / "all-11-of-12.jsonl.unfinished").touch()  # it is being made again
    (tmp_path / "all-2-of-12.jsonl.unfinished").touch()
    with pytest.raises(UserError, match=r"11 of 12 shards missing or not finished .*all-1-of-12.*6 more"):
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
    write(tmp_path, *reversed(names), format_name="text")
    assert merge_shards(tmp_path / "[a].txt") == 11
    assert (tmp_path / "[a].txt").read_text(encoding="utf-8").split() == names


def test_tables_have_one_header_whatever_they_are_called(tmp_path):
    write(tmp_path, "all-1-of-2.tsv", "all-2-of-2.tsv", format_name="csv", first=CSV_HEADER)
    merge_shards(tmp_path / "all.tsv")
    assert (tmp_path / "all.tsv").read_bytes() == CSV_HEADER + b"all-1-of-2.tsv\nall-2-of-2.tsv\n"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"sources": SOURCES[:-1]}, "other recordings"),
        ({"model": "n"}, "another model or decoder"),
        ({"format_name": "text"}, "another format"),
    ],
)
def test_shards_of_different_transcriptions_are_refused(tmp_path, other, message):
    write(tmp_path, "all-1-of-2.jsonl")
    write(tmp_path, "all-2-of-2.jsonl", **other)
    with pytest.raises(UserError, match=rf"all-2-of-2\.jsonl: of {message} than all-1-of-2.jsonl"):
        merge_shards(tmp_path / "all.jsonl")
    assert not (tmp_path / "all.jsonl").exists()


def test_a_recording_that_has_grown_is_another_one(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"1")
    sources = [tmp_path / "a.wav"]
    write(tmp_path, "all-1-of-2.jsonl", sources=sources)
    (tmp_path / "a.wav").write_bytes(b"12")
    write(tmp_path, "all-2-of-2.jsonl", sources=sources)
    with pytest.raises(UserError, match="other recordings"):
        merge_shards(tmp_path / "all.jsonl")


def test_changed_shards_and_damaged_descriptions_are_refused(tmp_path):
    write(tmp_path, "all-1-of-1.jsonl")
    (tmp_path / "all-1-of-1.jsonl").write_text("old", encoding="utf-8")
    with pytest.raises(UserError, match="changed since it was written"):
        merge_shards(tmp_path / "all.jsonl")
    for content in ("", "[]", "{}", '{"recordings": 1}'):
        (tmp_path / "all-1-of-1.jsonl.shard").write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match="damaged; run this job again"):
            merge_shards(tmp_path / "all.jsonl")


def test_descriptions_have_no_path(tmp_path):
    write(tmp_path, "all-1-of-1.jsonl")
    info = dataclasses.asdict(ShardInfo.read(tmp_path / "all-1-of-1.jsonl"))
    assert str(tmp_path) not in str(info)
