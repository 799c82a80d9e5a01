"""Test that a run that is stopped and resumed equals an uninterrupted one bit for bit."""

import dataclasses
import inspect
import logging
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from helpers.labelled_in_pieces import labelled_in_pieces
from helpers.tiny import TINY

from asr.base.config import AugmentConfig, Config, ModelConfig, TrainConfig
from asr.base.errors import UserError
from asr.base.system.interrupt import Interrupted, StopRequest, stop_signals
from asr.cli.training_display import TrainingDisplay
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import read_checkpoint, write_checkpoint
from asr.runs.checkpoint_store import CheckpointStore
from asr.runs.progress import TIMES, Progress
from asr.runs.run import Run
from asr.training.optimization.schedule import plateau_factor
from asr.training.trainer import Trainer, TrainingSetup
from data_pipeline.augment.augmenter import Augmenter
from data_pipeline.augment.piece_sampling import PieceSampler
from data_pipeline.batches.dataset import Dataset
from multigpu.engines import make_engine

CONFIG = Config(
    augment=AugmentConfig(
        pauses=0.0,
        speed_min=0.9,
        speed_max=1.1,
        noise="coloured",
        gain_db_max=6.0,
        frequency_masks=1,
        time_masks=1,
        piece_sampling=0.3,
    ),
    model=ModelConfig(family=TINY, dropout=0.2),
    # a checkpoint after every step, and none is removed
    train=TrainConfig(
        epochs=2,
        batch_s=2.5,
        cpu_towers=1,
        ema_decay=0.9,
        checkpoint_s=1e-9,
        keep_last=1000,
        tensorboard_utterances=0,
    ),
)


def make_trainer(clips, directory, config=CONFIG):
    engine = make_engine("", ["/CPU:0"] * config.train.cpu_towers)
    clips, vocabulary = labelled_in_pieces(clips)
    augmenter = Augmenter.load(config.augment, config.train.seed)
    sampler = PieceSampler.of(config.augment, vocabulary)
    train_data = Dataset(clips, vocabulary, config.train.batch_clips_s, augmenter, piece_sampler=sampler)
    dev_data = Dataset(clips[:4], vocabulary, config.train.batch_s)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary, for_training=True)
    run = Run.create(directory, config, vocabulary)
    return Trainer(engine, TrainingSetup(config, vocabulary, model, train_data, dev_data), run)


def move(trainer, run):
    """Move a trainer to another run; the caller must replace its weights by resuming."""
    trainer.run, trainer.store = run, CheckpointStore(run, CONFIG.train.keep_last, CONFIG.train.keep_best)
    trainer.board, trainer.stop = None, StopRequest()
    before = trainer.progress
    trainer.progress = Progress(data_checksum=before.data_checksum, dev_checksum=before.dev_checksum)


@pytest.fixture(
    scope="module",
    params=[
        (TINY, 0.2, 2),
        pytest.param((TINY, 0.0, 1), marks=pytest.mark.slow),
        pytest.param(("separable", 0.0, 2), marks=pytest.mark.slow),
    ],
    ids=str,
)
def trainer(request, clips, tmp_path_factory):
    family, consistency, cpu_towers = request.param
    config = dataclasses.replace(
        CONFIG,
        model=dataclasses.replace(CONFIG.model, family=family),
        # the same clips in each batch
        train=dataclasses.replace(
            CONFIG.train,
            consistency=consistency,
            batch_s=2.5 * (2 if consistency else 1),
            cpu_towers=cpu_towers,
        ),
    )
    trainer = make_trainer(clips[:10], tmp_path_factory.mktemp("whole") / "run", config)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def whole(trainer):
    """Return the uninterrupted run."""
    return trainer.run


def stopped_at(whole, point, directory):
    """Return a copy of the run as it would be if killed right after one of its checkpoints."""
    later = whole.checkpoints()[whole.checkpoints().index(point) + 1 :]
    shutil.copytree(whole.directory, directory, ignore=lambda *_: {path.name for path in later})
    return Run.open(directory)


def without_times(progress):
    history = [dataclasses.replace(m, **dict.fromkeys(TIMES, 0.0)) for m in progress.history]
    epoch = dataclasses.replace(progress.epoch, train_s=0.0, waiting_s=0.0)
    return dataclasses.replace(progress, history=tuple(history), epoch=epoch)


