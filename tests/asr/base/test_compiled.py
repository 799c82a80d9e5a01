"""Compiled loops are cached for the next process, and recompiled when one that they call has changed."""

import os
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT

from asr.base.compiled import PACKAGE, sources

CALLEE = "from asr.base.compiled import compiled\n\n@compiled\ndef amount(x):\n    return x + {}\n"
CALLER = (
    "from asr.base.compiled import compiled\nfrom asr.language.hanzi.callee import amount\n\n"
    "@compiled\ndef twice(x):\n    return 2 * amount(x)\n"
)


PROGRAM = "from asr.language.hanzi.caller import twice; print(twice(3), sum(twice.stats.cache_hits.values()))"


@pytest.fixture
def hanzi(tmp_path):
    """Return the folder of a package with one compiled function in `caller.py`; `callee.py` is missing."""
    asr = tmp_path / "asr"
    hanzi, base = asr / "language" / "hanzi", asr / "base"
    for package in (hanzi, base):
        package.mkdir(parents=True)
    for package in (asr, base, hanzi.parent, hanzi):
        (package / "__init__.py").touch()
    shutil.copy(ROOT / "asr" / "base" / "compiled.py", base)
    (hanzi / "caller.py").write_text(CALLER, encoding="utf-8")
    return hanzi


def run_both_at_once(program, folder):
    """Return what each of two processes prints that run the same program on a package."""
    # bytecode is as old as a source of the same length that was written in the same second
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", program]
    started = [subprocess.Popen(command, env=environment, cwd=folder, **pipes) for _ in range(2)]
    printed = []
    for process in started:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        printed.append(output.split())
    return printed


def test_change_in_a_called_file_recompiles_the_caller(hanzi, tmp_path):
    def run(amount):
        (hanzi / "callee.py").write_text(CALLEE.format(amount), encoding="utf-8")
        return run_both_at_once(PROGRAM, tmp_path)

    assert sorted(run(1)) == [["8", "0"], ["8", "1"]]  # one process waits for the other's function
    assert run(1) == [["8", "1"]] * 2  # not compiled again
    assert sorted(run(5)) == [["16", "0"], ["16", "1"]]


def test_constants_of_callers_do_not_multiply_compilations(hanzi, tmp_path):
    (hanzi / "callee.py").write_text(CALLEE.format(1), encoding="utf-8")
    caller = "@compiled\ndef total(x):\n    return amount(1) + amount(2) + amount(x)\n"
    (hanzi / "caller.py").write_text(CALLER + caller, encoding="utf-8")
    program = "from asr.language.hanzi.caller import *; print(total(3), len(amount.signatures))"
    assert sorted(run_both_at_once(program, tmp_path)) == [["9", "0"], ["9", "1"]]  # one loads `total` alone


def test_sources_are_the_compiled_loops_and_all_that_they_import(tmp_path):
    asr = tmp_path / "asr"
    modules = {
        "language/loops.py": "from asr.base.compiled import compiled\nfrom asr.audio import sizes\n",
        "audio/sizes.py": "from asr.base.units import (\n    SIZE,\n)\n",
        "base/units.py": "SIZE = 3\n",
        "base/compiled.py": "",
        "base/other.py": "from asr.language.loops import work\n",
        "audio/__init__.py": "",
    }
    for name, text in modules.items():
        (asr / name).parent.mkdir(parents=True, exist_ok=True)
        (asr / name).write_text(text, encoding="utf-8")
    assert sources(asr) == sorted(asr / name for name in modules if name != "base/other.py")


def test_sources_contain_every_module_with_compiled_loops():
    with_loops = {path for path in PACKAGE.rglob("*.py") if "\n@compiled" in path.read_text(encoding="utf-8")}
    assert len(with_loops) > 10
    assert with_loops <= set(sources())
