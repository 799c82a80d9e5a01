import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from helpers import ROOT

from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.runs.origin import AverageOrigin, write_origin
from asr.runs.progress import EpochMetrics
from asr.runs.resume_command import asr_command
from asr.runs.run import Run
from asr.runs.state import track_state

COMMAND = "asr train demo --resume"
HOLD = """
import sys
from pathlib import Path
from asr.runs.state import track_state
with track_state(Path(sys.argv[1]), "asr train --resume"):
    print("in", flush=True)
    sys.stdin.read()
"""


def metrics(epoch, dev_error, train_s):
    return EpochMetrics(epoch, 1.0, 0.5, 1.0, dev_error, 1e-3, 100.0, train_s, best=True, chosen=True)


def make_run(directory, dev_errors=(), epochs=10, last_modified_s=None):
    config = Config()
    config = dataclasses.replace(
        config, train=dataclasses.replace(config.train, epochs=epochs, runs_dir=str(directory.parent))
    )
    run = Run.create(directory, config, Vocabulary(("a1", "b1")))
    if dev_errors:
        run.write_metrics([metrics(n, rate, 400.0 * n) for n, rate in enumerate(dev_errors, 1)])
    if last_modified_s:
        for path in directory.iterdir():
            os.utime(path, (last_modified_s, last_modified_s))
    return run


def leave(directory, error=None):
    """Run a session of a run to its end."""
    if error is None:
        with track_state(directory, COMMAND):
            return
    with pytest.raises(type(error)), track_state(directory, COMMAND):
        raise error


