"""Test that a wheel has the three packages with all their files, and no other import name."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
from helpers import ROOT

PACKAGES = ("asr", "data_pipeline", "multigpu")
OF_THE_PROJECT = (*PACKAGES, "configs", "pyproject.toml", "setup.py", "README.md", "LICENSE")


TYPED = """
from pathlib import Path

from asr import load_config
from data_pipeline.manifests.manifest import read_manifest
from multigpu.cluster import find_cluster

reveal_type(load_config("demo").train.epochs)
reveal_type(read_manifest(Path("train.jsonl")))
reveal_type(find_cluster().addresses)
load_config(7)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the path of the wheel."""
    pytest.importorskip("setuptools")
    pytest.importorskip("wheel")
    folder = tmp_path_factory.mktemp("project")  # a build leaves nothing for the next one there
    for name in OF_THE_PROJECT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", folder]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "pip", "wheel", folder, *options], check=True, env=environment)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel):
    """Return the names of the files that the wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_wheel_has_three_import_names(installed):
    assert {name.split("/")[0] for name in installed} == set(PACKAGES)


def test_wheel_has_every_file_of_the_packages_and_the_configurations(installed):
    files = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    files |= {f"asr/configs/{path.name}" for path in (ROOT / "configs").glob("*.toml")}
    assert installed == files


def test_the_wheel_brings_its_licence_and_those_of_what_its_models_learned_from(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        metadata = archive.read(names["METADATA"]).decode()
        licence = archive.read(names["licenses/LICENSE"]).decode()
    assert "License-Expression: Apache-2.0 AND CC-BY-SA-4.0" in metadata
    assert "Version 2.0, January 2004" in licence
    for notice in ("asr/language/hanzi/NOTICE.md", "asr/base/model_files/general.md"):
        assert f"licenses/{notice}" in names


@pytest.mark.slow
def test_a_type_checker_sees_the_types_of_the_installed_wheel(wheel, tmp_path):
    pytest.importorskip("mypy")
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (tmp_path / "typed.py").write_text(TYPED)
    options = ["--python-executable", tmp_path / "venv" / "bin" / "python", "--ignore-missing-imports"]
    command = [sys.executable, "-m", "mypy", *options, "typed.py"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    checked = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    revealed = re.findall('Revealed type is "(.*)"', checked.stdout)
    assert revealed == ["int", "data_pipeline.manifests.utterances.Utterances", "tuple[str, ...]"]
    assert '"load_config" has incompatible type "int"' in checked.stdout
