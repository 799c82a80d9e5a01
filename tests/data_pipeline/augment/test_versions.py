import numpy as np
import pytest

from asr.audio.recording import read_audio, write_wav
from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.augment.versions import write_versions
from data_pipeline.manifests.columns import utterance_keys


def test_versions_equal_the_augmented_clip_of_each_epoch(tmp_path):
    clip = np.random.default_rng(3).normal(0, 2000, 20000).astype(np.int16)
    write_wav(tmp_path / "a.wav", clip)
    augmenter = Augmenter.load(AugmentConfig(speed_min=1.0, speed_max=1.0, gain_db_min=-6.0), 1)
    versions = write_versions(tmp_path / "a.wav", tmp_path / "out", augmenter, 2, "its-id")
    [key] = utterance_keys(["its-id"])
    for epoch, version in enumerate(versions):
        assert version.epoch == epoch
        np.testing.assert_array_equal(
            read_audio(version.path), augmenter.apply(read_audio(tmp_path / "a.wav"), epoch, key, 1.0)
        )


def test_writing_versions_without_effects_is_an_error(tmp_path):
    write_wav(tmp_path / "a.wav", np.ones(20000, np.int16))
    with pytest.raises(UserError, match="at least one effect"):
        write_versions(tmp_path / "a.wav", tmp_path / "out", Augmenter.load(AugmentConfig(pauses=0.0), 1), 1)
    assert not (tmp_path / "out").exists()
