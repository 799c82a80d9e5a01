"""Compiled loops are kept for the next process, and compiled anew when one that they call has changed."""

import os
import shutil
import subprocess
import sys

from helpers import ROOT

from asr.base.compiled import PACKAGE, sources

CALLEE = "from asr.base.compiled import compiled\n\n@compiled\ndef amount(x):\n    return x + {}\n"
CALLER = (
    "from asr.base.compiled import compiled\nfrom asr.language.hanzi.callee import amount\n\n"
    "@compiled\ndef twice(x):\n    return 2 * amount(x)\n"
)


def test_a_change_in_another_file_is_seen(tmp_path):
    asr = tmp_path / "asr"
    hanzi, base = asr / "language" / "hanzi", asr / "base"
    for package in (hanzi, base):
        package.mkdir(parents=True)
    for package in (asr, base, hanzi.parent, hanzi):
        (package / "__init__.py").touch()
    shutil.copy(ROOT / "asr" / "base" / "compiled.py", base)
    (hanzi / "caller.py").write_text(CALLER, encoding="utf-8")
    program = (
        "from asr.language.hanzi.caller import twice; print(twice(3), sum(twice.stats.cache_hits.values()))"
    )

    def run(amount):
        (hanzi / "callee.py").write_text(CALLEE.format(amount), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run(1) == ["8", "0"]
    assert run(1) == ["8", "1"]  # not compiled again
    assert run(5)[0] == "16"


def test_whatever_compiled_loops_import_is_part_of_them(tmp_path):
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


def test_every_module_of_compiled_loops_is_found():
    with_loops = {path for path in PACKAGE.rglob("*.py") if "\n@compiled" in path.read_text(encoding="utf-8")}
    assert len(with_loops) > 10
    assert with_loops <= set(sources())
