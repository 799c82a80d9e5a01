"""The commands on a corpus and a run in a bucket give what they give on a disk."""

import dataclasses
import filecmp
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.object_storage import object_storage
from helpers.random_run import random_run

from asr.audio.recording import read_audio
from asr.base.config import load_config
from asr.base.errors import UserError
from asr.base.model_files import fetched
from asr.base.system.shards import shards_of
from asr.base.system.storage.address import path_of
from asr.base.system.storage.refusals import StorageError
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.runs.run import Run
from data_pipeline.batches.pack import pack_manifest
from data_pipeline.doctor import checked_files
from data_pipeline.manifests.manifest import read_manifest, write_manifest

QUICK = ["train.epochs=1", "train.tensorboard_utterances=0"]


@pytest.fixture(scope="module")
def corpus(clips, tmp_path_factory):
    """Return a corpus on a disk: shards, one of them compressed, a dev set, and recordings below them."""
    folder = tmp_path_factory.mktemp("corpus", numbered=False)
    (folder / "audio").mkdir()
    for clip in clips:
        shutil.copy(clip.audio_path, folder / "audio")
    below = [
        dataclasses.replace(clip, audio_path=str(folder / "audio" / Path(clip.audio_path).name))
        for clip in clips
    ]
    write_manifest(folder / "train-00000.jsonl", below[:5])
    write_manifest(folder / "train-00001.jsonl.gz", below[5:])
    write_manifest(folder / "dev.jsonl", below[:4])
    broken = [dataclasses.replace(one, audio_path=f"{folder}/{one.id}.wav") for one in below[:3]]
    write_manifest(folder / "broken.jsonl", broken)
    cut, empty, _ = (Path(one.audio_path) for one in broken)  # the third one is missing
    cut.write_bytes(Path(below[0].audio_path).read_bytes()[:-1000])
    empty.touch()
    return folder


