"""lhotse's Shar, laid out as `lhotse.shar.SharWriter` of version 1.33 writes it."""

import gzip
import json
from pathlib import Path

import pytest
from helpers.corpora.tar_archives import flac, write_tar

from asr.base.errors import UserError
from data_pipeline.corpora.forms import tar_shards
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus


def cut(name, duration_s, *supervisions):
    """Return a line of a list of cuts; supervisions are (id, start, duration, text)."""
    return {
        "id": name,
        "start": 0,
        "duration": duration_s,
        "channel": 0,
        "supervisions": [
            {
                **{"id": one, "recording_id": name, "start": start, "duration": length, "channel": 0},
                **{"text": text, "language": "Chinese", "speaker": "s1"},
            }
            for one, start, length, text in supervisions
        ],
        "recording": {"id": name, "sources": [{"type": "shar", "channels": [0], "source": ""}]},
        "type": "MonoCut",
    }


def write_shar(folder, number, cuts, audio):
    files = {}
    for name, content in audio.items():
        files |= {f"{name}.flac": content, f"{name}.json": json.dumps({"id": name})}
    write_tar(folder / f"recording.{number:06d}.tar", files)
    with gzip.open(folder / f"cuts.{number:06d}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{json.dumps(one)}\n" for one in cuts))


@pytest.fixture
def shar(tmp_path):
    folder = tmp_path / "shar"
    one = cut("a.1-0", 0.5, ("sup-1", 0.0, 0.5, "你好"))
    two = cut("talks/b", 2.0, ("sup-2", 0.1, 0.8, "世界"), ("sup-3", 1.0, 1.0, "再见"))
    write_shar(folder, 0, [one, two], {"a.1-0": flac(1), "talks/b": flac(2, 2.0)})
    write_shar(folder, 1, [cut("c", 0.5, ("sup-4", 0.0, 0.5, "谢谢"))], {"c": flac(3)})
    return folder


def read(source):
    return tar_shards.CORPUS.read(Path(source), Path("unused"))


def test_supervisions_are_utterances_with_their_times(shar):
    (found,) = read(shar).splits.values()
    assert [(one.id, one.text, one.speaker, one.begin_s, one.end_s) for one in found] == [
        ("a.1-0", "你好", "s1", 0.0, None),
        ("sup-2", "世界", "s1", 0.1, pytest.approx(0.9)),
        ("sup-3", "再见", "s1", 1.0, 2.0),
        ("c", "谢谢", "s1", 0.0, None),
    ]


def test_prepared_utterances_have_the_length_of_their_supervisions(shar, tmp_path):
    prepared = prepare_corpus("tar_shards", str(shar), tmp_path / "data")
    utterances = [u for path in prepared.manifests.values() for u in read_manifest(path)]
    assert {u.text: round(u.duration_s, 2) for u in utterances} == {
        "你好": 0.5,
        "世界": 0.8,
        "再见": 1.0,
        "谢谢": 0.5,
    }


def test_folders_name_the_splits(shar):
    shar.rename(shar.parent / "train")
    other = shar.parent / "dev"
    write_shar(other, 0, [cut("d", 0.5, ("sup-5", 0.0, 0.5, "谢谢"))], {"d": flac(4)})
    assert {split: len(found) for split, found in read(shar.parent).splits.items()} == {"dev": 1, "train": 4}


def test_cuts_of_one_name_get_the_numbers_of_their_lists(shar):
    write_shar(shar, 2, [cut("c", 0.5, ("sup-9", 0.0, 0.5, "好"))], {"c": flac(4)})
    (found,) = read(shar).splits.values()
    assert [one.id for one in found][-2:] == ["000001-c", "000002-c"]


def test_archives_without_a_list_of_cuts_are_said(shar):
    (shar / "cuts.000001.jsonl.gz").unlink()
    (out,) = read(shar).left_out
    assert (out.what, out.reason) == (str(shar / "recording.000001.tar"), "archive without a list of cuts")


def test_what_is_wrong_with_a_cut_is_said(shar):
    broken = {**cut("d", 0.5), "supervisions": 5}
    cuts = [cut("none", 0.5, ("x", 0.0, 0.5, "好")), broken, cut("e", 0.5, ("y", "?", 0.5, "好")), 3]
    write_shar(shar, 2, cuts, {"d": flac(4), "e": flac(5)})
    reading = read(shar)
    assert [(out.what.rpartition("/")[2], out.reason) for out in reading.left_out] == [
        ("cuts.000002.jsonl.gz:1", "transcript without audio"),
        ("cuts.000002.jsonl.gz:2", "audio without a transcript"),
        ("cuts.000002.jsonl.gz:3", "time is not a number"),
        ("cuts.000002.jsonl.gz:4", "not a JSON object"),
    ]


def test_missing_archive_and_damaged_list_raise(shar):
    path = shar / "cuts.000001.jsonl.gz"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(UserError, match=r"cuts\.000001\.jsonl\.gz: cut off or damaged"):
        read(shar)
    (shar / "recording.000001.tar").unlink()
    with pytest.raises(UserError, match=r"recording\.000001\.tar: not there"):
        read(shar)
