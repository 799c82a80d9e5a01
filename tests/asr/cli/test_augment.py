import argparse

import numpy as np
import pytest

from asr.audio.recording import read_audio, write_wav
from asr.base.config import AugmentConfig
from asr.base.errors import UserError
from asr.cli.commands.data.augment import augment_command
from data_pipeline.augment.augmenter import Augmenter, speed_factors
from data_pipeline.manifests.columns import utterance_keys


def speech(num_samples=20000):
    """Return bursts of noise with pauses between them."""
    loud = np.random.default_rng(3).normal(0, 2000, num_samples)
    return (loud * (np.arange(num_samples) % 8000 < 5000)).astype(np.int16)


def augment(file, out, *overrides, num=3, utterance_id=None):
    return augment_command(
        argparse.Namespace(
            file=file, out=out, config="demo", overrides=list(overrides), num_versions=num, id=utterance_id
        )
    )


def test_augment_writes_the_audio_that_training_uses(tmp_path, capsys):
    clip = tmp_path / "A11_0.wav"
    write_wav(clip, speech())
    settings = ["augment.noise=coloured", "augment.noise_probability=1.0", "train.seed=9"]
    assert augment(clip, tmp_path / "out", *settings) == 0
    written = sorted((tmp_path / "out").iterdir())
    assert len(written) == 3
    config = AugmentConfig(speed_min=0.78, speed_max=1.27, noise="coloured", noise_probability=1.0)
    [key] = utterance_keys(["A11_0"])
    shown = capsys.readouterr().out.splitlines()
    for epoch, path in enumerate(written):
        [speed] = speed_factors(config, 9, epoch, np.array([key]))
        augmented, applied = Augmenter.load(config, 9).apply_with_effects(speech(), epoch, key, speed)
        np.testing.assert_array_equal(read_audio(path), augmented)
        pauses = "-pauses" if any(applied.pauses_s) else ""
        assert f"-epoch{epoch}-speed{speed:.2f}{pauses}-noise{applied.snr_db:.0f}dB" in path.name
        assert shown[1 + epoch].split()[:2] == [str(epoch), f"{speed:.3f}"]
        assert f"{applied.snr_db:.1f} dB" in shown[1 + epoch]
        assert shown[1 + epoch].endswith(str(path))


def test_the_channel_is_shown_and_in_the_name(tmp_path, capsys):
    write_wav(tmp_path / "a.wav", speech())
    augment(tmp_path / "a.wav", tmp_path / "out", "augment.channels=1")
    for line in capsys.readouterr().out.splitlines()[1:]:
        assert any(name in line for name in ("telephone", "8 kHz", " kbit/s"))
        assert any(name in line.split()[-1] for name in ("-telephone.wav", "-8kHz.wav", "kbitps.wav"))


def test_augment_uses_the_id_of_the_manifest(tmp_path):
    write_wav(tmp_path / "a.wav", speech())
    augment(tmp_path / "a.wav", tmp_path / "one", num=1)
    augment(tmp_path / "a.wav", tmp_path / "other", num=1, utterance_id="b")
    [one], [other] = (sorted((tmp_path / name).iterdir()) for name in ("one", "other"))
    assert one.read_bytes() != other.read_bytes()


@pytest.mark.parametrize(
    ("overrides", "num", "message"),
    [
        (
            ["augment.speed_min=1.0", "augment.speed_max=1.0", "augment.pauses=0.0"],
            1,
            r"\[augment\]: expected at least one effect",
        ),
        ([], 0, "num_versions=0.: expected"),
        (["augment.noise=nowhere"], 1, "nowhere: no such folder"),
    ],
)
def test_impossible_augmentations_are_errors(overrides, num, message, tmp_path):
    write_wav(tmp_path / "a.wav", speech())
    with pytest.raises(UserError, match=message):
        augment(tmp_path / "a.wav", tmp_path / "out", *overrides, num=num)
    assert not (tmp_path / "out").exists()
