"""Define the exported models that several tests share."""

import shutil

import pytest

from asr.export import export


@pytest.fixture(scope="session")
def exported(trained_run, tmp_path_factory):
    """Return the export of the trained run in the format `onnx`, compared on its four test clips."""
    return export(trained_run, tmp_path_factory.mktemp("export") / "out")


@pytest.fixture(scope="session")
def bounded_run(trained_run, tmp_path_factory):
    """Return a run whose outputs depend on a bounded stretch of sound, as it does not normalise."""
    copy = tmp_path_factory.mktemp("bounded") / "run"
    shutil.copytree(trained_run, copy)
    config = copy / "config.toml"
    text = config.read_text("utf-8")
    assert "normalize = true" in text
    config.write_text(text.replace("normalize = true", "normalize = false"), "utf-8")
    return copy
