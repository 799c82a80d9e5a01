"""Define the run and the exported models that several tests share."""

import shutil

import pytest
from helpers.random_run import random_run

from asr.base.config import load_config
from asr.base.vocabulary import Vocabulary
from asr.export import export


@pytest.fixture(scope="session")
def separable_run(separable_config, clips, tmp_path_factory):
    """Return a run of the separable network whose weights are random, but its outputs clear."""
    config = load_config(separable_config)
    return random_run(config, Vocabulary.of_utterances(clips), tmp_path_factory.mktemp("separable") / "run")


@pytest.fixture(scope="session")
def exported(separable_run, tmp_path_factory):
    """Return the export of the run in the format `onnx`, compared on its four test clips."""
    return export(separable_run, tmp_path_factory.mktemp("export") / "out")


@pytest.fixture(scope="session")
def bounded_run(separable_run, tmp_path_factory):
    """Return a run whose outputs depend on a bounded stretch of sound, as it does not normalise."""
    copy = tmp_path_factory.mktemp("bounded") / "run"
    shutil.copytree(separable_run, copy)
    config = copy / "config.toml"
    text = config.read_text("utf-8")
    assert "normalize = true" in text
    config.write_text(text.replace("normalize = true", "normalize = false"), "utf-8")
    return copy
