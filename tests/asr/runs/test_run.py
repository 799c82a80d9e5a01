"""A run finds its own language model wherever its directory is moved."""

import pytest

from asr.base.decoder_settings import DecoderSettings
from asr.runs.run import Run


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "run")


def test_run_that_is_moved_finds_its_own_language_model(run, tmp_path):
    model = run.directory / "lm"
    run.save_decoder_settings(DecoderSettings(beam=4, language_model=str(model)))
    assert 'language_model = "lm"\n' in run.decoder_path.read_text(encoding="utf-8")
    assert run.decoder_settings() == DecoderSettings(beam=4, language_model=str(model))
    moved = Run(run.directory.rename(tmp_path / "renamed"))
    assert moved.decoder_settings().language_model == str(moved.directory / "lm")


def test_language_model_elsewhere_keeps_its_absolute_path(run, tmp_path):
    elsewhere = str(tmp_path / "lm")
    run.save_decoder_settings(DecoderSettings(beam=4, language_model=elsewhere))
    assert run.decoder_settings().language_model == elsewhere


def test_run_without_a_language_model_names_none(run):
    run.save_decoder_settings(DecoderSettings(beam=4))
    assert run.decoder_settings() == DecoderSettings(beam=4)
