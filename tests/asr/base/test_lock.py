import importlib.util
import subprocess
import sys
import threading

import pytest
from helpers import ROOT

from asr.base import lock
from asr.base.lock import alone_in, is_anyone_in
from asr.base.types import UserError

HOLD = """
import sys
from pathlib import Path
from asr.base.lock import alone_in
with alone_in(Path(sys.argv[1]), "asr work"):
    print("in", flush=True)
    sys.stdin.read()
"""
# takes and gives back as fast as it can; no one else takes, so it must never be refused
TAKE_OFTEN = """
import sys
from pathlib import Path
from asr.base.lock import alone_in
print("in", flush=True)
for _ in range(2000):
    with alone_in(Path(sys.argv[1]), "asr work") as is_kept:
        assert is_kept
"""


def start(program, folder):
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"in\n"
    return process


def test_a_second_process_is_kept_out_until_the_first_leaves_or_is_killed(tmp_path):
    for leave in (lambda process: process.communicate(), lambda process: process.kill()):
        process = start(HOLD, tmp_path)
        assert is_anyone_in(tmp_path, "asr work")
        refused = pytest.raises(UserError, match="another asr work is at work there")
        with refused, alone_in(tmp_path, "asr work"):
            pass
        assert is_anyone_in(tmp_path, "asr work")  # those who came in vain took nothing away
        leave(process)
        process.wait()
        assert not is_anyone_in(tmp_path, "asr work")
        with alone_in(tmp_path, "asr work") as is_kept:
            assert is_kept
        process.stdin.close()
        process.stdout.close()


def test_commands_of_other_names_share_a_folder(tmp_path):
    with alone_in(tmp_path, "asr work"), alone_in(tmp_path, "asr play"):
        assert not is_anyone_in(tmp_path, "asr rest")


def test_looking_makes_no_lock_fail(tmp_path):
    process = start(TAKE_OFTEN, tmp_path)
    done = threading.Event()
    seen = set()

    def look():
        while not done.is_set():
            seen.add(is_anyone_in(tmp_path, "asr work"))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    process.wait()
    done.set()
    for thread in threads:
        thread.join()
    assert process.returncode == 0
    assert seen == {True, False}
    process.stdin.close()
    process.stdout.close()


def test_those_who_look_do_not_see_one_another(tmp_path):
    with alone_in(tmp_path, "asr work"):
        pass
    seen = set()

    def look():
        seen.update(is_anyone_in(tmp_path, "asr work") for _ in range(2000))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {False}


def test_looking_leaves_nothing_behind(tmp_path):
    assert not is_anyone_in(tmp_path, "asr work")
    assert not is_anyone_in(tmp_path / "none", "asr work")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"file: cannot write this folder"),
        alone_in(tmp_path / "file", "asr work"),
    ):
        pass


@pytest.mark.skipif(not importlib.util.find_spec("filelock"), reason="filelock is for Windows")
def test_without_flock_a_second_command_is_kept_out_too(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_has_flock", lambda: False)  # as on Windows
    assert not is_anyone_in(tmp_path, "asr work")
    for _ in range(2):
        with alone_in(tmp_path, "asr work") as is_kept:
            assert is_kept
            assert is_anyone_in(tmp_path, "asr work")
            refused = pytest.raises(UserError, match="another asr work is at work there")
            with refused, alone_in(tmp_path, "asr work"):
                pass
            assert is_anyone_in(tmp_path, "asr work")
        assert not is_anyone_in(tmp_path, "asr work")
