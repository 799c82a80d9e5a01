import collections
import importlib.util
import subprocess
import sys
import threading

import pytest
from helpers import ROOT

from asr.base.errors import UserError
from asr.base.system import lock
from asr.base.system.lock import exclusive_lock, is_locked, lock_file

HOLD_LOCK = """
import sys
from pathlib import Path
from asr.base.system.lock import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "asr work"):
    print("in", flush=True)
    sys.stdin.read()
"""
# locks and unlocks as fast as it can until its input ends; no other command locks, so it is never refused
LOCK_OFTEN = """
import sys
import threading
from pathlib import Path
from asr.base.system.lock import exclusive_lock
print("in", flush=True)
stop = threading.Thread(target=sys.stdin.read)
stop.start()
while stop.is_alive():
    with exclusive_lock(Path(sys.argv[1]), "asr work") as is_locked_by_us:
        assert is_locked_by_us
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
        process = start(HOLD_LOCK, tmp_path)
        assert is_locked(tmp_path, "asr work")
        refused = pytest.raises(UserError, match="another asr work is running there")
        with refused, exclusive_lock(tmp_path, "asr work"):
            pass
        assert is_locked(tmp_path, "asr work")  # the refused attempt did not release the lock
        leave(process)
        process.wait()
        assert not is_locked(tmp_path, "asr work")
        with exclusive_lock(tmp_path, "asr work") as is_locked_by_us:
            assert is_locked_by_us
        process.stdin.close()
        process.stdout.close()


def test_commands_of_other_names_share_a_folder(tmp_path):
    with exclusive_lock(tmp_path, "asr work"), exclusive_lock(tmp_path, "asr play"):
        assert not is_locked(tmp_path, "asr rest")


def test_checks_never_make_a_command_fail(tmp_path):
    process = start(LOCK_OFTEN, tmp_path)
    seen = collections.Counter()

    def check():
        while min(seen[True], seen[False]) < 100 and seen.total() < 1_000_000:
            seen[is_locked(tmp_path, "asr work")] += 1

    threads = [threading.Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.communicate()
    assert process.returncode == 0
    assert min(seen[True], seen[False]) >= 100


def test_concurrent_checks_do_not_count_as_commands(tmp_path):
    with exclusive_lock(tmp_path, "asr work"):
        pass
    seen = set()

    def check():
        seen.update(is_locked(tmp_path, "asr work") for _ in range(2000))

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {False}


def test_a_check_creates_no_file(tmp_path):
    assert not is_locked(tmp_path, "asr work")
    assert not is_locked(tmp_path / "none", "asr work")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"file: cannot write this folder"),
        exclusive_lock(tmp_path / "file", "asr work"),
    ):
        pass


@pytest.mark.skipif(not importlib.util.find_spec("filelock"), reason="filelock is for Windows")
def test_a_second_command_is_kept_out_without_flock(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_has_flock", lambda: False)  # as on Windows
    assert not is_locked(tmp_path, "asr work")
    for _ in range(2):
        with exclusive_lock(tmp_path, "asr work") as is_locked_by_us:
            assert is_locked_by_us
            assert is_locked(tmp_path, "asr work")
            refused = pytest.raises(UserError, match="another asr work is running there")
            with refused, exclusive_lock(tmp_path, "asr work"):
                pass
            assert is_locked(tmp_path, "asr work")
        assert not is_locked(tmp_path, "asr work")


def test_file_is_locked_by_one_process_until_it_closes_the_file(tmp_path):
    path = tmp_path / "a"
    with path.open("w") as one, path.open("rb") as other:
        assert lock_file(one)
        assert not lock_file(other)
        one.close()
        assert lock_file(other, wait=True)
