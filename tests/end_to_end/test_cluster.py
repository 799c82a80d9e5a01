"""Test commands with `--cluster` on real workers: they write the same bytes as on one machine."""

import dataclasses
import json
import logging
import re
import shutil
import sys
from pathlib import Path

import pytest
import soundfile
from helpers.corpora.defects import SmallCorpus, noise
from helpers.dask_cluster import dask_cluster

from asr.base.cluster import Cluster
from asr.base.types import Utterance
from asr.cli.main import main
from asr.transcription import file_recognizer
from asr.transcription.files import audio_files
from asr.transcription.to_files.journal import Journal
from asr.transcription.to_files.on_cluster import ClusterRecognizer
from asr.transcription.to_files.resumable_transcription import transcribe_to_file
from data_pipeline.manifests.manifest import write_manifest

pytest.importorskip("distributed", reason="needs the extra cluster")

NUM_FILES = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Return a scheduler with two workers, one of which the last test kills."""
    with dask_cluster(tmp_path_factory.mktemp("cluster"), 2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # another folder than that of the workers, for relative paths


@pytest.fixture
def folder(clips, tmp_path, monkeypatch):
    """Return a folder of recordings that are read two at a time, and of a file that is none."""
    monkeypatch.setattr(file_recognizer, "FILES_AT_ONCE", 2)
    folder = tmp_path / "audio"
    folder.mkdir()
    for number in range(NUM_FILES):
        shutil.copy(clips[number % len(clips)].audio_path, folder / f"{number:02}.wav")
    (folder / "05b.wav").write_text("not sound")
    return "audio"


def transcribe(run, folder, out, *options, status=2):
    """Transcribe a folder; the status is that of a file that cannot be read."""
    assert main(["transcribe", str(run), folder, "--out", out, *options]) == status
    return Path(out).read_bytes()


def messages(caplog):
    found = [one.getMessage() for one in caplog.records if one.name != "tensorflow"]
    caplog.clear()
    return found


@pytest.mark.parametrize("begins", ["here", "there"])
def test_interrupted_transcription_resumes_on_the_other_kind_of_machine(
    trained_run, folder, running, monkeypatch, caplog, begins
):
    caplog.set_level(logging.INFO)
    cluster = ["--cluster", str(running.scheduler_file)]
    whole = transcribe(trained_run, folder, "whole.jsonl")
    add = Journal.add

    def add_until_interrupted(journal, results):
        add(journal, results)
        if journal.num_rows > NUM_FILES // 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", add_until_interrupted)
        first = main(
            ["transcribe", str(trained_run), folder, "--out", "out.jsonl", *(cluster * (begins == "there"))]
        )
    assert first == 130
    resumed = transcribe(trained_run, folder, "out.jsonl", *(cluster * (begins == "here")))
    assert resumed == whole
    assert any(re.search(r"resuming after 3\d of 61 recordings", message) for message in caplog.messages)


def test_transcripts_on_the_terminal_and_subtitles_equal_those_of_one_machine(
    trained_run, folder, running, capsys
):
    printed, subtitles = [], []
    for options in ([], ["--cluster", running.address]):
        assert main(["transcribe", str(trained_run), folder, "--tokens", *options]) == 2
        printed.append(capsys.readouterr().out)
        assert (
            main(["transcribe", str(trained_run), folder, "--format", "srt", "--out", "srt", *options]) == 2
        )
        subtitles.append({path.name: path.read_bytes() for path in Path("srt").iterdir()})
        shutil.rmtree("srt")
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == NUM_FILES
    assert subtitles[0] == subtitles[1]
    assert len(subtitles[0]) == NUM_FILES


@pytest.mark.slow
def test_decoder_of_relative_files_equals_that_of_one_machine(trained_run, clips, folder, running):
    Path("words.txt").write_text(" ".join(clips[0].tokens))
    Path("text.txt").write_text("".join(f"{clip.text}\n" for clip in clips) * 20)
    assert main(["lm", "train", "text.txt", "--out", "lm"]) == 0
    options = ["--hot-words", "words.txt", "--lm", "lm", "--hanzi", "lm", "--n-best", "3"]
    here = transcribe(trained_run, folder, "here.jsonl", *options)
    assert transcribe(trained_run, folder, "there.jsonl", *options, "--cluster", running.address) == here
    assert json.loads(here.splitlines()[0])["alternatives"]


def test_a_program_transcribes_on_a_cluster(trained_run, folder, running):
    here = transcribe(trained_run, folder, "here.jsonl")
    with Cluster.connect(running.address) as cluster:
        recognizer = ClusterRecognizer.load(cluster, trained_run)
        progress = []
        num_failed = transcribe_to_file(
            recognizer, audio_files([folder]), Path("there.jsonl"), "jsonl", progress.append
        )
    assert num_failed == 1
    assert Path("there.jsonl").read_bytes() == here
    assert [work.done for work in progress] == [*range(0, NUM_FILES + 1, 2), NUM_FILES + 1]


def test_run_that_a_worker_does_not_find_is_an_error_with_its_machine(trained_run, folder, running, capsys):
    shutil.copytree(trained_run, "run")
    run = "/proc/self/cwd/run"  # which is in another folder for another process
    assert main(["transcribe", run, folder, "--cluster", running.address]) == 2
    assert re.search(rf"error: worker on .*: {run}: no run here", capsys.readouterr().err)


def test_run_that_differs_on_a_worker_is_an_error(trained_run, folder, running, capsys):
    shutil.copytree(trained_run, "run")
    there = running.scheduler_file.parent / "run"
    shutil.copytree(trained_run, there, dirs_exist_ok=True)
    with (there / "config.toml").open("a") as file:
        file.write("# changed\n")
    run = "/proc/self/cwd/run"
    assert main(["transcribe", run, folder, "--cluster", running.address]) == 2
    assert re.search(rf"error: worker on .*: {run}: the model .* differs", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "2"], "--cluster: each worker has devices of its own; leave out --gpus"),
        (["-"], "standard input stays on this machine; leave out --cluster"),
    ],
)
def test_what_workers_cannot_share_is_refused(trained_run, running, capsys, options, message, folder):
    assert main(["transcribe", str(trained_run), folder, *options, "--cluster", running.address]) == 2
    assert message in capsys.readouterr().err


def test_doctor_finds_the_same_on_a_cluster(running, capsys):
    Path("corpus").mkdir()
    corpus = SmallCorpus(Path("corpus"))
    corpus.audio(1).unlink()
    corpus.audio(2).write_bytes(b"")
    corpus.audio(3).write_text("not sound")
    corpus.audio(4).write_bytes(corpus.audio(4).read_bytes()[:9000])
    corpus.write("train-5", noise(5, 1.3) * 1e-7)
    shutil.copy(corpus.audio(6), corpus.audio(7))
    manifests = [str(path) for path in corpus.save()]
    found = []
    for options in ([], ["--cluster", running.address]):
        assert main(["doctor", *manifests, "--json", "found.json", "--write-clean", "clean", *options]) == 1
        clean = {path.name: path.read_bytes() for path in Path("clean").iterdir()}
        found.append((capsys.readouterr().out, Path("found.json").read_bytes(), clean))
    assert found[0] == found[1]
    assert len(json.loads(found[0][1])["findings"]) > 5


def test_prepared_corpus_equals_that_of_one_machine(clips, running, capsys):
    soundfile.write("long.wav", noise(1, 30.0), 16000)
    Path("broken.wav").write_text("text")
    shutil.copy(clips[0].audio_path, "clip.wav")
    records = [
        {"audio": "long.wav", "text": "你好", "begin": 3.0 * number, "end": 3.0 * number + 2.5}
        for number in range(9)
    ]
    records += [{"audio": name, "text": "再见"} for name in ("clip.wav", "broken.wav", "missing.wav")]
    records += [{"audio": "broken.wav", "text": "再见", "begin": 1.0, "end": 2.0}]
    lines = "".join(json.dumps({"id": str(number), **record}) + "\n" for number, record in enumerate(records))
    Path("list.jsonl").write_text(lines)
    prepared = []
    for options in ([], ["--cluster", running.address]):
        assert main(["prepare", "json_lines", "list.jsonl", "out", *options]) == 0
        files = {str(path): path.read_bytes() for path in Path("out").rglob("*.*")}
        prepared.append((capsys.readouterr().out, files))
        shutil.rmtree("out")
    assert prepared[0] == prepared[1]
    assert sum(path.startswith("out/audio/") for path in prepared[0][1]) == 9
    assert prepared[0][1]["out/left_out.tsv"].count(b"broken.wav") >= 2


def test_folder_that_workers_do_not_share_is_an_error(running, capsys):
    soundfile.write("long.wav", noise(1, 30.0), 16000)
    record = {"audio": "long.wav", "text": "你好", "begin": 1.0, "end": 2.5}
    Path("list.jsonl").write_text(json.dumps(record) + "\n")
    out = "/proc/self/cwd/out"  # which is in another folder for another process
    assert main(["prepare", "json_lines", "list.jsonl", out, "--cluster", running.address]) == 2
    assert "choose an output folder that all workers share" in capsys.readouterr().err
    running.scheduler_file.with_name("out").mkdir()
    running.scheduler_file.with_name("out").joinpath("audio").mkdir()
    assert main(["prepare", "json_lines", "list.jsonl", out, "--cluster", running.address]) == 2
    assert "written by a worker, but is not there; choose" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["tfrecord", "tar"])
def test_packed_files_equal_those_of_one_machine(clips, running, capsys, kind):
    Path("broken.wav").write_text("text")
    broken = Utterance("broken", "broken.wav", 1.0, "好", ("hao3",))
    write_manifest(Path("train.jsonl"), [*clips, broken])
    packed = []
    for options in ([], ["--cluster", running.address]):
        assert main(["pack", "train.jsonl", "packed", "--format", kind, *options]) == 2
        files = {path.name: path.read_bytes() for path in Path("packed").iterdir()}
        packed.append((capsys.readouterr().out, files))
        shutil.rmtree("packed")
    assert packed[0] == packed[1]
    assert {f"train.jsonl-00000.{kind}", "train.left_out.tsv"} < packed[0][1].keys()


def test_recording_that_workers_do_not_find_ends_the_command(clips, running, capsys):
    shutil.copy(clips[0].audio_path, "clip.wav")
    path = "/proc/self/cwd/clip.wav"
    record = {"id": "a", "audio": path, "duration_s": clips[0].duration_s, "text": "好", "tokens": "hao3"}
    Path("train.jsonl").write_text(json.dumps(record) + "\n")
    for command in (["pack", "train.jsonl", "packed"], ["doctor", "train.jsonl"]):
        assert main([*command, "--cluster", running.address]) == 2
        assert re.search(rf"error: worker .*: does not find {path}", capsys.readouterr().err)
    assert not Path("packed/train.jsonl").exists()


def test_storage_that_a_worker_cannot_read_ends_transcribe_with_its_name(trained_run, clips, running, capsys):
    fsspec = pytest.importorskip("fsspec")
    address = (
        "memory://speech/clip.wav"  # in the memory of this process; elsewhere there is not even a bucket
    )
    fsspec.filesystem("memory").pipe(address, Path(clips[0].audio_path).read_bytes())
    assert main(["transcribe", str(trained_run), address, "--cluster", running.address]) == 2
    lines = capsys.readouterr()
    assert re.search(rf"error: worker tcp://.* on .*: {address}: there is no bucket speech", lines.err)
    assert not lines.out


def test_worker_in_the_care_of_a_nanny_finds_and_packs_the_same(clips, tmp_path, capsys):
    write_manifest(Path("train.jsonl"), clips)
    (tmp_path / "cluster").mkdir()
    with dask_cluster(tmp_path / "cluster", 0) as running:
        running.add_worker(num_threads=2, nanny=True)  # as docs/guides/cluster.md starts it
        found = []
        for options in ([], ["--cluster", running.address]):
            assert main(["doctor", "train.jsonl", "--json", "found.json", *options]) in (0, 1)
            assert main(["pack", "train.jsonl", "packed", *options]) == 0
            files = {path.name: path.read_bytes() for path in Path("packed").iterdir()}
            found.append((capsys.readouterr().out, Path("found.json").read_bytes(), files))
            shutil.rmtree("packed")
    assert found[0] == found[1]


def test_storage_that_a_worker_cannot_read_ends_pack_with_its_name(clips, running, capsys):
    fsspec = pytest.importorskip("fsspec")
    address = "memory://packing/clip.wav"  # in the memory of this process only
    fsspec.filesystem("memory").pipe(address, Path(clips[0].audio_path).read_bytes())
    write_manifest(Path("train.jsonl"), [dataclasses.replace(clips[0], audio_path=address)])
    assert main(["pack", "train.jsonl", "packed", "--cluster", running.address]) == 2
    assert re.search(rf"error: worker tcp://.* on .*: {address}: there is no", capsys.readouterr().err)


def test_missing_package_is_an_error_with_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    Path("train.jsonl").write_text("")
    assert main(["doctor", "train.jsonl", "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "--cluster needs the package distributed" in capsys.readouterr().err


@pytest.mark.slow
def test_worker_killed_in_the_middle_of_transcribe_changes_nothing(
    trained_run, folder, running, monkeypatch, caplog
):
    caplog.set_level(logging.WARNING)
    here = transcribe(trained_run, folder, "here.jsonl")
    said_here = messages(caplog)
    add, kept = Journal.add, []

    def add_and_kill(journal, results):
        add(journal, results)
        kept.append(len(results))
        if len(kept) == 3:
            running.workers[0].kill()

    monkeypatch.setattr(Journal, "add", add_and_kill)
    there = transcribe(trained_run, folder, "there.jsonl", "--cluster", running.address)
    assert running.workers[0].wait(60) < 0
    assert there == here
    assert len(here.splitlines()) == NUM_FILES + 1 == sum(kept)
    assert messages(caplog) == said_here  # such as the name of the file that is no recording
    assert any(message.startswith("audio/05b.wav: ") for message in said_here)
