import resource
import signal

import keras
import numpy as np
import pytest

from asr.acoustic import make_acoustic_model
from asr.checkpoint import Progress, restore_checkpoint, save_checkpoint
from asr.config import AugmentConfig, Config, ModelConfig
from asr.types import UserError
from asr.vocabulary import Vocabulary

CONFIG = Config(augment=AugmentConfig(frequency_masks=1))


def make(config=CONFIG, tokens=("a1", "b1")):
    model = make_acoustic_model(config, Vocabulary(tokens))
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.build(model.trainable_variables)
    return model, optimizer


@pytest.fixture(scope="module")
def trained():
    model, optimizer = make()
    for _ in range(2):
        gradients = [np.ones(v.shape, np.float32) for v in model.trainable_variables]
        optimizer.apply(gradients, model.trainable_variables)
    return model, optimizer


def test_everything_comes_back(trained, tmp_path):
    model, optimizer = trained
    progress = Progress(epochs_done=3, best_dev_error=0.25, best_epoch=2, train_s=1.5)
    save_checkpoint(tmp_path / "c.npz", model, optimizer, progress)
    other_model, other_optimizer = make()
    assert restore_checkpoint(tmp_path / "c.npz", other_model, other_optimizer) == progress
    for one, other in zip(
        [*model.variables, *optimizer.variables],
        [*other_model.variables, *other_optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_a_checkpoint_of_another_model_is_refused(trained, tmp_path):
    save_checkpoint(tmp_path / "c.npz", *trained, Progress())
    for config, tokens in ((CONFIG, ("a1", "b1", "c1")), (Config(model=ModelConfig(size="s")), ("a1", "b1"))):
        with pytest.raises(UserError, match="configuration has changed"):
            restore_checkpoint(tmp_path / "c.npz", make(config, tokens)[0])


def test_a_missing_or_damaged_checkpoint_is_named(trained, tmp_path):
    path = tmp_path / "c.npz"
    with pytest.raises(UserError, match=r"c\.npz: no checkpoint; train this run first"):
        restore_checkpoint(path, trained[0])
    save_checkpoint(path, *trained, Progress())
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:9000] + b"\xff" * 5000 + whole[14000:]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"c\.npz: damaged checkpoint"):
            restore_checkpoint(path, make()[0])


def test_a_full_disk_leaves_the_old_checkpoint(trained, tmp_path):
    path = tmp_path / "c.npz"
    save_checkpoint(path, *trained, Progress(epochs_done=1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UserError, match="cannot write this checkpoint"):
            save_checkpoint(path, *trained, Progress(epochs_done=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert restore_checkpoint(path, make()[0]).epochs_done == 1
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]
