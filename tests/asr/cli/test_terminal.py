import os
import subprocess
import sys

import pytest
from helpers import ROOT
from helpers.processes import LIMIT_S

PROGRAM = """
import sys
from asr.cli.terminal import survive_hangup
survive_hangup()
streams = sys.stdout, sys.stderr
survive_hangup()
assert (sys.stdout, sys.stderr) == streams
print("你好")
print("a problem", file=sys.stderr)
sys.stdin.read()  # until the window is closed
print("nobody reads this", flush=True)
print("nor this", file=sys.stderr)
sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_printing_after_the_window_was_closed_is_no_error():
    window, end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.PIPE,
        stdout=end,
        stderr=end,
    )
    os.close(end)
    printed = b""
    while b"a problem" not in printed:
        printed += os.read(window, 100)
    assert printed.decode().split() == ["你好", "a", "problem"]
    os.close(window)
    process.stdin.close()
    assert process.wait(LIMIT_S) == 7


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")  # noqa: PTH110
def test_a_full_disk_is_still_an_error():
    program = PROGRAM.replace("sys.exit(7)", "")
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            input="",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode != 0
    assert "No space left" in done.stderr
