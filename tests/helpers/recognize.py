"""Run the script of an exported folder as where little more than its runtime is installed."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

# what an installation of numpy, soundfile and a runtime alone lacks
WITHOUT = ("asr", "tensorflow", "keras", "scipy", "numba", "onnx", "pypinyin", "rapidfuzz")
ISOLATED = (
    "import sys, runpy; sys.modules.update(dict.fromkeys({without!r})); sys.argv = sys.argv[1:]; "
    "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')"
)


def recognize(
    folder: Path, *arguments: object, data: bytes = b"", without: Collection[str] = ()
) -> "subprocess.CompletedProcess[bytes]":
    """Run recognize.py in a process that can import nothing but what it may need.

    Args:
        folder: that holds it.
        arguments: of the script.
        data: standard input.
        without: further modules that cannot be imported.
    """
    return run_isolated(folder / "recognize.py", *arguments, data=data, without=(*WITHOUT, *without))


def run_isolated(
    script: Path, *arguments: object, data: bytes = b"", without: Collection[str] = ()
) -> "subprocess.CompletedProcess[bytes]":
    """Run a script in a process that cannot import some modules, nor what is in this checkout."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    program = ISOLATED.format(without=tuple(without))
    return subprocess.run(
        [sys.executable, "-c", program, str(script), *map(str, arguments)],
        input=data,
        capture_output=True,
        env=environment,
        check=False,
        timeout=300,
    )
