"""Test that the folder works where it is copied without the rest of the project."""

import os
import re
import shutil
import subprocess
import sys

from helpers import ROOT


def test_copied_folder_has_its_licence_and_its_readme_runs(tmp_path):
    shutil.copytree(ROOT / "multigpu", tmp_path / "multigpu", ignore=shutil.ignore_patterns("__pycache__"))
    assert (tmp_path / "multigpu/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    (example,) = re.findall(
        r"```python\n(.*?)```", (tmp_path / "multigpu/README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "model.keras").exists()
