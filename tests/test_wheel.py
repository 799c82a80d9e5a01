"""What is installed: the three packages with all their files, and no other import name."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from helpers import ROOT

PACKAGES = ("asr", "data_pipeline", "multigpu")
OF_THE_PROJECT = (*PACKAGES, "configs", "pyproject.toml", "setup.py", "README.md")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the names of the files that the wheel installs."""
    pytest.importorskip("setuptools")
    pytest.importorskip("wheel")
    folder = tmp_path_factory.mktemp("project")  # where a build leaves nothing that the next one would take
    for name in OF_THE_PROJECT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", folder]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "pip", "wheel", folder, *options], check=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_has_three_import_names(installed):
    assert {name.split("/")[0] for name in installed} == set(PACKAGES)


def test_the_wheel_has_every_file_of_the_packages_and_the_configurations(installed):
    files = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    files |= {f"asr/configs/{path.name}" for path in (ROOT / "configs").glob("*.toml")}
    assert installed == files
