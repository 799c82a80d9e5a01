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
