import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
from helpers import ROOT
from helpers.full_disk import largest_file

from asr.base.config import AugmentConfig, Config, ModelConfig
from asr.base.errors import UserError
from asr.base.types import EditCounts
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import (
    DamagedCheckpointError,
    load_decoding_weights,
    read_checkpoint,
    restore_state,
    state_of,
    write_checkpoint,
    write_weights,
)
from asr.runs.checkpoint_store import BackgroundWriter, CheckpointStore
from asr.runs.progress import EpochMetrics, EpochSoFar, Progress
from asr.runs.run import Run

CONFIG = Config(augment=AugmentConfig(frequency_masks=1))
VOCABULARY = Vocabulary(("a1", "b1"))


def make(config=CONFIG, vocabulary=VOCABULARY):
    model = make_acoustic_model(config, vocabulary)
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


@pytest.fixture(scope="module")
def arrays(trained):
    return state_of(*trained)


def epochs(*dev_errors):
    """Return metrics of epochs with these errors; one no worse than the best so far is best and chosen."""
    return tuple(
        EpochMetrics(
            epoch=number,
            loss=1.5,
            train_error=0.5,
            dev_loss=2.5,
            dev_error=error,
            learning_rate=1e-3,
            audio_s_per_s=100.0,
            train_s=10.0 * number,
            best=error <= min(dev_errors[:number]),
            chosen=error <= min(dev_errors[:number]),
            step=7 * number,
        )
        for number, error in enumerate(dev_errors, 1)
    )


def after(*dev_errors, batch=0):
    return Progress(history=epochs(*dev_errors), epoch=EpochSoFar(batches=batch))


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", CONFIG, VOCABULARY)


def names(run):
    return [path.name for path in run.checkpoints()]


def save(run, arrays, *progresses, keep_last=2, keep_best=1):
    with CheckpointStore(run, keep_last, keep_best) as store:
        for progress in progresses:
            store.save(arrays, progress)


