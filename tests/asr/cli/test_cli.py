import contextlib
import dataclasses
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from helpers import ROOT
from helpers.processes import LIMIT_S

from asr.base.errors import UserError
from asr.cli.commands import EXIT_NO_READER
from asr.cli.main import main
from asr.runs.resume_command import asr_command
from asr.runs.run import Run
from asr.training.trainer import Trainer
from asr.transcription.recognizer import Recognizer
from data_pipeline.manifests.manifest import read_manifest, write_manifest


def one_line_error(capsys):
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    return error


def test_help_imports_no_tensorflow():
    commands = [[], ["train"], ["evaluate"], ["transcribe"], ["synthesize"]]
    program = (
        "import sys; from asr.cli.main import main\n"
        f"for command in {commands}:\n"
        "    try: main([*command, '--help'])\n"
        "    except SystemExit: pass\n"
        "    print('heavy:', sorted({'tensorflow', 'keras', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    for command in commands:
        assert " ".join(["usage: asr", *command]) in done.stdout
    assert done.stdout.count("heavy: []") == len(commands)


@pytest.mark.parametrize("command", [["runs"], ["lm", "info"]])
def test_unknown_option_shows_how_to_use_the_command(command, capsys):
    with pytest.raises(SystemExit):
        main([*command, "model", "--unknown"])
    error = capsys.readouterr().err
    assert error.startswith(f"usage: asr {' '.join(command)} [-h]")
    assert "--unknown" in error.splitlines()[-1]


def test_run_directory_contains_readable_files(trained_run):
    names = {path.name for path in trained_run.iterdir()}
    assert {
        "config.toml",
        "vocabulary.txt",
        "checkpoints",
        "metrics.jsonl",
        "state.json",
        "tensorboard",
        "token_counts.tsv",
        "report.html",
    } <= names
    names = {path.name for path in (trained_run / "checkpoints").iterdir()}
    assert names == {"epoch-0001.npz", "epoch-0002.npz"}
    metrics = [json.loads(line) for line in (trained_run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in metrics] == [1, 2]
    events = b"".join(path.read_bytes() for path in (trained_run / "tensorboard").rglob("events*"))
    assert b"utterance 1/alignment" in events


def test_existing_run_is_refused_and_resumed_on_request(trained_run, clip_config, capsys):
    assert main(["train", str(clip_config)]) == 2
    refused = one_line_error(capsys)
    assert "--resume" in refused
    assert f"train.init_from={trained_run}" in refused
    last = Run(trained_run).checkpoints()[-1]
    before = last.read_bytes()
    assert main(["train", str(clip_config), "--resume"]) == 0
    assert last.read_bytes() == before  # its two epochs are done
    assert "a higher train.epochs trains on" in capsys.readouterr().err
    assert main(["train", str(clip_config), "--resume", "--set", "train.seed=9"]) == 2
    refused = one_line_error(capsys)
    assert "keeps its settings" in refused
    assert f"train.init_from={trained_run}" in refused
    # settings that do not change what is learned may be changed, for instance after running out of memory
    kept = (Run(trained_run).directory / "config.toml").read_text("utf-8")
    assert main(["train", str(clip_config), "--resume", "--set", "train.accumulate=2"]) == 0
    assert Run(trained_run).config().train.accumulate == 2  # also when it is resumed again
    (Run(trained_run).directory / "config.toml").write_text(kept, "utf-8")


def test_evaluate_prints_a_table_and_writes_a_report(trained_run, clip_config, capsys):
    manifest = clip_config.parent / "dev.jsonl"
    assert main(["evaluate", str(trained_run), str(manifest)]) == 0
    printed = capsys.readouterr().out
    assert "syllable error rate" in printed
    report = Path(re.search(r"Report: (\S+)", printed)[1])
    assert report.name == f"report-{manifest.parent.name}-dev.html"
    for clip in read_manifest(manifest):
        assert clip.id in report.read_text(encoding="utf-8")


def test_evaluate_counts_labels_that_the_model_cannot_write(trained_run, clips, tmp_path, capsys):
    known, last = clips[:6], clips[6]
    strange = [*known, type(last)(last.id, last.audio_path, last.duration_s, "?", ("xyz1",) * 3)]
    write_manifest(tmp_path / "strange.jsonl", strange)
    assert main(["evaluate", str(trained_run), str(tmp_path / "strange.jsonl")]) == 0
    printed, errors = capsys.readouterr()
    assert (
        f"1 utterance with tokens outside the model's vocabulary, which count as errors: {last.id}" in errors
    )
    row = next(line for line in printed.splitlines() if line.lstrip().startswith("syllable error rate"))
    assert row.split()[-4] == str(sum(len(clip.tokens) for clip in known) + 3)


def test_transcribe_takes_files_folders_and_standard_input(trained_run, clips, tmp_path, capsys, monkeypatch):
    for clip in clips[:3]:
        shutil.copy(clip.audio_path, tmp_path)
    expected = [
        h.text for h in Recognizer.load(trained_run).transcribe_files([Path(c.audio_path) for c in clips])
    ]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert main(["transcribe", str(trained_run), str(tmp_path), "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [Path(record["file"]).name for record in records] == names
    by_name = {Path(clip.audio_path).name: text for clip, text in zip(clips, expected, strict=True)}
    assert [record["text"] for record in records] == [by_name[name] for name in names]
    with Path(clips[0].audio_path).open("rb") as file:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(file.read())))
    assert main(["transcribe", str(trained_run), "-"]) == 0
    assert capsys.readouterr().out.strip() == expected[0]


def test_transcribe_continues_after_an_unreadable_file(trained_run, clips, tmp_path, capsys):
    (tmp_path / "text.wav").write_text("not sound")
    (tmp_path / "empty.wav").touch()
    out = tmp_path / "out.csv"
    files = [
        clips[0].audio_path,
        str(tmp_path / "text.wav"),
        str(tmp_path / "empty.wav"),
        clips[1].audio_path,
    ]
    missing = str(tmp_path / "missing.wav")
    assert main(["transcribe", str(trained_run), *files, missing, "--format", "csv", "--out", str(out)]) == 2
    errors = capsys.readouterr().err
    for name, reason in (("text", "not audio"), ("empty", "empty file"), ("missing", "No such file")):
        assert re.search(rf"error: .*{name}\.wav: .*{reason}", errors)
    assert "Traceback" not in errors
    assert len(out.read_text().splitlines()) == 6


def test_bad_utterances_are_left_out_of_training_with_their_reasons(
    clips, clip_config, trained_run, tmp_path, capsys, monkeypatch
):
    def train(trainer):  # it has its utterances: there is no need to wait for the first epoch
        trained_on.extend(trainer.train_data.utterances)
        raise UserError("seen enough")

    trained_on = []
    monkeypatch.setattr(Trainer, "train", train)
    (tmp_path / "text.wav").write_text("not sound")
    bad = {
        "missing": ("none.wav", "ni3", "No such file"),
        "text": (str(tmp_path / "text.wav"), "ni3", "not audio"),
        "label": (clips[0].audio_path, "xyz9", "'xyz9' is not in the vocabulary"),
        "crowded": (clips[0].audio_path, "shi4 " * 60, "too many for the model's frames"),
        "unlabelled": (clips[0].audio_path, "", "no label"),
    }
    manifest = tmp_path / "train.jsonl"
    write_manifest(manifest, clips)
    with manifest.open("a") as file:
        for name, (audio, tokens, _) in bad.items():
            record = {"id": name, "audio": audio, "duration_s": clips[0].duration_s, "tokens": tokens}
            file.write(json.dumps(record) + "\n")
    vocabulary = trained_run / "vocabulary.txt"
    arguments = [
        f"data.train={manifest}",
        f"data.vocabulary={vocabulary}",
        f"train.runs_dir={tmp_path}",
        "train.epochs=1",
    ]
    overrides = [part for argument in arguments for part in ("--set", argument)]
    assert main(["train", str(clip_config), *overrides]) == 2
    assert [utterance.id for utterance in trained_on] == [clip.id for clip in clips]
    printed = capsys.readouterr().err
    assert f"5 of {len(clips) + 5} recordings left out" in printed
    for name, (audio, _, reason) in bad.items():
        (line,) = [line.strip() for line in printed.splitlines() if line.strip().startswith(f"{name}: ")]
        assert audio in line
        assert reason in line


def test_what_is_wrong_with_dev_is_reported_once_where_it_is_test_too(
    clips, clip_config, tmp_path, capsys, monkeypatch
):
    def stop(trainer):
        raise UserError("seen enough")

    monkeypatch.setattr(Trainer, "train", stop)
    dev = tmp_path / "dev.jsonl"
    missing = dataclasses.replace(clips[0], id="missing", audio_path="none.wav")
    unknown = dataclasses.replace(clips[0], id="unknown", tokens=(*clips[0].tokens, "zzz"))
    write_manifest(dev, [*clips[:8], missing, unknown])
    (tmp_path / "folder").mkdir()
    same = tmp_path / "folder" / ".." / "dev.jsonl"
    settings = [f"data.dev={dev}", f"data.test={same}", f"train.runs_dir={tmp_path}"]
    overrides = [part for setting in settings for part in ("--set", setting)]
    assert main(["train", str(clip_config), *overrides]) == 2
    printed = capsys.readouterr().err
    for once in ("recordings left out", "outside the model's vocabulary", "in the training set too"):
        assert printed.count(once) == 1
    assert f"unknown ({clips[0].audio_path})" in printed


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "demo", "--set", "train.epochs=2", "model.size=huge"],
        ["train", "--set", "train.epochs=2", "model.size=huge", "demo"],
        ["train", "--set=train.epochs=2", "model.size=huge", "demo", "--profile"],
        ["tune-batch", "demo", "--set", "train.epochs=2", "train.seed=2", "model.size=huge"],
        ["doctor", "--set", "train.epochs=2", "model.size=huge", "--config", "demo"],
        ["augment", "a.wav", "--out", "b", "--set", "augment.pauses=0", "model.size=huge"],
    ],
)
def test_several_settings_follow_one_option(arguments, capsys):
    assert main(arguments) == 2
    assert "--set model.size=huge: model.size: expected one of xs" in one_line_error(capsys)


