"""Compiled loops are cached for the next process, and recompiled when one that they call has changed."""

import os
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT

from asr.base.compiled import PACKAGE, sources

CALLEE = "from asr.base.compiled import compilable\n\n@compilable\ndef amount(x):\n    return x + {}\n"
CALLER = (
    "from asr.base.compiled import compilable\nfrom asr.language.hanzi.callee import amount\n\n"
    "@compilable\ndef twice(x):\n    return 2 * amount(x)\n\n"
    "@compilable\ndef grown(x):\n    return x + x * 2**62\n"
)
GROWN, WRAPPED = 4 + 4 * 2**62, "4"  # what `grown` returns interpreted, and in 64 bits
PROGRAM = """
from asr.base.compiled import compiled
from asr.language.hanzi.caller import twice
print(compiled(twice)(3), sum(compiled(twice).stats.cache_hits.values()))
"""

GRADUAL = """
import sys
from asr.base.compiled import Gradual
from asr.language.hanzi.caller import grown
gradual = Gradual(grown, budget=10)
for work in {}:
    print(gradual(lambda: work, 4), "numba" in sys.modules)
"""


@pytest.fixture
def package(tmp_path):
    """Return the folder that has a package with one compiled function in `caller.py`, whose callee adds 1."""
    hanzi, base = (tmp_path / "asr" / room for room in ("language/hanzi", "base"))
    for folder in (hanzi, base / "system"):
        folder.mkdir(parents=True)
    for module in ("compiled.py", "system/cache.py"):
        shutil.copy(ROOT / "asr" / "base" / module, base / module)
    (hanzi / "caller.py").write_text(CALLER, encoding="utf-8")
    (hanzi / "callee.py").write_text(CALLEE.format(1), encoding="utf-8")
    return tmp_path


def start(package, cache, program=PROGRAM):
    """Start a process that prints what compiled functions return, and how often one was in the cache."""
    # bytecode is as old as a source of the same length that was written in the same second
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"NUMBA_CACHE_DIR": str(cache)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, cwd=package, **pipes)


def finish(process):
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output.split(), errors


def run(package, cache, program=PROGRAM):
    return finish(start(package, cache, program))[0]


def test_next_process_loads_what_one_has_compiled(package, tmp_path):
    assert run(package, tmp_path / "cache") == ["8", "0"]
    assert run(package, tmp_path / "cache") == ["8", "1"]


@pytest.mark.slow
def test_two_processes_at_once_compile_the_same(package, tmp_path):
    both = [start(package, tmp_path / "cache") for _ in range(2)]
    assert [finish(process)[0][0] for process in both] == ["8", "8"]
    assert run(package, tmp_path / "cache") == ["8", "1"]


@pytest.mark.slow
def test_change_in_a_called_file_recompiles_the_caller(package, tmp_path):
    run(package, tmp_path / "cache")
    callee = package / "asr" / "language" / "hanzi" / "callee.py"
    callee.write_text(CALLEE.format(5), encoding="utf-8")
    assert run(package, tmp_path / "cache") == ["16", "0"]


def test_nothing_is_written_into_the_installation(package, tmp_path):
    before = sorted((package / "asr").rglob("*"))
    run(package, tmp_path / "cache")
    assert sorted((package / "asr").rglob("*")) == before


def test_loops_run_where_no_cache_can_be_written(package, tmp_path):
    (tmp_path / "file").touch()
    printed, errors = finish(start(package, tmp_path / "file"))
    assert printed == ["8", "0"]
    assert "NUMBA_CACHE_DIR" in errors


def test_little_work_imports_no_numba_and_more_is_compiled(package, tmp_path):
    printed = run(package, tmp_path / "cache", GRADUAL.format("(6, 4, 1)"))
    assert printed == [str(GROWN), "False", str(GROWN), "False", WRAPPED, "True"]


def test_little_work_is_compiled_where_numba_is_there(package, tmp_path):
    program = PROGRAM + GRADUAL.format("(1,)")
    assert run(package, tmp_path / "cache", program)[2:] == [WRAPPED, "True"]


def test_sources_contain_every_module_with_compiled_loops():
    with_loops = {
        path for path in PACKAGE.rglob("*.py") if "\n@compilable" in path.read_text(encoding="utf-8")
    }
    assert len(with_loops) > 10
    assert with_loops <= set(sources())


def test_sources_import_no_other_room():
    names = {
        line.split(".")[1]
        for path in sources()
        for line in path.read_text("utf-8").split("\n")
        if line.strip().startswith("from asr.")
    }
    assert {name.split()[0] for name in names} <= {"base", "ctc", "language"}