def test_a_checkpoint_restores_everything(trained, tmp_path):
    model, optimizer = trained
    average = [np.asarray(weight) + 1 for weight in model.weights]
    epoch = EpochSoFar(3, 1, 20, 0.1 + 0.2, 5.5, 2, EditCounts(1, 2, 3, 4), 6.5, 0.5)
    progress = Progress(epochs(0.5, 0.1 + 0.2), epoch, data_checksum=2**31, reported=("stalled",))
    write_checkpoint(tmp_path / "c.npz", state_of(model, optimizer, average), progress)
    checkpoint = read_checkpoint(tmp_path / "c.npz")
    assert checkpoint.progress == progress

    other_model, other_optimizer = make()
    other_average = [keras.Variable(np.zeros(weight.shape, weight.dtype)) for weight in model.weights]
    restore_state(checkpoint, other_model, other_optimizer, other_average)
    for one, other in zip(
        [*model.variables, *optimizer.variables, *average],
        [*other_model.variables, *other_optimizer.variables, *other_average],
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_a_copied_state_is_not_changed_by_further_steps(tmp_path):
    model, optimizer = make()
    state = state_of(model, optimizer)
    before = {name: array.copy() for name, array in state.items()}
    optimizer.apply([np.ones(v.shape, "f") for v in model.trainable_variables], model.trainable_variables)
    for name, array in state.items():
        np.testing.assert_array_equal(array, before[name])


def test_decoding_uses_the_moving_average_if_there_is_one(trained, tmp_path):
    model, optimizer = trained
    average = [np.asarray(weight) + 1 for weight in model.weights]
    for state, expected in (
        (state_of(model, optimizer), [np.asarray(weight) for weight in model.weights]),
        (state_of(model, optimizer, average), average),
    ):
        write_checkpoint(tmp_path / "c.npz", state, Progress())
        other, _ = make()
        load_decoding_weights(tmp_path / "c.npz", other)
        for own, wanted in zip(other.weights, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(own), wanted)


def test_a_checkpoint_of_weights_alone_can_be_decoded_with(trained, arrays, tmp_path):
    write_weights(tmp_path / "w.npz", {"x": np.ones(3)}, Progress())
    assert read_checkpoint(tmp_path / "w.npz").decoding_weights.keys() == {"x"}


def test_a_checkpoint_of_another_model_is_refused(arrays, tmp_path):
    write_checkpoint(tmp_path / "c.npz", arrays, Progress())
    for config, vocabulary in (
        (CONFIG, Vocabulary(("a1", "b1", "c1"))),
        (Config(model=ModelConfig(size="s")), VOCABULARY),
    ):
        with pytest.raises(UserError, match="configuration has changed"):
            load_decoding_weights(tmp_path / "c.npz", make(config, vocabulary)[0])


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(UserError, match=r"c\.npz: no checkpoint; train this run first"):
        read_checkpoint(tmp_path / "c.npz")


def test_every_changed_byte_of_a_checkpoint_is_detected_or_harmless(arrays, tmp_path):
    path = tmp_path / "c.npz"
    write_checkpoint(path, arrays, after(0.5))
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    places = [*rng.integers(0, len(whole), 60), *range(0, 300, 7), *range(len(whole) - 300, len(whole), 7)]
    refused = 0
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            read = read_checkpoint(path)
        except DamagedCheckpointError:
            refused += 1
            continue
        assert read.progress == after(0.5)
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, read.arrays[name])
    assert refused > 60
    for damaged in (b"", whole[: len(whole) // 2], whole[:-1], whole[:9000] + b"\xff" * 5000 + whole[14000:]):
        path.write_bytes(damaged)
        with pytest.raises(DamagedCheckpointError, match=r"c\.npz: damaged checkpoint"):
            read_checkpoint(path)


def test_the_latest_and_the_best_checkpoints_are_kept(run, arrays):
    errors = (0.9, 0.3, 0.5, 0.6, 0.4)
    points = [after(*errors[:number]) for number in range(1, 6)]
    save(run, arrays, *points, after(*errors, batch=12), after(*errors, batch=20))
    assert names(run) == ["epoch-0002.npz", "epoch-0006-batch-00012.npz", "epoch-0006-batch-00020.npz"]
    assert run.chosen_checkpoint().name == "epoch-0002.npz"
    assert [metrics.dev_error for metrics in run.metrics()] == list(errors)
    assert read_checkpoint(run.checkpoints()[-1]).progress == after(*errors, batch=20)


def test_checkpoints_of_the_best_few_epochs_are_kept(run, arrays):
    errors = (0.9, 0.3, 0.5, 0.6, 0.4, 0.8)
    save(run, arrays, *(after(*errors[:number]) for number in range(1, 7)), keep_last=1, keep_best=3)
    assert names(run) == ["epoch-0002.npz", "epoch-0003.npz", "epoch-0005.npz", "epoch-0006.npz"]


def test_a_run_in_its_first_epoch_decodes_with_the_latest_checkpoint(run, arrays):
    with pytest.raises(UserError, match="no checkpoint yet; train this run first"):
        run.chosen_checkpoint()
    save(run, arrays, after(batch=12), after(batch=9))
    assert run.chosen_checkpoint().name == "epoch-0001-batch-00012.npz"


def test_a_damaged_checkpoint_is_logged_and_renamed_and_the_previous_one_used(run, arrays, caplog):
    save(run, arrays, after(0.5), after(0.5, batch=3))
    newest = run.checkpoints()[-1]
    newest.write_bytes(newest.read_bytes()[:-1000])
    (newest.parent / "epoch-0002.npz.part").write_bytes(b"what a killed process was writing")
    checkpoint = CheckpointStore(run, 2, 1).newest()
    assert checkpoint.progress == after(0.5)
    assert f"{newest}: damaged checkpoint" in caplog.text
    assert sorted(path.name for path in newest.parent.iterdir()) == [
        "epoch-0001.npz",
        "epoch-0002-batch-00003.npz.damaged",
    ]


def test_a_run_whose_checkpoints_are_all_damaged_cannot_be_resumed(run, arrays):
    save(run, arrays, after(0.5), after(0.5, batch=3))
    for path in run.checkpoints():
        path.write_bytes(b"")
    with pytest.raises(UserError, match="no other is left"):
        CheckpointStore(run, 2, 1).newest()


@pytest.fixture
def full_disk():
    """Limit files to 100 kB during the test."""
    with largest_file(100_000):
        yield


def test_a_full_disk_keeps_the_old_checkpoints(run, arrays, request):
    save(run, arrays, after(0.5))
    request.getfixturevalue("full_disk")
    with pytest.raises(UserError, match=r"epoch-0002\.npz: cannot write this checkpoint .*free space"):
        save(run, arrays, after(0.5, 0.4))
    assert [path.name for path in (run.directory / "checkpoints").iterdir()] == ["epoch-0001.npz"]
    assert read_checkpoint(run.chosen_checkpoint()).progress == after(0.5)
    assert len(run.metrics()) == 1


def test_a_vanished_run_directory_is_not_created_again(run, arrays):
    """A disk may have been unmounted: files in its mount point would be hidden once it is mounted again."""
    save(run, arrays, after(0.5))
    shutil.move(run.directory, run.directory.with_name("elsewhere"))
    with pytest.raises(UserError, match="the run's directory no longer exists"):
        save(run, arrays, after(0.5, 0.4))
    assert not run.directory.exists()


def test_a_read_only_run_directory_is_an_error(arrays):
    with tempfile.TemporaryDirectory() as folder:  # readable by everyone, unlike tmp_path
        Path(folder).chmod(0o755)
        run = Run.create(Path(folder) / "run", CONFIG, VOCABULARY)
        save(run, arrays, after(0.5))
        (run.directory / "checkpoints").chmod(0o555)
        program = f"""
import os, numpy as np
from pathlib import Path
from asr.runs.checkpoint_store import CheckpointStore
from asr.runs.progress import Progress, EpochSoFar
from asr.runs.run import Run
if os.geteuid() == 0:
    os.seteuid(65534)  # root ignores permissions
with CheckpointStore(Run(Path({str(run.directory)!r})), 2, 1) as store:
    store.save({{"model/x": np.ones(3)}}, Progress(epoch=EpochSoFar(batches=1)))
"""
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert "cannot write this checkpoint (Permission denied)" in done.stderr
        assert names(run) == ["epoch-0001.npz"]
        (run.directory / "checkpoints").chmod(0o755)


def test_background_jobs_run_in_order_and_their_errors_are_raised():
    done = []
    writer = BackgroundWriter()
    for number in range(5):
        writer.start(lambda number=number: done.append(number))
    writer.finish()
    assert done == [0, 1, 2, 3, 4]

    def fail():
        raise UserError("the disk is full")

    writer.start(fail)
    with pytest.raises(UserError, match="the disk is full"):
        writer.finish()
    writer.raise_if_failed()  # once