def assert_same(one, other):
    assert without_times(one.progress) == without_times(other.progress)
    assert one.arrays.keys() == other.arrays.keys()
    for name, value in one.arrays.items():
        np.testing.assert_array_equal(value, other.arrays[name], err_msg=name)


def test_resumed_run_equals_uninterrupted_run(trainer, whole, tmp_path):
    points = whole.checkpoints()
    assert [path.stem for path in points if "batch" not in path.stem] == ["epoch-0001", "epoch-0002"]
    assert len(points) >= 12
    for point in points[:-1]:
        run = stopped_at(whole, point, tmp_path / point.stem)
        move(trainer, run)
        trainer.resume()
        assert trainer.progress == read_checkpoint(point).progress
        trainer.train()
        assert [path.name for path in run.checkpoints()] == [path.name for path in points]
        assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(points[-1]))
        assert [m.chosen for m in run.metrics()] == [m.chosen for m in whole.metrics()]


def test_resumed_run_differs_if_any_state_differs(trainer, whole, tmp_path):
    """Change each part of a checkpoint; the resumed run must then differ."""
    points = whole.checkpoints()
    for part in ("model", "ema", "seed", "optimizer"):
        run = stopped_at(whole, points[3], tmp_path / part)
        move(trainer, run)
        trainer.resume()
        checkpoint = read_checkpoint(points[3])
        name = max(
            (n for n in checkpoint.arrays if n.startswith(part)), key=lambda n: checkpoint.arrays[n].size
        )
        variables = {
            "model": trainer.model.weights,
            "ema": trainer.average.variables,
            "seed": [v for v in trainer.model.variables if "seed" in v.path],
            "optimizer": trainer.optimizer.variables,
        }[part]
        for variable in variables:
            if tuple(variable.shape) == checkpoint.arrays[name].shape:
                variable.assign(np.asarray(variable) + (1 if part == "seed" else 0.01))
        trainer.train()
        with pytest.raises(AssertionError):
            assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(points[-1]))


class Signals:
    """Sends this process a signal when a method has been called a number of times."""

    def __init__(self, holder, method, after, number=signal.SIGTERM):
        self.left, self.number = after, number
        self.holder, self.method, self.call = holder, method, getattr(holder, method)

    def __enter__(self):
        setattr(self.holder, self.method, self)

    def __exit__(self, *_):
        delattr(self.holder, self.method)

    def __call__(self, *arguments, **named):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)
        return self.call(*arguments, **named)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_training_after_the_step_is_saved(trainer, whole, tmp_path, number, capfd):
    point = whole.checkpoints()[2]
    run = stopped_at(whole, point, tmp_path / "run")
    move(trainer, run)
    display = TrainingDisplay()
    with stop_signals(display.on_stop_requested) as trainer.stop, Signals(trainer, "train_step", 3, number):
        trainer.resume()
        with pytest.raises(Interrupted) as raised:
            trainer.train()
    assert raised.value.signal_number == number
    assert "again to stop at once" in capfd.readouterr().err
    assert [path.name for path in run.checkpoints()] == [path.name for path in whole.checkpoints()[:7]]
    for ours, theirs in zip(run.checkpoints(), whole.checkpoints(), strict=False):
        assert_same(read_checkpoint(ours), read_checkpoint(theirs))


def test_interrupted_training_and_evaluation_close_their_batches_at_once(
    trainer, whole, tmp_path, monkeypatch
):
    opened = []

    def remembered(open_batches):
        def found(*arguments):
            opened.append(open_batches(*arguments))
            return opened[-1]

        return found

    move(trainer, stopped_at(whole, whole.checkpoints()[2], tmp_path / "run"))
    monkeypatch.setattr(trainer, "_epoch", remembered(trainer._epoch))
    with (
        stop_signals(TrainingDisplay().on_stop_requested) as trainer.stop,
        Signals(trainer, "train_step", 1),
    ):
        trainer.resume()
        with pytest.raises(Interrupted):
            trainer.train()
        monkeypatch.setattr(type(trainer.dev_data), "in_order", remembered(type(trainer.dev_data).in_order))
        with pytest.raises(Interrupted):
            trainer.evaluator.evaluate(trainer.dev_data, trainer.stop)
    states = [inspect.getgeneratorstate(batches) for _, batches in opened]
    assert states.count("GEN_CLOSED") == 2
    assert "GEN_SUSPENDED" not in states  # a plan of which no batch was taken is GEN_CREATED


