"""A model trained in stages equals one trained on one device, and is resumed bit for bit."""

import copy
import dataclasses
import itertools
import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny import TINY

from asr.base.config import AugmentConfig, Config, ModelConfig, TrainConfig
from asr.base.errors import UserError
from asr.base.vocabulary import Vocabulary
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import read_checkpoint
from asr.runs.checkpoint_store import CheckpointStore
from asr.runs.run import Run
from asr.runs.stage_record import StageRecord, read_stages, stage_rows, write_stages
from asr.training.monitoring.observer import TrainingObserver
from asr.training.stages import place_model
from asr.training.trainer import Trainer, TrainingSetup
from data_pipeline.batches.dataset import Dataset
from multigpu.engines import make_engine
from multigpu.stages.engine import StagesEngine

CONFIG = Config(
    augment=AugmentConfig(frequency_masks=1, time_masks=1, pauses=0.0),
    model=ModelConfig(family=TINY, dropout=0.2),
    # a checkpoint after every step, and none is removed
    train=TrainConfig(
        epochs=2, batch_s=2.5, ema_decay=0.9, checkpoint_s=1e-9, keep_last=1000, tensorboard_utterances=0
    ),
)


class Observer(TrainingObserver):
    """Collects what training reports."""

    def __init__(self):
        self.losses, self.stages = [], []

    def on_stages(self, stages):
        self.stages.append(stages)

    def on_step(self, audio_s, loss, edits):
        self.losses.append(loss)


def make_model(engine, config, vocabulary):
    with engine.scope():
        return make_acoustic_model(config, vocabulary, for_training=True)


def make_trainer(clips, directory, num_stages, config=CONFIG):
    engine = make_engine("", [f"/CPU:{index}" for index in range(max(1, num_stages))], num_stages)
    vocabulary = Vocabulary.of_utterances(clips)
    data = Dataset(clips, vocabulary, config.train.batch_s)
    model = make_model(engine, config, vocabulary)
    run = Run(directory)
    placed = place_model(engine, model, clips, config.train.batch_s, run)
    run = run if run.exists else Run.create(directory, config, vocabulary)
    dev_data = Dataset(clips[:2], vocabulary, config.train.batch_s)
    setup = TrainingSetup(config, vocabulary, model, data, dev_data, placed=placed)
    return Trainer(engine, setup, run, observer=Observer())


@pytest.fixture(scope="module")
def trainer(clips, tmp_path_factory):
    trainer = make_trainer(clips[:10], tmp_path_factory.mktemp("stages") / "run", 2)
    trainer.train()
    return trainer


def stopped_at(whole, point, directory):
    """Return a copy of the run as it would be if killed right after one of its checkpoints."""
    later = whole.checkpoints()[whole.checkpoints().index(point) + 1 :]
    shutil.copytree(whole.directory, directory, ignore=lambda *_: {path.name for path in later})
    return Run.open(directory)


def within_the_first_epoch(run):
    return next(path for path in run.checkpoints() if path.stem == "epoch-0001-batch-00002")


def assert_same_arrays(one, other):
    ours, theirs = (read_checkpoint(run.checkpoints()[-1]).arrays for run in (one, other))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


def test_run_in_stages_resumed_within_an_epoch_equals_the_uninterrupted_run(trainer, tmp_path):
    whole, losses = trainer.run, trainer.observer.losses
    again = copy.copy(trainer)  # with its compiled step
    again.run = stopped_at(whole, within_the_first_epoch(whole), tmp_path / "run")
    again.store, again.board = CheckpointStore(again.run, 1000, 1000), None
    again.observer = Observer()
    again.resume()
    again.train()
    assert again.observer.losses == losses[2:]
    assert_same_arrays(again.run, whole)


@pytest.mark.slow
@pytest.mark.parametrize("num_stages", [0, 2])
def test_run_in_stages_is_continued_by_another_process(trainer, clips, tmp_path, num_stages):
    """In stages, it is cut in the places of its record, here others; results are the same bit for bit."""
    run = stopped_at(trainer.run, within_the_first_epoch(trainer.run), tmp_path / "run")
    cut = move_cut(run)
    again = make_trainer(clips[:10], run.directory, num_stages)
    again.resume()
    again.train()
    if num_stages:
        assert [stage.layers for stage in again.observer.stages[0]] == cut
        assert again.observer.losses == trainer.observer.losses[2:]
        assert_same_arrays(again.run, trainer.run)
    else:
        assert np.isfinite(again.observer.losses).all()
        assert again.progress.epochs_done == 2


def move_cut(run):
    """Move a layer from one stage to the other in the record of a run, and return the new stages."""
    first, second = read_stages(run.directory)
    names = [*first.layers, *second.layers]
    place = 2 if len(first.layers) > 2 else 3
    cut = [names[:place], names[place:]]
    moved = [dataclasses.replace(first, layers=cut[0]), dataclasses.replace(second, layers=cut[1])]
    write_stages(run.directory, moved)
    return cut


