import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.object_storage import object_storage

from asr.base.errors import UserError
from asr.base.system.storage.address import path_of
from data_pipeline.labels.corrections import corrections, write_corrected
from data_pipeline.manifests.manifest import read_manifest

LINES = [
    {
        "id": "a",
        "audio": "audio/a.wav",
        "duration_s": 1.23456789,
        "text": "银行",
        "tokens": "yin2 xing2",
        "by": "me",
    },
    {"id": "b", "audio": "../b.wav", "duration_s": 2, "tokens": "hao3", "speaker": "ann"},
    {"id": "c", "audio": "/elsewhere/c.wav", "duration_s": 3.0, "text": "好", "tokens": "hao3"},
]


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "corpus" / "train.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in LINES), encoding="utf-8")
    return path


def accepted(name, reference, suggested, line=2):
    return SimpleNamespace(
        id=name, reference=tuple(reference.split()), suggested=tuple(suggested.split()), line=line
    )


def changed_by(manifest, *rows, unit="syllables"):
    return corrections(read_manifest(manifest), rows, unit, manifest.parent / "review.csv")


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_accepted_labels_change_and_the_old_manifest_stays(manifest):
    before = manifest.read_bytes()
    out = manifest.with_name("new.jsonl")
    changed = changed_by(manifest, accepted("a", "yin2 xing2", "yin2 hang2"), accepted("b", "hao3", "hao3"))
    write_corrected(manifest, out, changed)
    assert lines_of(out) == [LINES[0] | {"tokens": "yin2 hang2"}, LINES[1], LINES[2]]
    assert manifest.read_bytes() == before
    assert [correction.utterance.id for correction in changed] == ["a"]


@pytest.mark.parametrize("where", ["corpus/new.jsonl", "new.jsonl", "else/where/new.jsonl"])
def test_audio_paths_refer_to_the_same_files_from_another_folder(manifest, tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    write_corrected(manifest, tmp_path / where, [])
    old, new = read_manifest(manifest), read_manifest(tmp_path / where)
    for one, other in zip(old, new, strict=True):
        assert os.path.realpath(one.audio_path) == os.path.realpath(other.audio_path)
    if where == "new.jsonl":
        assert [line["audio"] for line in lines_of(tmp_path / where)][:2] == ["corpus/audio/a.wav", "b.wav"]


def test_audio_paths_in_object_storage_refer_to_the_same_files(tmp_path):
    there = "s3://elsewhere/clips/b.wav"
    lines = [LINES[1] | {"audio": "audio/a.wav"}, LINES[2] | {"audio": there}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "train.jsonl").write_text(text, encoding="utf-8")
    with object_storage() as bucket:
        stored = path_of(bucket.put(text.encode(), "corpus/train.jsonl"))
        changed = changed_by(stored, accepted("c", "hao3", "hao4"))
        for number, (manifest, audio) in enumerate(
            [
                (stored, f"{bucket.address}/corpus/audio/a.wav"),
                (Path(str(stored)), f"{bucket.address}/corpus/audio/a.wav"),
                (tmp_path / "local" / "train.jsonl", "local/audio/a.wav"),
            ]
        ):
            write_corrected(manifest, tmp_path / f"{number}.jsonl", changed)
            written = lines_of(tmp_path / f"{number}.jsonl")
            assert [(line["audio"], line["tokens"]) for line in written] == [(audio, "hao3"), (there, "hao4")]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (accepted("d", "hao3", "hao4"), r"review\.csv:2: d: no such id"),
        (
            accepted("a", "yin2 hang2", "yin2 xing2"),
            "reviewed as 'yin2 hang2', but the manifest has 'yin2 xing2'",
        ),
        (accepted("a", "yin2 xing2", "yin2 heng9"), "heng9: not a Mandarin syllable"),
        (accepted("a", "yin2 xing2", "yin2 háng"), "háng: not a Mandarin syllable"),
        (accepted("a", "yin2 xing2", ""), "no suggested tokens"),
    ],
)
def test_line_that_does_not_fit_the_manifest_raises(manifest, row, message):
    with pytest.raises(UserError, match=message):
        changed_by(manifest, row)


def test_error_lists_ten_mistakes_and_counts_the_others(manifest):
    with pytest.raises(UserError) as raised:
        changed_by(manifest, *(accepted(f"none{line}", "hao3", "hao4", line) for line in range(2, 15)))
    lines = str(raised.value).splitlines()
    assert len(lines) == 12
    assert lines[-2] == "and 3 more"
    assert lines[-1] == "nothing was written"


def test_suggested_characters_must_be_single_and_words_may_be_any(manifest):
    assert changed_by(manifest, accepted("b", "hao3", "好 吗"), unit="characters")
    with pytest.raises(UserError, match="好吗: expected characters with spaces"):
        changed_by(manifest, accepted("b", "hao3", "好吗"), unit="characters")
    assert changed_by(manifest, accepted("b", "hao3", "hello"), unit="words")


@pytest.mark.parametrize(
    ("unit", "suggested", "unknown"),
    [("mixed", "zhong9 ma5 A APP ▁i lv", "zhong9, APP, lv"), ("pieces", "ma5 ▁i A phone", "ma5, A")],
)
def test_suggested_pieces_must_be_in_the_model_or_the_manifest(manifest, unit, suggested, unknown):
    row, pieces = accepted("b", "hao3", suggested), ("▁i", "phone")
    with pytest.raises(UserError, match=f"b: {unknown}: not a .* of these labels"):
        corrections(read_manifest(manifest), [row], unit, manifest.parent / "review.csv", pieces)


def test_lone_surrogate_in_another_field_stays_an_escape(manifest):
    line = LINES[0] | {"note": "\ud800"}
    manifest.write_text(json.dumps(line) + "\n", encoding="utf-8")
    out = manifest.with_name("new.jsonl")
    write_corrected(manifest, out, changed_by(manifest, accepted("a", "yin2 xing2", "yin2 hang2")))
    assert lines_of(out) == [line | {"tokens": "yin2 hang2"}]


def test_existing_file_is_not_overwritten(manifest):
    for path in (manifest, manifest.parent):
        with pytest.raises(UserError, match="exists already"):
            write_corrected(manifest, path, [])


def test_corrected_shards_become_one_manifest(manifest, tmp_path):
    lines = manifest.read_bytes().splitlines(keepends=True)
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "train-0.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:2])))
    (folder / "train-1.jsonl").write_bytes(lines[2])
    changed = changed_by(folder / "train-*", accepted("c", "hao3", "hao4"))
    write_corrected(folder / "train-*", folder / "new.jsonl", changed)
    assert lines_of(folder / "new.jsonl") == [*LINES[:2], LINES[2] | {"tokens": "hao4"}]
