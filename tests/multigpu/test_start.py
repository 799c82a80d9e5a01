"""Test that TensorFlow's startup messages are printed where the user asks for them."""

import os
import subprocess
import sys
from pathlib import Path

from multigpu.start import LOG_LEVEL

ROOT = Path(__file__).parents[2]
START = "from multigpu.start import import_tensorflow; import_tensorflow(); import tensorflow"


# test_devices.py starts a process without a level, and checking/test_check.py `multigpu check` with level 3
def test_startup_messages_are_printed_where_the_log_level_asks_for_them():
    environment = os.environ | {LOG_LEVEL: "0"}
    command = [sys.executable, "-c", START]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert ran.stderr
