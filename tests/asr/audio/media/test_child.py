"""Processes that decode end with the program that asked them, and a fork of it leaves them alone."""

import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT
from helpers.media import written

from asr.audio.recording import read_audio


@pytest.fixture(scope="module")
def recording(clips, tmp_path_factory):
    """Return the path of a recording of several blocks."""
    path = tmp_path_factory.mktemp("media") / "long.m4a"
    speech = read_audio(clips[0].audio_path)
    path.write_bytes(written(np.tile(speech, 60 * 16000 // len(speech)), "m4a"))
    return path


def outcome(program, *arguments):
    """Run a program; return its status and what it printed."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments]  # of forks
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


UNFINISHED = """
import sys
from asr.audio.recording import audio_blocks
blocks = audio_blocks(sys.argv[1], 1.0)
print(len(next(blocks)))
"""


def test_program_that_reads_a_part_of_a_recording_ends_without_a_word(recording):
    assert outcome(UNFINISHED, recording) == (0, "16000\n", "")


PRIVILEGED = """
import ctypes, io, os, subprocess, sys
import numpy as np
from asr.audio.recording import audio_duration_s, read_audio
CAPBSET_DROP, SET_DUMPABLE, SYS_PTRACE = 24, 4, 19
ctypes.CDLL(None).prctl(CAPBSET_DROP, SYS_PTRACE, 0, 0, 0)  # as root its children may look into any process
ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)  # as of a program with capabilities of its own
with open(sys.argv[1], "rb") as file:
    path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    if subprocess.run(["head", "-c", "1", path], stdout=-3, stderr=-3).returncode == 0:
        sys.exit("may be opened")
    contents = io.BytesIO(file.read())
np.testing.assert_array_equal(read_audio(sys.argv[1]), read_audio(contents))
assert audio_duration_s(sys.argv[1]) > 50
print("equal")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems send the contents always")
def test_recording_is_read_where_its_process_may_not_be_looked_into(recording):
    found = outcome(PRIVILEGED, recording)
    if found[2] == "may be opened\n":
        pytest.skip("this system lets a process look into all others")
    assert found == (0, "equal\n", "")


FORKING = """
import os, signal, sys
import numpy as np
from asr.audio.media import child
from asr.audio.recording import audio_blocks, read_audio
whole = read_audio(sys.argv[1])
blocks = audio_blocks(sys.argv[1], 1.0)
found = [next(blocks)]
with child._lock:  # as another thread may have it
    fork = os.fork()
    if fork == 0:
        assert not child._lock.locked()
if fork == 0:
    signal.alarm(120)  # it would wait for a thread that it does not have
    np.testing.assert_array_equal(read_audio(sys.argv[1]), whole)
    blocks.close()
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
np.testing.assert_array_equal(np.concatenate([*found, *blocks]), whole)
print("equal")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no forks")
def test_fork_reads_recordings_and_leaves_those_of_its_parent_alone(recording):
    assert outcome(FORKING, recording) == (0, "equal\n", "")
