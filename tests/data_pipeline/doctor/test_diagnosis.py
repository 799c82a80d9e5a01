import json
from pathlib import Path

import pytest
from helpers.corpora.defects import DEFECTS, SmallCorpus, examine, examine_paths

from asr.base.config import load_config
from asr.base.errors import UserError
from data_pipeline.doctor.clean_manifests import LEFT_OUT, clean_paths, write_clean
from data_pipeline.doctor.comparisons import id_findings
from data_pipeline.doctor.contents import read_contents
from data_pipeline.doctor.diagnosis import Diagnosis, as_json
from data_pipeline.doctor.findings import KINDS, sources_of, sources_to_examine
from data_pipeline.manifests.manifest import read_manifest

# defects that are correctly reported twice
ALSO = {
    "audio_is_longer_than_training_takes": {"unusual-length", "speaking-rate"},
    "text_was_read_in_gbk": {"text-and-tokens"},
    "tokens_and_their_repeats_exceed_the_frames": {"speaking-rate"},
    "token_has_lost_a_character": {"odd-token"},
    "token_holds_a_byte_order_mark": {"odd-token"},
    "token_is_the_blank": {"odd-token"},
}
TESTED_ELSEWHERE = {"decoder-stopped"}  # in tests/data_pipeline/doctor/test_workers.py
CASES = [(code, spoil) for code, spoils in DEFECTS.items() for spoil in spoils]
LEFT_OUT_CASES = [(code, spoil) for code, spoil in CASES if KINDS[code].left_out]


@pytest.fixture
def corpus(tmp_path: Path) -> SmallCorpus:
    return SmallCorpus(tmp_path)


def codes(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings}


def test_intact_corpus_has_no_findings(corpus):
    assert examine(corpus).findings == []


@pytest.mark.parametrize(("code", "spoil"), CASES, ids=[spoil.__name__ for _, spoil in CASES])
def test_defect_gives_its_finding_and_no_other(corpus, code, spoil):
    spoil(corpus)
    diagnosis = examine(corpus)
    assert codes(diagnosis) == {code} | ALSO.get(spoil.__name__, set())
    first = next(finding for finding in diagnosis.findings if finding.code == code)
    if KINDS[code].left_out:
        assert first.line in range(1, 27)
        assert (first.source, first.line) in diagnosis.left_out()
    else:
        assert not diagnosis.left_out()


def test_every_kind_of_finding_is_tested():
    assert DEFECTS.keys() | TESTED_ELSEWHERE == KINDS.keys()


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["train.jsonl", "dev.jsonl", "test.jsonl"], ["train", "dev", "test"]),
        (["test.jsonl", "my-train.jsonl", "validation_2.jsonl"], ["test", "train", "dev"]),
        (["a.jsonl", "b.jsonl", "c.jsonl"], ["train", "dev", "test"]),
        (["a.jsonl", "b.jsonl"], ["train", "test"]),
        (["train.jsonl", "other.jsonl"], ["train", "test"]),
        (["contest.jsonl"], ["train"]),
        (["train-1.jsonl", "train-2.jsonl"], ["train", "train"]),
        (["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"], ["train", "dev", "test", "test"]),
    ],
)
def test_role_of_a_manifest_follows_its_name_or_its_position(names, roles):
    assert [source.role for source in sources_of([Path(name) for name in names])] == roles


def test_recording_in_two_training_manifests_is_kept_once(corpus):
    corpus.records = {"train-a": corpus.records["train"], "train-b": [corpus.train()]}
    corpus.extra = {"train-a": b"", "train-b": b""}
    diagnosis = examine(corpus)
    assert [finding.code for finding in diagnosis.findings] == ["repeated-audio", "shared-id"]
    assert {(source.path.name, line) for source, line in diagnosis.left_out()} == {("train-b.jsonl", 1)}


def test_shards_are_examined_as_one_manifest_whose_ids_are_unique(tmp_path):
    first = {"id": "a", "audio": "a.wav", "duration_s": 1.0, "tokens": "x"}
    for number, name in enumerate("aba"):
        line = json.dumps(first | {"id": name, "audio": f"{number}.wav"})
        (tmp_path / f"train-{number}.jsonl").write_text(f"{line}\n", encoding="utf-8")
    sources = sources_to_examine([tmp_path / "train-*"], load_config("demo").data)
    assert [(source.path.name, source.role) for source in sources] == [
        (f"train-{number}.jsonl", "train") for number in range(3)
    ]
    (found,) = id_findings(read_contents(sources).entries)
    assert (found.code, found.source, found.line) == ("repeated-id", sources[2], 1)
    assert found.detail == "also in line 1 of train-0.jsonl, which is kept"


