import contextlib
import dataclasses
import json
import resource
import signal
import socket
import subprocess
import sys

import pytest
from helpers import ROOT

from asr import __version__
from asr.base.errors import UserError
from asr.base.system.lock import is_locked
from asr.runs import state as run_state
from asr.runs.state import read_state, track_state

COMMAND = "asr train demo --resume"
WORK = f"""
import sys
from pathlib import Path
from asr.runs.state import track_state
with track_state(Path(sys.argv[1]), {COMMAND!r}):
    print("in", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def worker(tmp_path):
    """Start a process that trains a run."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"in\n"
    yield process
    process.kill()
    process.communicate()


def change(folder, **values):
    path = folder / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_training_process_is_running_and_keeps_others_out(worker, tmp_path):
    state = read_state(tmp_path)
    assert (state.state, state.command, state.pid) == ("running", COMMAND, worker.pid)
    assert (state.host, state.version, state.folder) == (socket.gethostname(), __version__, str(ROOT))
    assert (state.ended_s, state.locked) == (None, True)
    before = (tmp_path / "state.json").read_bytes()
    with (
        pytest.raises(UserError, match=f"{tmp_path}: another asr train is running"),
        track_state(tmp_path, "second"),
    ):
        pass
    assert (tmp_path / "state.json").read_bytes() == before
    worker.communicate()
    assert read_state(tmp_path).state == "finished"
    assert read_state(tmp_path).ended_s >= state.begun_s


def test_a_killed_process_is_distinguished_from_a_running_one(worker, tmp_path):
    worker.send_signal(signal.SIGKILL)
    worker.wait(timeout=30)
    assert json.loads((tmp_path / "state.json").read_text())["state"] == "running"
    assert read_state(tmp_path).state == "killed"
    with track_state(tmp_path, "again"):
        assert read_state(tmp_path).state == "running"
    assert read_state(tmp_path).state == "finished"


def test_an_interrupted_process_records_its_interruption(worker, tmp_path):
    worker.send_signal(signal.SIGINT)
    worker.wait(timeout=30)
    assert read_state(tmp_path).state == "interrupted"


class Terminated(BaseException):
    pass


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (KeyboardInterrupt(), "interrupted", ""),
        (Terminated(), "interrupted", ""),
        (UserError("demo: 没有\nspace"), "failed", "demo: 没有 space"),
        (ValueError("shape"), "failed", "ValueError: shape"),
        (MemoryError(), "failed", "MemoryError"),
    ],
)
def test_the_error_that_ends_a_run_is_recorded_and_raised(tmp_path, error, state, reason):
    with (
        pytest.raises(type(error)) as raised,
        track_state(tmp_path, COMMAND, interrupted_by=(KeyboardInterrupt, Terminated)),
    ):
        raise error
    assert raised.value is error
    said = read_state(tmp_path)
    assert (said.state, said.reason, said.command) == (state, reason, COMMAND)


def test_the_cause_of_an_error_is_recorded_without_the_command_that_follows_it(tmp_path):
    with pytest.raises(UserError), track_state(tmp_path, COMMAND):
        raise UserError("disk full\nresume with") from UserError("disk full")
    assert read_state(tmp_path).reason == "disk full"


def test_a_new_session_replaces_the_state_of_a_failed_one(tmp_path):
    with pytest.raises(ValueError, match="first"), track_state(tmp_path, COMMAND):
        raise ValueError("first")
    with track_state(tmp_path, COMMAND):
        running = read_state(tmp_path)
        assert (running.state, running.reason, running.ended_s) == ("running", "", None)


def fill_disk_and_fail(limits):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    raise ValueError("what ended it")


def test_a_full_disk_hides_neither_the_error_that_ended_the_run_nor_the_last_state(tmp_path, caplog):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(ValueError, match="what ended it"), track_state(tmp_path, COMMAND):
            fill_disk_and_fail(limits)
        with pytest.raises(UserError, match=r"state\.json: cannot write"), track_state(tmp_path, COMMAND):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "state.json: cannot write this state of the run" in caplog.text
    assert read_state(tmp_path).state == "killed"  # no end was recorded
    assert read_state(tmp_path).command == COMMAND


def test_nothing_is_written_if_the_session_is_refused(tmp_path):
    def refuse():
        assert is_locked(tmp_path, run_state.LOCK)
        raise UserError("another has begun")

    with pytest.raises(UserError, match="another has begun"), track_state(tmp_path, "c", refuse=refuse):
        pytest.fail("it was not refused")
    assert not list(tmp_path.glob("*.json"))


def test_only_the_chief_process_writes_the_state(tmp_path):
    with track_state(tmp_path / "run", COMMAND, is_chief=False):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"state": "running"',
        b'{"state": "sleeping"}',
        b'{"state": ["running"]}',
        b'{"state": "killed"}',
        b'{"state": "failed", "command": 3}',
        b'{"state": "failed", "ended_s": "today"}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_state_file_makes_the_state_unknown(tmp_path, content):
    (tmp_path / "state.json").write_bytes(content)
    state = read_state(tmp_path)
    assert state.state == "unknown"
    assert state.reason == f"{tmp_path / 'state.json'}: damaged"


def test_a_run_without_a_state_file_is_unknown_until_a_process_trains_it(tmp_path):
    assert read_state(tmp_path).state == read_state(tmp_path / "none").state == "unknown"
    assert read_state(tmp_path).reason == ""
    (tmp_path / "state.json").mkdir()  # cannot be read
    assert "cannot be read" in read_state(tmp_path).reason


def test_a_state_file_of_a_later_version_is_read(tmp_path):
    with track_state(tmp_path, COMMAND):
        pass
    said = read_state(tmp_path)
    change(tmp_path, colour="red")
    assert read_state(tmp_path) == said


def test_a_state_that_cannot_be_checked_is_unknown(worker, tmp_path):
    worker.kill()
    worker.wait(timeout=30)
    killed = read_state(tmp_path)
    change(tmp_path, host="another-machine")
    assert read_state(tmp_path).state == "unknown"
    assert "another-machine" in read_state(tmp_path).reason
    change(tmp_path, host=killed.host, locked=False)
    assert read_state(tmp_path).state == "unknown"
    assert "has no locks" in read_state(tmp_path).reason
    assert dataclasses.replace(read_state(tmp_path), state="killed", reason="", locked=True) == killed


def test_a_run_that_ends_during_a_check_is_not_reported_as_killed(tmp_path, monkeypatch):
    session = contextlib.ExitStack()
    session.enter_context(track_state(tmp_path, COMMAND))

    def end_and_look(folder, command):
        session.close()
        return is_locked(folder, command)

    monkeypatch.setattr(run_state, "is_locked", end_and_look)
    assert read_state(tmp_path).state == "finished"