@pytest.fixture(scope="module")
def packed(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed", numbered=False)
    pack_manifest(corpus / "train-*.jsonl*", folder, shard_bytes=100_000, kind="tar")
    pack_manifest(corpus / "dev.jsonl", folder, kind="tfrecord")
    return folder


@pytest.fixture(scope="module")
def bucket(corpus, packed):
    with object_storage() as bucket:
        bucket.put(corpus, "corpus")
        bucket.put(packed, "packed")
        yield bucket


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep copies of runs, and what is known of recordings, out of the cache of the machine."""
    cache = tmp_path_factory.mktemp("cache", numbered=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetched, "models_folder", lambda: cache)
        patch.setattr(checked_files, "cache_folder", lambda: cache)
        yield


def train(config, folder, name, train_set, dev_set):
    settings = [f"data.train={train_set}", f"data.dev={dev_set}", "data.test=", f"train.runs_dir={folder}"]
    assert main(["train", str(config), "--name", name, "--set", *settings, *QUICK]) == 0
    return folder / name


@pytest.fixture(scope="module")
def runs(corpus, bucket, clip_config, tmp_path_factory):
    """Return a run trained on the disk, and one trained on packs in the bucket."""
    folder = tmp_path_factory.mktemp("runs", numbered=False)
    address = f"{bucket.address}/packed"
    return (
        train(clip_config, folder, "local", corpus / "train-*.jsonl*", corpus / "dev.jsonl"),
        train(clip_config, folder, "remote", f"{address}/train.jsonl", f"{address}/dev.jsonl"),
    )


def weights(run):
    with np.load(Run.open(run).chosen_checkpoint(), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files if arrays[name].dtype.kind == "f"}


def test_training_on_packs_in_a_bucket_equals_training_on_a_disk(runs):
    local, remote = map(weights, runs)
    assert local.keys() == remote.keys()
    assert all(np.array_equal(local[name], remote[name]) for name in local)


def test_shards_in_a_bucket_are_one_manifest(corpus, bucket):
    address = f"{bucket.address}/corpus/train-*.jsonl*"
    assert [path.name for path in shards_of(path_of(address))] == [
        "train-00000.jsonl",
        "train-00001.jsonl.gz",
    ]
    found, expected = read_manifest(path_of(address)), read_manifest(corpus / "train-*.jsonl*")
    assert [one.id for one in found] == [one.id for one in expected]
    assert found[0].audio_path.startswith(f"{bucket.address}/corpus/audio/")


def test_manifest_on_a_disk_may_name_recordings_in_a_bucket(bucket, clips, tmp_path, capsys):
    lines = []
    for number, clip in enumerate(clips[:3]):
        audio = f"{bucket.address}/corpus/audio/{path_of(clip.audio_path).name}"
        record = {"id": clip.id, "audio": audio, "duration_s": clip.duration_s, "tokens": "ni3"}
        lines.append(json.dumps(record | {"text": str(number)}))
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    utterances = read_manifest(path)
    assert [one.audio_path for one in utterances] == [json.loads(line)["audio"] for line in lines]
    write_manifest(tmp_path / "again.jsonl", utterances)
    again = read_manifest(tmp_path / "again.jsonl")
    assert [one.audio_path for one in again] == [one.audio_path for one in utterances]
    assert main(["inspect", str(path), "--html", str(tmp_path / "page.html")]) == 0


def test_doctor_finds_in_a_bucket_what_it_finds_on_a_disk(corpus, bucket, tmp_path, capsys):
    found = {}
    for name, folder in (("disk", corpus), ("bucket", f"{bucket.address}/corpus")):
        out, page = tmp_path / f"{name}.json", tmp_path / f"{name}.html"
        assert main(["doctor", f"{folder}/broken.jsonl", "--json", str(out), "--html", str(page)]) == 1
        diagnosis = json.loads(out.read_text(encoding="utf-8").replace(str(folder), "FOLDER"))
        found[name] = [(one["code"], one["id"], one["audio"]) for one in diagnosis["findings"]]
    assert found["bucket"] == found["disk"]
    assert {"truncated-audio", "empty-audio", "missing-audio"} <= {code for code, *_ in found["bucket"]}


def test_packing_a_bucket_equals_packing_a_disk(bucket, packed, tmp_path):
    assert main(["pack", f"{bucket.address}/corpus/train-*.jsonl*", str(tmp_path), "--format", "tar"]) == 0
    again = pack_manifest(tmp_path / "train.jsonl", tmp_path / "again", shard_bytes=100_000, kind="tar")
    names = sorted(path.name for path in packed.glob("train.jsonl*") if path.suffix != ".checked")
    same, other, wrong = filecmp.cmpfiles(packed, again.manifest.parent, names, shallow=False)
    assert (sorted(same), other, wrong) == (names, [], [])


def test_run_in_a_bucket_is_used_from_the_cache_and_copied_again_when_it_changes(
    runs, bucket, corpus, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    address = bucket.put(runs[0], "runs/local")
    manifest = f"{bucket.address}/corpus/dev.jsonl"
    assert main(["evaluate", address, manifest]) == 0
    shown = capsys.readouterr().out
    assert list((tmp_path / "local-reports").glob("report*.html"))
    first = Run.open(address)
    assert first.is_copy
    assert not first.is_model_file
    assert first.config() == Run.open(runs[0]).config()
    assert main(["evaluate", str(runs[0]), str(corpus / "dev.jsonl")]) == 0
    rate = re.compile(r"\d+\.\d+ ?%")
    assert rate.findall(shown) == rate.findall(capsys.readouterr().out)

    bucket.put(b'{"dev_error": 0.25}\n', "runs/local/start.json")
    assert Run.open(address).start_error() == 0.25
    bucket.remove("runs/local/start.json")
    assert Run.open(address).start_error() is None


def test_transcripts_of_a_bucket_equal_those_of_a_disk(runs, bucket, corpus, tmp_path, capsys):
    texts = []
    for folder in (corpus / "audio", f"{bucket.address}/corpus/audio"):
        out = tmp_path / f"{len(texts)}.csv"
        assert main(["transcribe", str(runs[0]), str(folder), "--out", str(out)]) == 0
        texts.append(out.read_text(encoding="utf-8").replace(str(folder), ""))
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) >= 12


def test_what_would_be_written_to_a_bucket_is_refused(runs, bucket, corpus, tmp_path, capsys):
    out = f"{bucket.address}/out"
    audio, manifest = next((corpus / "audio").iterdir()), corpus / "dev.jsonl"
    for command in (
        ["pack", str(manifest), out],
        ["prepare", "folder", str(corpus), out],
        ["transcribe", str(runs[0]), str(audio), "--out", f"{out}/a.jsonl"],
        ["transcribe", str(runs[0]), str(audio), "--out", out, "--format", "srt"],
        ["train", "demo", "--name", "new", "--set", f"train.runs_dir={out}"],
        ["train", "demo", "--name", "new", "--set", f"data.prepared_dir={out}", f"train.runs_dir={tmp_path}"],
        ["average", str(runs[0]), "--best", "2", "--out", out],
        ["inspect", str(manifest), "--html", f"{out}/page.html"],
        ["doctor", str(manifest), "--json", f"{out}/report.json"],
    ):
        assert main(command) == 2, command
        shown = capsys.readouterr().err
        assert re.search(f"{out}.*expected a folder on a disk", shown), (command, shown)
        assert "Traceback" not in shown
    assert not path_of(out).exists()


def test_preparing_a_corpus_in_a_bucket_is_refused_with_the_remedy(bucket, tmp_path, capsys):
    assert main(["prepare", "folder", f"{bucket.address}/corpus", str(tmp_path)]) == 2
    assert re.search(r"s3://.*/corpus: expected .* on a disk.*copy it to a disk", capsys.readouterr().err)


def test_training_ends_with_the_address_when_a_pack_changes_during_it(bucket, packed, tmp_path, capsys):
    address = bucket.put(packed, "changing")
    utterances = read_manifest(path_of(f"{address}/train.jsonl"))
    from data_pipeline.batches.dataset import Dataset
    from data_pipeline.batches.decoded_recordings import DecodedRecordings

    data = Dataset(
        utterances, Vocabulary.of_utterances(utterances), 3.0, recordings=DecodedRecordings(limit=0)
    )
    assert len(list(data.epoch(0, 1, lambda num_samples, labels: True)[1])) > 1
    for path in packed.glob("train.jsonl-*.tar"):
        bucket.put(path.read_bytes()[::-1], f"changing/{path.name}")
    with pytest.raises(UserError, match=rf"^{address}/train.jsonl-\d+.tar: has changed .* then resume"):
        list(data.epoch(1, 1, lambda num_samples, labels: True)[1])


def test_packing_ends_when_a_pack_that_it_reads_is_replaced(bucket, packed, tmp_path):
    address = bucket.put(packed, "replaced")
    read_audio(read_manifest(path_of(f"{address}/train.jsonl"))[0].audio_path)
    for path in packed.glob("train.jsonl-*.tar"):
        bucket.put(path.read_bytes()[::-1], f"replaced/{path.name}")
    with pytest.raises(StorageError, match=rf"^{address}/train.jsonl-\d+.tar: has changed"):
        pack_manifest(path_of(f"{address}/train.jsonl"), tmp_path)
    assert not (tmp_path / "train.jsonl").exists()


def test_what_must_be_on_a_disk_is_named_with_the_remedy(bucket, clips, clip_config, tmp_path, capsys):
    local = random_run(load_config(clip_config), Vocabulary.of_utterances(clips), tmp_path / "run")
    run, lm, audio = bucket.put(local, "runs/resumed"), f"{bucket.address}/lm", clips[0].audio_path
    decoded = [f"decode.language_model={lm}", f"train.runs_dir={tmp_path}"]
    for command, address in (
        (["train", run, "--resume"], run),
        (["transcribe", str(local), audio, "--lm", lm], lm),
        (["transcribe", str(local), audio, "--hanzi", lm], lm),
        (["train", "demo", "--name", "new", "--set", *decoded], lm),
        (["lm", "info", lm], lm),
        (["lm", "convert", "--model", lm, "ni3 hao3"], lm),
    ):
        assert main(command) == 2, command
        shown = capsys.readouterr().err
        assert re.search(f"{address}: .*: expected a .* on a disk.*copy it to a disk", shown), (
            command,
            shown,
        )


def test_half_written_pack_is_reported_before_training(bucket, packed, tmp_path, capsys):
    address = bucket.put(packed, "half")
    whole = sorted(packed.glob("train.jsonl-*.tar"))
    for path in whole:
        bucket.put(path.read_bytes()[:2000], f"half/{path.name}")
    settings = [f"data.train={address}/train.jsonl", f"data.dev={address}/dev.jsonl", "data.corpus="]
    assert (
        main(["train", "demo", "--name", "x", "--set", *settings, f"train.runs_dir={tmp_path}", *QUICK]) == 2
    )
    assert "the file ends before this recording does; pack or copy it again" in capsys.readouterr().err


def test_half_written_manifest_is_refused(bucket, corpus, capsys):
    content = (corpus / "train-00001.jsonl.gz").read_bytes()
    address = bucket.put(content[: len(content) // 2], "half.jsonl.gz")
    assert main(["inspect", address]) == 2
    assert f"{address}: expected a whole gzip file, found one that is damaged or half-written" in (
        capsys.readouterr().err
    )


def test_configuration_may_be_in_a_bucket(bucket):
    bucket.put(b'extends = "base.toml"\n[train]\nepochs = 3\n', "configs/mine.toml")
    bucket.put(b"[train]\nepochs = 2\nbatch_s = 7.0\n", "configs/base.toml")
    config = load_config(f"{bucket.address}/configs/mine.toml")
    assert (config.train.epochs, config.train.batch_s) == (3, 7.0)