def test_signal_during_evaluation_saves_the_epoch_to_be_evaluated(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[2], tmp_path / "run")
    move(trainer, run)
    display = TrainingDisplay()
    with stop_signals(display.on_stop_requested) as trainer.stop, Signals(trainer.evaluator, "evaluate", 1):
        trainer.resume()
        with pytest.raises(Interrupted):
            trainer.train()
    last = read_checkpoint(run.checkpoints()[-1])
    assert last.progress.epoch.batches == 5  # all of them
    assert not last.progress.history
    move(trainer, run)
    trainer.resume()
    trainer.train()
    assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(whole.checkpoints()[-1]))


def test_second_signal_ends_training_at_once(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[2], tmp_path / "run")
    move(trainer, run)

    def twice(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("training was not interrupted")

    with stop_signals() as trainer.stop:
        trainer.resume()
        trainer.train_step = twice
        try:
            with pytest.raises(Interrupted):
                trainer.train()
        finally:
            del trainer.train_step
    assert run.checkpoints()[-1].name == whole.checkpoints()[2].name


def test_signal_while_the_last_checkpoint_is_written_loses_nothing(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[-3], tmp_path / "run")
    move(trainer, run)
    display = TrainingDisplay()
    with stop_signals(display.on_stop_requested) as trainer.stop, Signals(trainer.store, "finish", 1):
        trainer.resume()
        with pytest.raises(Interrupted):
            trainer.train()
    assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(whole.checkpoints()[-1]))


def test_two_signals_while_weights_are_exchanged_save_no_mixed_weights(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[2], tmp_path / "run")
    move(trainer, run)
    weight, counted = trainer.model.weights[len(trainer.model.weights) // 2], []
    assign = weight.assign

    def interrupted_assign(value):
        counted.append(value)
        if len(counted) == 2:  # the average is in the model, and is being taken out
            os.kill(os.getpid(), signal.SIGINT)
        return assign(value)

    display = TrainingDisplay()
    with (
        stop_signals(display.on_stop_requested) as trainer.stop,
        Signals(trainer.evaluator, "_compiled_step", 1),
    ):
        trainer.resume()
        weight.assign = interrupted_assign
        try:
            with pytest.raises(Interrupted):
                trainer.train()
        finally:
            del weight.assign
    for ours in run.checkpoints():
        theirs = whole.directory / "checkpoints" / ours.name
        assert_same(read_checkpoint(ours), read_checkpoint(theirs))


def test_closed_standard_error_does_not_lose_a_step(trainer, whole, tmp_path):
    """Close standard error, as in `asr train 2>&1 | tee log`, where Ctrl-C ends `tee` as well."""
    run = stopped_at(whole, whole.checkpoints()[2], tmp_path / "run")
    move(trainer, run)
    kept, (reading, writing) = os.dup(2), os.pipe()
    os.close(reading)
    display = TrainingDisplay()
    with stop_signals(display.on_stop_requested) as trainer.stop, Signals(trainer, "train_step", 2):
        trainer.resume()
        os.dup2(writing, 2)
        try:
            with pytest.raises(Interrupted):
                trainer.train()
        finally:
            os.dup2(kept, 2)
    assert run.checkpoints()[-1].name == whole.checkpoints()[4].name


def test_resumed_run_does_not_repeat_reports(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[2], tmp_path / "run")
    checkpoint = read_checkpoint(run.checkpoints()[-1])
    progress = dataclasses.replace(checkpoint.progress, reported=("stalled",))
    write_checkpoint(checkpoint.path, checkpoint.arrays, progress)
    move(trainer, run)
    trainer.resume()
    assert trainer.diagnostics.reported == ("stalled",)
    trainer.train()
    assert "stalled" in read_checkpoint(run.checkpoints()[-1]).progress.reported


def test_resuming_a_run_without_its_checkpoints_is_an_error(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[-1], tmp_path / "run")
    for path in run.checkpoints():
        path.unlink()
    move(trainer, run)
    with pytest.raises(UserError, match="no checkpoint is left of 2 epochs"):
        trainer.resume()


@pytest.mark.slow
def test_resumed_run_equals_uninterrupted_run_with_other_options(clips, tmp_path, caplog):
    """Test state besides the default options': loss scale, accumulation, plateaus, frozen layers."""
    train = dataclasses.replace(
        CONFIG.train,
        **{"epochs": 4, "optimizer": "lion", "schedule": "plateau", "plateau_epochs": 1, "batch_s": 4.0},
        **{
            "learning_rate": 1e-6,  # too low for the dev error to fall
            "precision": "float16",
            "accumulate": 2,
            "freeze": "convolution",
            "ema_decay": 0.0,
            "warmup_share": 0.0,
        },
    )
    config = dataclasses.replace(CONFIG, train=train)
    whole = make_trainer(clips[:6], tmp_path / "whole", config)
    whole.train()
    points = whole.run.checkpoints()
    # a plateau and another loss scale than at the start, in mid-epoch
    in_the_third = [path for path in points if path.name.startswith("epoch-0003-batch")]
    run = stopped_at(whole.run, in_the_third[0], tmp_path / "stopped")
    resumed = make_trainer(clips[:6], tmp_path / "other", config)
    move(resumed, run)
    with caplog.at_level(logging.INFO):
        resumed.resume()
    factor = plateau_factor([m.dev_error for m in whole.run.metrics()][:2], train)
    assert f"at a learning rate of {train.learning_rate * factor:.2g}" in caplog.text
    resumed.train()
    assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(points[-1]))
    assert factor < 1