def listed(capsys, *arguments):
    assert main(["runs", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def said(capsys, *arguments):
    """Return what `listed` returns, joined into one line."""
    return " ".join(listed(capsys, *arguments).split())


def records(capsys, *arguments):
    return {Path(row["run"]).name: row for row in json.loads(listed(capsys, *arguments, "--json"))}


def start(program, directory):
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"in\n"
    return process


def test_runs_are_listed_with_their_progress(tmp_path, capsys):
    make_run(tmp_path / "fresh", last_modified_s=3e9)
    make_run(tmp_path / "worn", (0.5, 0.25, 0.375), epochs=3, last_modified_s=1e9)
    lines = listed(capsys, tmp_path).splitlines()
    assert lines[0].split("  ")[0] == "run"
    worn, fresh = [line for line in lines[1:] if " unknown " in line]
    assert "  unknown  3 of 3   25.00% of tokens (epoch 2)  epoch 3  20 min 00 s  2001-09-09 " in worn
    assert "  unknown  0 of 10  " in fresh
    row = records(capsys, tmp_path)["worn"]
    assert (
        row.items()
        >= {
            "epochs_done": 3,
            "num_epochs": 3,
            "best_dev_error": 0.25,
            "best_epoch": 2,
            "chosen_epoch": 3,
            "train_s": 1200.0,
            "command": "",  # all its epochs are done
        }.items()
    )


def test_each_state_is_listed_with_the_command_that_resumes(tmp_path, capsys):
    errors = {
        "finished": None,
        "interrupted": KeyboardInterrupt(),
        "failed": UserError("the loss became nan: lower train.learning_rate"),
    }
    for name, error in errors.items():
        make_run(tmp_path / name)
        leave(tmp_path / name, error)
    for name in ("running", "killed"):
        make_run(tmp_path / name)
    at_work, killed = start(HOLD, tmp_path / "running"), start(HOLD, tmp_path / "killed")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    rows = records(capsys, tmp_path)
    text = said(capsys, tmp_path)
    at_work.communicate()
    assert {name: row["state"] for name, row in rows.items()} == {name: name for name in rows}
    assert {name for name, row in rows.items() if row["command"]} == {"interrupted", "failed", "killed"}
    assert f"interrupted; resume with {COMMAND}" in text
    assert f"lower train.learning_rate. Resume with {COMMAND}" in text
    assert "killed; resume with" in text
    assert rows["killed"]["command"].endswith("asr train --resume")
    assert rows["failed"]["reason"] == "the loss became nan: lower train.learning_rate"


def test_a_run_without_a_stored_command_is_resumed_by_its_directory(tmp_path, capsys):
    make_run(tmp_path / "old", (0.5,))
    make_run(tmp_path / "stored")
    leave(tmp_path / "stored", KeyboardInterrupt())
    shutil.copytree(tmp_path / "stored", tmp_path / "elsewhere" / "2024" / "copy")
    rows = records(capsys, tmp_path, tmp_path / "elsewhere" / "2024")
    begins = [*shlex.split(asr_command()), "train"]
    assert shlex.split(rows["old"]["command"]) == [*begins, str(tmp_path / "old"), "--resume"]
    # a copy is not resumed by the command of what it is a copy of
    copy = tmp_path / "elsewhere" / "2024" / "copy"
    assert shlex.split(rows["copy"]["command"]) == [*begins, str(copy), "--resume"]


def test_the_stored_command_is_listed_with_its_folder(tmp_path, capsys, monkeypatch):
    make_run(tmp_path / "run")
    leave(tmp_path / "run", KeyboardInterrupt())
    there = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert records(capsys, tmp_path)["run"]["command"] == f"cd {there} && {COMMAND}"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.toml", b"[train"),
        ("config.toml", b"\xff"),
        ("config.toml", b"[train]\nepoch = 3\n"),
        ("metrics.jsonl", b'{"epoch": 1'),
        ("metrics.jsonl", b"[]\n"),
        ("metrics.jsonl", b"[" * 100_000),
        ("metrics.jsonl", b"\xff"),
        ("average.json", b"{}"),
        ("import.json", b'{"program": "ASRT"}'),
    ],
)
def test_a_damaged_run_is_listed_as_damaged(tmp_path, capsys, name, content):
    make_run(tmp_path / "sound", (0.5,))
    make_run(tmp_path / "broken", (0.5,))
    (tmp_path / "broken" / name).write_bytes(content)
    rows = records(capsys, tmp_path)
    assert rows["sound"]["state"] == "unknown"
    assert rows["broken"]["state"] == "damaged"
    assert rows["broken"]["command"] == ""
    assert "broken: damaged: " in said(capsys, tmp_path)


@pytest.mark.parametrize("field", ["epoch", "dev_error", "train_s"])
def test_metrics_that_are_not_numbers_are_listed_as_damaged(tmp_path, capsys, field):
    run = make_run(tmp_path / "broken", (0.5,))
    record = {**dataclasses.asdict(metrics(1, 0.5, 1.0)), field: "much"}
    (run.directory / "metrics.jsonl").write_text(json.dumps(record))
    row = records(capsys, tmp_path)["broken"]
    assert (row["state"], row["num_epochs"], row["epochs_done"]) == ("damaged", 10, None)
    assert "metrics.jsonl: damaged (line 1: expected numbers)" in row["reason"]


def test_an_average_is_listed_as_an_average(tmp_path, capsys):
    make_run(tmp_path / "mean")
    write_origin(tmp_path / "mean", AverageOrigin("runs/demo", (4, 2), 0.125))
    row = records(capsys, tmp_path)["mean"]
    assert (row["state"], row["best_dev_error"], row["command"]) == ("average", 0.125, "")
    assert "mean: average of epochs 2, 4 of runs/demo" in said(capsys, tmp_path)


def test_an_infinite_error_rate_is_listed_as_valid_json(tmp_path, capsys):
    make_run(tmp_path / "run", (float("inf"),))
    assert records(capsys, tmp_path)["run"]["best_dev_error"] is None


def test_runs_are_found_once_in_folders_and_subfolders(tmp_path, capsys):
    for name in ("one", "group/two", ".hidden/three", "group/deeper/below/four"):
        make_run(tmp_path / name)
    assert set(records(capsys, tmp_path)) == {"one", "two"}
    assert set(records(capsys, tmp_path, tmp_path / "group", tmp_path / "one")) == {"one", "two"}
    assert set(records(capsys, tmp_path / "one")) == {"one"}


def test_listing_no_runs_shows_how_to_train_one(tmp_path, capsys, monkeypatch):
    assert f"no runs; start one with\n    {asr_command()} train demo" in listed(capsys, tmp_path)
    assert listed(capsys, tmp_path, "--json") == "[]\n"
    monkeypatch.chdir(tmp_path)
    assert "runs: no runs" in listed(capsys)
    assert main(["runs", "none"]) == 2
    assert "none: no such folder" in capsys.readouterr().err
    make_run(tmp_path / "runs" / "one")
    assert "runs/one " in listed(capsys)


def display_width(text):
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def test_listed_columns_are_aligned_within_100_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ("短", "普通话识别实验", "a" * 60, "很长的名字" * 8, "line\nbreak\x1b[31m")
    for name in names:
        run = make_run(Path("runs") / name, (1.0,) * 100, epochs=100)
        leave(run.directory, UserError(f"{name}: " + "很长 的 原因 " * 40))
    text = listed(capsys)
    table, *remarks = text.split("\n\n")
    lines = table.splitlines()
    at = lines[0].index("state")
    rows = [line for line in lines[1:] if " failed " in line]
    assert len(rows) == len(names)
    for row in rows:
        assert display_width(row[: row.index("failed")]) == at
    assert len(remarks) == len(names)
    for line in text.splitlines():
        assert display_width(line) <= 100 or " " not in line.strip() or line.startswith("    asr train")
    assert "\x1b" not in text
    assert f"runs/{'a' * 60}\n" in text


def test_a_hundred_runs_are_listed_without_tensorflow(tmp_path):
    for number in range(100):
        make_run(tmp_path / f"run{number}", (0.5,) * 40)
    program = (
        "import sys; from asr.cli.main import main\n"
        "assert main(['runs', sys.argv[1]]) == 0\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("unknown") >= 100
