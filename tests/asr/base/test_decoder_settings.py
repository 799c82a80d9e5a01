"""The settings of a decoder are saved, loaded, and refused with the name of a wrong key."""

import dataclasses

import pytest

from asr.base.decoder_settings import DecoderSettings, load_settings, save_settings
from asr.base.errors import UserError


def test_saved_decoder_settings_load_unchanged(tmp_path):
    settings = dataclasses.replace(DecoderSettings(), beam=24, language_model='模"型\\', token_bonus=-0.75)
    save_settings(tmp_path / "decoder.toml", settings)
    assert load_settings(tmp_path / "decoder.toml") == settings


def test_settings_saved_when_the_algorithm_could_be_chosen_are_read(tmp_path):
    path = tmp_path / "decoder.toml"
    path.write_text('beam = 8\nalgorithm = "prefix_beam"\n', encoding="utf-8")
    assert load_settings(path) == DecoderSettings(beam=8)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("beems = 3", "beems: no such key (did you mean beam?)"),
        ("beam = 0", "beam: expected 1 to 4096, received 0"),
        ('lm_weight = "much"', "lm_weight: expected a number, received 'much'"),
        ("beam =", "not valid TOML"),
    ],
)
def test_invalid_decoder_settings_are_refused_with_file_and_key(tmp_path, line, message):
    path = tmp_path / "decoder.toml"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_settings(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