def test_recording_removed_during_training_loses_no_step(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[0], tmp_path / "run")
    move(trainer, run)
    trainer.resume()
    plan, _ = trainer.train_data.epoch(1, CONFIG.train.seed, trainer.model.fits)
    path = Path(trainer.train_data.utterances[plan[3][0]].audio_path)
    hidden = path.with_suffix(".hidden")
    original, removed = trainer._epoch, []

    def epoch(number, first_batch):
        if number == 1 and not removed:
            removed.append(path.rename(hidden))
        return original(number, first_batch)

    trainer._epoch = epoch
    try:
        with pytest.raises(UserError, match=path.name):
            trainer.train()
    finally:
        del trainer._epoch
        hidden.rename(path)
    assert run.checkpoints()[-1].stem == "epoch-0002-batch-00003"
    move(trainer, run)
    trainer.resume()
    trainer.train()
    assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(whole.checkpoints()[-1]))


def test_recording_that_is_missing_at_the_first_step_leaves_no_checkpoint(trainer, whole, tmp_path):
    run = Run(
        shutil.copytree(whole.directory, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    )
    move(trainer, run)

    def missing():
        raise UserError("a.wav: no such file")
        yield

    with pytest.raises(UserError, match=r"a\.wav"):
        list(trainer._save_on_read_error(missing()))
    trainer.store.finish()
    assert not run.checkpoints()


def test_change_of_the_dev_set_is_warned_of_once(trainer, whole, tmp_path, caplog):
    run = stopped_at(whole, whole.checkpoints()[-1], tmp_path / "run")
    move(trainer, run)
    own = trainer.progress
    trainer.resume()
    assert "dev set" not in caplog.text
    trainer.progress = dataclasses.replace(own, dev_checksum=7)
    trainer.resume()
    assert f"{run.directory}: its dev set has changed since the last checkpoint" in caplog.text
    assert trainer.progress.dev_checksum == 7
    trainer.progress = own


def test_resuming_a_finished_run_changes_nothing(trainer, whole, tmp_path):
    run = stopped_at(whole, whole.checkpoints()[-1], tmp_path / "run")
    move(trainer, run)
    trainer.resume()
    assert trainer.train().epochs_done == 2
    assert_same(read_checkpoint(run.checkpoints()[-1]), read_checkpoint(whole.checkpoints()[-1]))
