"""Test that TensorFlow's startup messages are printed only where the user asks for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from multigpu.start import LOG_LEVEL

ROOT = Path(__file__).parents[2]
START = "from multigpu.start import import_tensorflow; import_tensorflow(); import tensorflow"


# `multigpu check` is started with level 3, in checking/test_check.py
@pytest.mark.parametrize(("level", "is_silent"), [(None, True), ("0", False)])
def test_startup_messages_are_printed_only_where_the_log_level_asks_for_them(level, is_silent):
    environment = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}
    ran = subprocess.run(
        [sys.executable, "-c", START],
        cwd=ROOT,
        env=environment | ({LOG_LEVEL: level} if level else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ran.stderr == "") == is_silent
