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
from asr.base.lock import is_anyone_in
from asr.base.types import UserError
from asr.runs import state as run_state
from asr.runs.state import read_state, tracked

COMMAND = "asr train demo --resume"
WORK = f"""
import sys
from pathlib import Path
from asr.runs.state import tracked
with tracked(Path(sys.argv[1]), {COMMAND!r}):
    print("in", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def worker(tmp_path):
    """A process at work on a run."""
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


def test_a_process_at_work_is_running_and_alone(worker, tmp_path):
    state = read_state(tmp_path)
    assert (state.state, state.command, state.pid) == ("running", COMMAND, worker.pid)
    assert (state.host, state.version, state.folder) == (socket.gethostname(), __version__, str(ROOT))
    assert (state.ended_s, state.locked) == (None, True)
    before = (tmp_path / "state.json").read_bytes()
    with (
        pytest.raises(UserError, match=f"{tmp_path}: another asr train is at work"),
        tracked(tmp_path, "second"),
    ):
        pass
    assert (tmp_path / "state.json").read_bytes() == before
    worker.communicate()
    assert read_state(tmp_path).state == "finished"
    assert read_state(tmp_path).ended_s >= state.begun_s


def test_a_killed_process_is_told_from_one_at_work(worker, tmp_path):
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert json.loads((tmp_path / "state.json").read_text())["state"] == "running"
    assert read_state(tmp_path).state == "killed"
    with tracked(tmp_path, "again"):
        assert read_state(tmp_path).state == "running"
    assert read_state(tmp_path).state == "finished"


def test_an_interrupted_process_says_so(worker, tmp_path):
    worker.send_signal(signal.SIGINT)
    worker.wait()
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
def test_what_ends_a_run_is_kept_and_goes_on(tmp_path, error, state, reason):
    with (
        pytest.raises(type(error)) as raised,
        tracked(tmp_path, COMMAND, interrupted_by=(KeyboardInterrupt, Terminated)),
    ):
        raise error
    assert raised.value is error
    said = read_state(tmp_path)
    assert (said.state, said.reason, said.command) == (state, reason, COMMAND)


def test_the_next_session_takes_the_place_of_a_failed_one(tmp_path):
    with pytest.raises(ValueError, match="first"), tracked(tmp_path, COMMAND):
        raise ValueError("first")
    with tracked(tmp_path, COMMAND):
        running = read_state(tmp_path)
        assert (running.state, running.reason, running.ended_s) == ("running", "", None)


def fill_disk_and_fail(limits):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    raise ValueError("what ended it")


def test_a_full_disk_hides_neither_what_ended_the_run_nor_the_state_before(tmp_path, caplog):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(ValueError, match="what ended it"), tracked(tmp_path, COMMAND):
            fill_disk_and_fail(limits)
        with pytest.raises(UserError, match=r"state\.json: cannot write"), tracked(tmp_path, COMMAND):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "state.json: cannot write this state of the run" in caplog.text
    assert read_state(tmp_path).state == "killed"  # it ended, without a word
    assert read_state(tmp_path).command == COMMAND


def test_others_than_the_chief_write_nothing(tmp_path):
    with tracked(tmp_path / "run", COMMAND, is_chief=False):
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
def test_a_damaged_file_makes_the_state_unknown(tmp_path, content):
    (tmp_path / "state.json").write_bytes(content)
    state = read_state(tmp_path)
    assert state.state == "unknown"
    assert state.reason == f"{tmp_path / 'state.json'}: damaged"


def test_runs_without_a_state_are_unknown_until_someone_works_on_them(tmp_path):
    assert read_state(tmp_path).state == read_state(tmp_path / "none").state == "unknown"
    assert read_state(tmp_path).reason == ""
    (tmp_path / "state.json").mkdir()  # cannot be read
    assert "cannot be read" in read_state(tmp_path).reason


def test_a_file_of_a_later_version_is_read(tmp_path):
    with tracked(tmp_path, COMMAND):
        pass
    said = read_state(tmp_path)
    change(tmp_path, colour="red")
    assert read_state(tmp_path) == said


def test_what_cannot_be_known_is_not_claimed(worker, tmp_path):
    worker.kill()
    worker.wait()
    killed = read_state(tmp_path)
    change(tmp_path, host="another-machine")
    assert read_state(tmp_path).state == "unknown"
    assert "another-machine" in read_state(tmp_path).reason
    change(tmp_path, host=killed.host, locked=False)
    assert read_state(tmp_path).state == "unknown"
    assert "has no locks" in read_state(tmp_path).reason
    assert dataclasses.replace(read_state(tmp_path), state="killed", reason="", locked=True) == killed


def test_a_run_that_ends_while_it_is_looked_at_is_not_taken_for_killed(tmp_path, monkeypatch):
    session = contextlib.ExitStack()
    session.enter_context(tracked(tmp_path, COMMAND))

    def end_and_look(folder, command):
        session.close()
        return is_anyone_in(folder, command)

    monkeypatch.setattr(run_state, "is_anyone_in", end_and_look)
    assert read_state(tmp_path).state == "finished"