@pytest.mark.parametrize(
    ("code", "spoil"), LEFT_OUT_CASES, ids=[spoil.__name__ for _, spoil in LEFT_OUT_CASES]
)
def test_clean_manifest_has_no_errors_when_examined_again(corpus, tmp_path, code, spoil):
    spoil(corpus)
    found = examine(corpus)
    written = write_clean(found, tmp_path / "clean")
    assert {path.name: len(read_manifest(path)) for path in written} == {
        path.name: count for path, count in written.items()
    }
    assert sum(written.values()) == len(found.contents.entries) - len(
        found.left_out() & {(entry.source, entry.line) for entry in found.contents.entries}
    )
    reasons = (tmp_path / "clean" / LEFT_OUT).read_text(encoding="utf-8").splitlines()
    assert len(reasons) == len(found.left_out())
    assert all(
        reason.startswith(f"{tmp_path}/train.jsonl:") and KINDS[code].title in reason for reason in reasons
    )
    again = examine_paths(sorted(written, reverse=True), corpus.vocabulary)
    assert not again.counts()["error"]
    assert not again.left_out()
    assert len(again.contents.entries) >= 26


def test_utterances_shared_by_train_and_test_are_reported_and_kept(corpus, tmp_path):
    corpus.test().update(tokens=corpus.train()["tokens"], speaker=corpus.train()["speaker"])
    written = write_clean(examine(corpus), tmp_path / "clean")
    assert list(written.values()) == [24, 4]
    assert (tmp_path / "clean" / LEFT_OUT).read_text() == ""


def test_manifest_without_usable_lines_is_not_written(corpus, tmp_path):
    for record in corpus.records["test"]:
        record["tokens"] = ""
    stale = tmp_path / "clean" / "test.jsonl"
    stale.parent.mkdir()
    stale.write_text("an older one")
    assert list(write_clean(examine(corpus), stale.parent)) == [stale.parent / "train.jsonl"]
    assert not stale.exists()


def test_clean_manifests_overwrite_neither_examined_ones_nor_each_other(corpus, tmp_path):
    diagnosis = examine(corpus)
    with pytest.raises(UserError, match=r"train\.jsonl: a clean manifest would overwrite"):
        write_clean(diagnosis, corpus.folder)
    paths = [tmp_path / "a" / "train.jsonl", tmp_path / "b" / "train.jsonl"]
    clean = clean_paths(sources_of(paths), tmp_path / "clean")
    assert [path.name for path in clean.values()] == ["a-train.jsonl", "b-train.jsonl"]


def test_speaking_rates_are_compared_only_among_enough_utterances(corpus):
    corpus.train().update(tokens="yi1", text="一")
    assert codes(examine(corpus)) == {"speaking-rate"}
    corpus.records = {"train": corpus.records["train"][:15], "test": []}
    assert "speaking-rate" not in codes(examine(corpus))


def test_unknown_speakers_of_two_sets_are_not_the_same_one(corpus):
    for record in (*corpus.records["train"], *corpus.records["test"]):
        record["speaker"] = ""
    assert codes(examine(corpus)) == {"no-speaker"}


def test_json_lists_every_finding_with_its_place(corpus):
    corpus.audio(3).unlink()
    corpus.test()["speaker"] = ""
    report = json.loads(json.dumps(as_json(examine(corpus))))
    assert not report["sound"]
    assert [(f["code"], f["severity"], f["line"], f["id"]) for f in report["findings"]] == [
        ("missing-audio", "error", 4, "train-3"),
        ("no-speaker", "note", 0, ""),
    ]
    assert report["findings"][0]["audio"] == str(corpus.audio(3))
    assert report["kinds"][0]["count"] == 1
    train, test = report["manifests"]
    assert (train["utterances"], train["left_out"], train["errors"], train["role"]) == (24, 1, 1, "train")
    assert (test["utterances"], test["notes"], test["speakers"]) == (4, 1, 3)