def test_refused_run_leaves_no_directory(clips, tmp_path, capsys):
    manifest = tmp_path / "bad.jsonl"
    record = {"id": "a", "audio": "none.wav", "duration_s": 1, "tokens": "a1"}
    manifest.write_text(json.dumps(record))
    settings = [f"data.{split}={manifest}" for split in ("train", "dev", "test")] + [
        f"train.runs_dir={tmp_path}/runs"
    ]
    assert main(["train", "base", *(part for setting in settings for part in ("--set", setting))]) == 2
    assert "no utterance can be used for training" in one_line_error(capsys)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transcribe", "{run}/none", "a.wav"], "no run here"),
        (["transcribe", "{empty}", "a.wav"], "no checkpoint yet; train this run first"),
        (["evaluate", "{run}", "none.jsonl"], "cannot read this manifest"),
        (["train", "none"], "no such configuration"),
        (["synthesize", "{empty}", "--num", "0"], "of at least 1"),
        (["train", "demo", "--set", "train.epoch=1"], "did you mean epochs?"),
        (["train", "{config}", "--name", "none", "--resume"], "no run here"),
        (["train", "{config}", "--name", "../elsewhere"], "expected a name, not a path"),
        (["train", "{config}", "--name", "../elsewhere", "--resume"], "expected a name, not a path"),
        (
            ["train", "hsk_words", "--set", "data.source=/none", "--set", "data.prepared_dir={empty}"],
            "no folder '/none'; get the corpus from",
        ),
        (["train", "demo", "--set", "data.corpus=none"], "expected one of mandarin_demo"),
        (  # what contradicts itself is refused before its data is looked for
            ["train", "hsk_words", "--set", "data.source=/none", "--set", "model.family=dcnn24"],
            "these networks have no stem",
        ),
    ],
)
def test_user_errors_are_one_line_and_exit_status_2(
    arguments, message, trained_run, clip_config, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # where no run has a name already
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("config.toml", "vocabulary.txt"):
        shutil.copy(trained_run / name, empty)
    filled = [a.format(run=trained_run, empty=empty, config=clip_config) for a in arguments]
    assert main(filled) == 2
    assert message in one_line_error(capsys)


def test_recording_has_the_same_transcript_alone_and_in_a_batch(trained_run, clips):
    recognizer = Recognizer.load(trained_run)
    paths = [Path(clip.audio_path) for clip in clips]
    together = list(recognizer.transcribe_files(paths))
    for path, hypothesis in zip(paths, together, strict=True):
        assert recognizer.transcribe(path).tokens == hypothesis.tokens
        assert recognizer.transcribe(path.open("rb")).tokens == hypothesis.tokens


def test_recognizer_raises_for_a_damaged_file(trained_run, tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(UserError, match=r"a\.wav"):
        Recognizer.load(trained_run).transcribe(tmp_path / "a.wav")


# `train.py`, which waits in the second epoch until its standard input ends
WAIT_IN_TRAINING = """
import runpy, sys
from asr.training.trainer import Trainer

def wait_and_train_step(trainer, *arguments, **named):
    if trainer.progress.history:
        sys.stdin.read()
    return train_step(trainer, *arguments, **named)

train_step, Trainer.train_step = Trainer.train_step, wait_and_train_step
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
"""


AT_A_TERMINAL = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # whose end is a hang-up for this process
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
"""


class Stopped(NamedTuple):
    """A training in a process of its own that received a signal in its second epoch.

    Attributes:
        number: of the signal.
        status: the process's.
        errors: what it printed to standard error.
        refused: what a command that was to resume it printed before the signal.
        listed: what `asr runs` printed after it.
    """

    number: int
    status: int
    errors: str
    refused: str
    listed: str


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return an environment in which every program knows the tiny network."""
    folder = tmp_path_factory.mktemp("start")
    program = "from helpers.tiny import register_tiny\nregister_tiny()\n"
    (folder / "sitecustomize.py").write_text(program)  # Python runs it before a program
    path = os.pathsep.join([str(folder), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


@pytest.fixture(
    scope="module",
    params=[
        (signal.SIGINT, "clip_config"),
        pytest.param((signal.SIGTERM, "separable_config"), marks=pytest.mark.slow),
    ],
    ids=lambda param: param[0].name,
)
def stopped(request, environment):
    """Stop a training by a signal while another command asks for its run."""
    number, config = request.param[0], request.getfixturevalue(request.param[1])
    name, refused, listed = f"stopped{int(number)}", io.StringIO(), io.StringIO()
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT_IN_TRAINING, config, "--name", name, "--set", "train.epochs=4"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert any(line.startswith("epoch   1") for line in process.stdout)
    with contextlib.redirect_stderr(refused):
        assert main(["train", str(config), "--name", name, "--resume"]) == 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=LIMIT_S)
    with contextlib.redirect_stdout(listed):
        assert main(["runs", str(config.parent / "runs")]) == 0
    return Stopped(number, process.returncode, errors, refused.getvalue(), listed.getvalue())


@pytest.fixture(scope="module")
def resumed(stopped):
    """Resume the stopped training by the command that it printed, and return what is printed then.

    One of the two runs in a process of its own, which takes longer.
    """
    command = next(line.strip() for line in stopped.errors.splitlines() if "--resume" in line)
    if stopped.number == signal.SIGTERM:
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout
    assert command.startswith(f"{asr_command()} train ")
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        assert main(shlex.split(command.removeprefix(asr_command()))) == 0
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no hang-up")
def test_closed_terminal_ends_training_after_saving_it(separable_config):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            AT_A_TERMINAL,
            separable_config,
            "--name",
            "hung",
            "--set",
            "train.epochs=500",
        ],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    printed = b""
    while b"epoch " not in printed:
        printed += os.read(ours, 4096)
    os.close(ours)  # the window is closed
    assert process.wait(LIMIT_S) == 128 + signal.SIGHUP
    run = separable_config.parent / "runs" / "hung"
    assert json.loads((run / "state.json").read_text())["state"] == "interrupted"
    assert Run(run).checkpoints()


def test_running_run_is_locked(stopped):
    assert "another asr train is running there" in stopped.refused


def test_signal_ends_training_with_its_exit_status_and_no_traceback(stopped):
    assert stopped.status == 128 + stopped.number
    assert "Traceback" not in stopped.errors
    assert "interrupted" in stopped.listed


def test_stopped_training_prints_the_command_that_resumes_it(resumed):
    epochs = re.findall(r"epoch +(\d)/4", resumed)
    assert epochs == ["2", "3", "4"]  # the first was complete when the signal came
    assert "syllable error rate" in resumed


def test_train_prints_examples_and_a_transcribe_command_that_works(stopped, resumed, capsys):
    assert "reference " in resumed
    assert "hypothesis " in resumed
    command = resumed.strip().splitlines()[-1].strip()
    assert command.startswith(f"{asr_command()} transcribe ")
    with contextlib.chdir(ROOT):
        assert main(shlex.split(command.removeprefix(asr_command()))) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_transcribe_prints_the_transcript_and_no_messages_of_libraries(separable_run, clips):
    audio = clips[0].audio_path
    expected = Recognizer.load(separable_run).transcribe(audio).text
    quiet = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-m", "asr", "transcribe", separable_run, audio]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, env=quiet)
    assert done.stdout.strip() == expected
    (doubtful,) = done.stderr.splitlines()  # its weights are random
    assert "half of the transcript or more is probably wrong" in doubtful


def test_transcripts_never_overwrite_a_recording(trained_run, clips, tmp_path, capsys):
    wav = shutil.copy(clips[0].audio_path, tmp_path / "a.wav")
    before = wav.read_bytes()
    assert main(["transcribe", str(trained_run), str(wav), "--out", str(wav)]) == 2
    assert "one of the recordings" in one_line_error(capsys)
    assert wav.read_bytes() == before


def test_transcribe_reads_a_named_pipe_among_files(trained_run, clips, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", f"cat {clips[0].audio_path} > {pipe}"])
    files = [str(pipe), clips[0].audio_path]
    assert main(["transcribe", str(trained_run), *files, "--format", "jsonl"]) == 0
    writer.wait(timeout=10)
    one, other = (json.loads(line)["text"] for line in capsys.readouterr().out.splitlines())
    assert one == other


def test_closed_output_pipe_prints_no_traceback(trained_run):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "asr", "runs", trained_run.parent]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (EXIT_NO_READER, "")