def test_model_is_cut_in_the_places_that_the_run_records(trainer, clips, tmp_path):
    run = stopped_at(trainer.run, trainer.run.checkpoints()[0], tmp_path / "run")
    cut = move_cut(run)
    engine, model = trainer.engine, make_model(trainer.engine, CONFIG, trainer.vocabulary)
    placed = place_model(engine, model, clips, 2.5, run)
    assert [stage.layers for stage in placed.placement()] == cut
    write_stages(run.directory, [dataclasses.replace(s, layers=["a"]) for s in read_stages(run.directory)])
    placed = place_model(engine, make_model(engine, CONFIG, trainer.vocabulary), clips, 2.5, run)
    assert [name for stage in placed.placement() for name in stage.layers] == [*cut[0], *cut[1]]


class Cramped(StagesEngine):
    """Out of memory with more than some rows."""

    max_rows = 1

    def place(self, model, sample=None, stages=None):
        if len(sample[0]) > self.max_rows:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor on /CPU:0")
        return super().place(model, sample, stages)


def test_layers_are_measured_with_as_many_rows_as_fit(trainer, clips, tmp_path):
    engine, run = Cramped(["/CPU:0", "/CPU:1"]), Run(tmp_path / "none")
    model = make_model(engine, CONFIG, trainer.vocabulary)
    placed = place_model(engine, model, clips, 20.0, run)
    assert placed.placement()[0].activation_bytes > 0
    engine.max_rows = 0
    with pytest.raises(UserError, match=r"/CPU:0: out of memory with one layer .*smaller model\.size"):
        place_model(engine, model, clips, 20.0, run)


def test_averages_and_optimizer_are_on_the_device_of_each_weight(trainer):
    homes = {weight.path: weight.value.device for weight in trainer.model.weights}
    assert len(set(homes.values())) == 2
    averages = zip(trainer.model.weights, trainer.average.variables, strict=True)
    assert all(average.device == homes[weight.path] for weight, average in averages)
    slots = [slot for slot in trainer.optimizer.variables if len(slot.shape) == 2]
    weights = {tuple(w.shape): w.value.device for w in trainer.model.weights if len(w.shape) == 2}
    assert slots
    assert all(slot.value.device == weights[tuple(slot.shape)] for slot in slots)


def test_stages_are_reported_before_training_and_recorded(trainer):
    [stages] = trainer.observer.stages
    assert read_stages(trainer.run.directory) == stages
    assert [stage.devices for stage in stages] == [("/CPU:0",), ("/CPU:1",)]
    assert sum(stage.num_parameters for stage in stages) == trainer.model.count_params()
    assert sum(stage.time_share for stage in stages) == pytest.approx(1)
    assert all(stage.activation_bytes > 0 for stage in stages)
    # AdamW keeps two numbers for each trained weight
    trained = sum(4 * weight.shape.num_elements() for weight in trainer.model.trainable_weights)
    assert 2 * trained <= sum(stage.optimizer_bytes for stage in stages) < 2 * trained + 100


@pytest.mark.slow
def test_losses_of_20_steps_in_stages_equal_those_of_one_device(clips, tmp_path):
    """Dropout and masks are left out, which each micro-batch draws for itself."""
    model = ModelConfig(family=TINY, dropout=0.0, synchronized_batch_norm=True)
    config = dataclasses.replace(CONFIG, augment=AugmentConfig(pauses=0.0), model=model)
    losses = {}
    for num_stages in (0, 2):
        trainer = make_trainer(clips[:6], tmp_path / str(num_stages), num_stages, config)
        plan, batches = trainer.train_data.epoch(0, 1, trainer.model.fits)
        steps = itertools.islice(itertools.cycle(zip(plan, batches, strict=True)), 20)
        losses[num_stages] = [float(trainer.train_step(batch, len(rows)).loss) for rows, batch in steps]
    assert len(plan) == 3
    np.testing.assert_allclose(losses[2], losses[0], rtol=1e-4)


def test_table_of_stages_has_what_each_device_holds():
    stages = [
        StageRecord(("/GPU:0", "/GPU:2"), ["a", "b", "c"], 1_000, 4_000, 8_000, 2_000_000, 0.4),
        StageRecord(("/GPU:1", "/GPU:3"), ["d"], 0, 0, 0, None, None),
    ]
    assert stage_rows(stages)[1:] == [
        ["0", "/GPU:0, /GPU:2", "a to c (3)", "1,000", "4.00kB", "8.00kB", "2.00MB", "40%"],
        ["1", "/GPU:1, /GPU:3", "d", "0", "0.00B", "0.00B", "-", "-"],
    ]


def test_damaged_record_of_stages_is_an_error_that_says_what_to_do(tmp_path):
    assert read_stages(tmp_path) == []
    for text in ("", "1", '{"a": 1}', '[{"devices": []}]', '["a"]'):
        (tmp_path / "stages.json").write_text(text)
        with pytest.raises(UserError, match=r"stages\.json: .*remove it"):
            read_stages(tmp_path)
