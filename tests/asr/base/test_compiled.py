"""Compiled loops are kept for the next process, and compiled anew when one that they call has changed."""

import os
import shutil
import subprocess
import sys

from helpers import ROOT

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
