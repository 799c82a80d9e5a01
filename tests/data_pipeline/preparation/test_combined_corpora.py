"""Several corpora become one training set, in which every utterance names its corpus."""

import contextlib
import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.corpora.forms import build_librispeech

from asr.base.config import DataConfig
from asr.base.errors import UserError
from asr.base.system.lock import exclusive_lock
from data_pipeline.doctor.findings import sources_to_examine
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.combined_corpora import (
    CorpusPart,
    JointCorpora,
    folder_of,
    parts_of,
    prepare_joint,
    weights_of,
)
from data_pipeline.preparation.description import PreparedCorpus


def build(folder: Path, sentences: dict[str, str], splits=("train", "dev", "test")) -> Path:
    """Write a corpus of the form "table" with a speaker for each sentence, all of them in every split."""
    folder.mkdir(parents=True)
    for split in splits:
        rows = ["path,text,speaker"]
        for speaker, sentence in sentences.items():
            soundfile.write(folder / f"{split}-{speaker}.wav", np.full(8000, 0.1), 16000)
            rows.append(f"{split}-{speaker}.wav,{sentence},{speaker}")
        (folder / f"{split}.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture
def parts(tmp_path):
    build(tmp_path / "source" / "one", {"a": "今天天气很好", "b": "长大"})
    build(tmp_path / "source" / "two", {"a": "再见"}, ("train", "dev"))
    return parts_of("one=table, two=table", str(tmp_path / "source"))


def ids(joint, split):
    return {utterance.id for utterance in read_manifest(joint.manifests[split])}


def test_manifests_hold_all_corpora_under_names_of_their_own(parts, tmp_path):
    joint = prepare_joint(parts, tmp_path / "data")
    assert joint.folder == tmp_path / "data" / "one+two"
    train = {utterance.id: utterance for utterance in read_manifest(joint.manifests["train"])}
    assert {u.corpus for u in train.values()} == {"one", "two"}
    assert {u.speaker for u in train.values()} == {"one-a", "one-b", "two-a"}
    assert all(Path(u.audio_path).is_file() and u.id.startswith(f"{u.corpus}-") for u in train.values())
    assert len(ids(joint, "dev")) == 3
    assert len(ids(joint, "test")) == 2
    assert joint.train == {"one": (2, 1.0), "two": (1, 0.5)}
    shares = joint.lines({"two": 6.0})[-2:]
    assert [line.split()[-4] for line in shares] == ["25%", "75%"]


def test_further_test_sets_of_joint_corpora_are_named(tmp_path):
    one, two = (PreparedCorpus(name, tmp_path / name, {}) for name in ("one", "two"))
    far = tmp_path / "two" / "test_far.jsonl"
    two = dataclasses.replace(two, manifests={"test": tmp_path / "two" / "test.jsonl", "test_far": far})
    joint = JointCorpora(tmp_path, {}, [one, two], {"one": (1, 1.0), "two": (1, 1.0)})
    assert joint.lines({})[-1] == f"  not evaluated; data.more_tests may name them: {far}"
    single = JointCorpora(tmp_path, {}, [two])
    assert not any("not evaluated" in line for line in single.lines({}))


def test_corpora_joined_with_other_units_before_are_refused_and_stay(parts, tmp_path):
    before = prepare_joint(parts, tmp_path / "data", "characters").manifests["train"].read_bytes()
    with pytest.raises(UserError, match=r"one\+two: prepared with units 'characters', expected 'bpe:30'"):
        prepare_joint(parts, tmp_path / "data", "bpe:30")
    assert (tmp_path / "data" / "one+two" / "train.jsonl").read_bytes() == before


def test_names_that_two_corpora_would_share_are_refused(tmp_path):
    build(tmp_path / "source" / "mine", {"old-c1": "你好", "a": "再见"})
    build(tmp_path / "source" / "mine-old", {"c1": "长大"})
    for split in ("train", "dev", "test"):
        (tmp_path / "source" / "mine-old" / f"{split}-c1.wav").rename(
            tmp_path / "source" / "mine-old" / f"x{split}-c1.wav"
        )
        table = tmp_path / "source" / "mine-old" / f"{split}.csv"
        table.write_text(table.read_text("utf-8").replace(f"{split}-c1.wav", f"x{split}-c1.wav"), "utf-8")
    parts = parts_of("mine=table, mine-old=table", str(tmp_path / "source"))
    with pytest.raises(UserError, match="mine and mine-old would both have the speaker 'mine-old-c1'"):
        prepare_joint(parts, tmp_path / "data")


def test_all_missing_sources_are_named_before_anything_is_prepared(parts, tmp_path):
    wrong = [*parts, *parts_of("lost=table, gone=json_lines", f"lost={tmp_path / 'nowhere'}")]
    with pytest.raises(UserError) as error:
        prepare_joint(wrong, tmp_path / "data")
    lost, gone = str(error.value).splitlines()
    assert lost.startswith(f"lost (table): no folder '{tmp_path / 'nowhere'}'")
    assert gone.startswith('gone (json_lines): no folder given; set data.source="gone=FOLDER"')
    assert not (tmp_path / "data").exists()


def test_prepared_corpora_do_not_need_their_sources(parts, tmp_path):
    before = prepare_joint(parts, tmp_path / "data")
    shutil.rmtree(tmp_path / "source")
    assert prepare_joint(parts, tmp_path / "data").manifests == before.manifests


def test_one_corpus_keeps_its_own_manifests(parts, tmp_path):
    joint = prepare_joint(parts[:1], tmp_path / "data")
    assert joint.manifests["train"] == tmp_path / "data" / "one" / "train.jsonl"
    assert {u.corpus for u in read_manifest(joint.manifests["train"])} == {""}


@pytest.mark.parametrize(("asked", "held_out"), [("one-a", {"one-a"}), ("a", {"one-a", "two-a"})])
def test_held_out_speakers_are_in_the_test_set_alone(asked, held_out, parts, tmp_path):
    joint = prepare_joint(parts, tmp_path / "data", held_out_speakers=asked)
    speakers = {
        split: [(u.corpus, u.speaker) for u in read_manifest(path)] for split, path in joint.manifests.items()
    }
    for split in ("train", "dev"):
        assert not held_out & {speaker for _, speaker in speakers[split]}
    # three utterances of each, from all splits; the other speaker of their corpus is no longer tested
    assert [speaker for corpus, speaker in speakers["test"] if corpus == "one"] == 3 * ["one-a"]
    assert joint.folder.name == f"one+two-without-{asked}"


def test_unknown_held_out_speaker_is_refused_with_the_known_ones(parts, tmp_path):
    with pytest.raises(UserError, match=r"no speaker c; there are one-a, one-b, two-a"):
        prepare_joint(parts, tmp_path / "data", held_out_speakers="c")
    with pytest.raises(UserError, match="left to train on"):
        prepare_joint(parts, tmp_path / "data", held_out_speakers="a, b")


def test_unchanged_manifest_is_not_written_again(parts, tmp_path):
    before = prepare_joint(parts, tmp_path / "data").manifests["train"]
    state = before.stat()
    assert prepare_joint(parts, tmp_path / "data").manifests["train"].stat().st_ino == state.st_ino
    before.write_bytes(before.read_bytes()[:-2])
    assert len(read_manifest(prepare_joint(parts, tmp_path / "data").manifests["train"])) == 3


def test_second_process_waits_until_the_corpora_are_joined(parts, tmp_path):
    target = prepare_joint(parts, tmp_path).folder
    before = {path.name: path.read_text() for path in target.glob("*.jsonl")}
    tasks = []
    with contextlib.ExitStack() as first:
        first.enter_context(exclusive_lock(target, "joining corpora"))

        def on_progress(work):
            tasks.append(work.task)
            first.close()  # the first process ends while the second waits

        prepare_joint(parts, tmp_path, on_progress=on_progress)
    assert tasks == ["waiting for another training that joins these corpora"]
    assert {path.name: path.read_text() for path in target.glob("*.jsonl")} == before


def test_labels_of_different_units_are_refused(tmp_path):
    build(tmp_path / "chinese", {"a": "今天天气很好"})
    build_librispeech(tmp_path / "librispeech")
    parts = parts_of("chinese=table, librispeech", str(tmp_path))
    with pytest.raises(UserError, match=r"syllables of chinese, \w+ of librispeech; set data\.units"):
        prepare_joint(parts, tmp_path / "data")


def test_sources_are_named_or_found_by_their_names():
    assert parts_of("thchs30", "a, b=c") == [CorpusPart("thchs30", "thchs30", "a, b=c")]
    assert parts_of("mine=table", "x.csv") == [CorpusPart("mine", "table", "x.csv")]
    assert parts_of("thchs30, mine=table, mandarin_demo", "corpora, mine=x.csv") == [
        CorpusPart("thchs30", "thchs30", str(Path("corpora", "thchs30"))),
        CorpusPart("mine", "table", "x.csv"),
        CorpusPart("mandarin_demo", "mandarin_demo", str(Path("corpora", "mandarin_demo"))),
    ]


@pytest.mark.parametrize(
    ("corpora", "sources", "message"),
    [
        ("table, table", "", r"table appears twice; .* table_a=table"),
        ("a=table, b=table", "c=x", r"data\.source: c is not among the corpora a, b"),
        ("a=table, b=table", "x, y", r"x and y have no name"),
        ("a=table, b=table", "a=", r"expected NAME=VALUE"),
        ("a/b=table, b=table", "", r"expected a name, received 'a/b'"),
    ],
)
def test_broken_settings_name_their_key(corpora, sources, message):
    with pytest.raises(UserError, match=message):
        parts_of(corpora, sources)


def test_weights_are_positive_and_of_known_corpora():
    assert weights_of("one=2, two = 0.25", ["one", "two"]) == {"one": 2.0, "two": 0.25}
    assert weights_of("", ["one", "two"]) == {}
    for broken in ("one=0", "one=-1", "one=nan", "one=x", "one=1e9"):
        with pytest.raises(UserError, match=r"data\.weights: one: expected a number above 0"):
            weights_of(broken, ["one", "two"])
    with pytest.raises(
        UserError, match=r"data\.weights: on is not among the corpora one, two \(did you mean one"
    ):
        weights_of("on=1", ["one", "two"])


@pytest.mark.parametrize("names", [[], ["demo"]])
def test_weights_of_a_single_corpus_are_refused(names):
    assert weights_of(" ", names) == {}
    with pytest.raises(UserError, match=r"data.weights: expected several corpora .* received 'demo=2'"):
        weights_of("demo=2", names)


def test_long_names_give_one_folder_each():
    many = [CorpusPart(f"corpus_of_recordings_{number}", "table") for number in range(10)]
    names = {folder_of(some, Path("data")).name for some in (many, many[:9], [*many[1:], many[0]])}
    assert len(names) == 3
    assert max(map(len, names)) < 200


def test_doctor_finds_the_joint_manifests(parts, tmp_path):
    joint = prepare_joint(parts, tmp_path / "data")
    settings = DataConfig(corpus="one=table, two=table", prepared_dir=str(tmp_path / "data"))
    assert {source.path for source in sources_to_examine([], settings)} == set(joint.manifests.values())
