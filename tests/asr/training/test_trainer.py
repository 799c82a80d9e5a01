import contextlib
import dataclasses
import io
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny import TINY

from asr.base.config import AugmentConfig, Config, ModelConfig, TrainConfig
from asr.base.errors import UserError
from asr.base.types import EditCounts
from asr.base.vocabulary import Vocabulary
from asr.cli.training_display import TrainingDisplay
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import read_checkpoint
from asr.runs.progress import is_chosen
from asr.runs.run import Run
from asr.training.optimization.objective import make_objective
from asr.training.optimization.optimizer import make_optimizer
from asr.training.optimization.step import StepResult
from asr.training.trainer import DivergedError, Trainer, TrainingSetup
from data_pipeline.batches.dataset import Dataset
from multigpu.engines import make_engine

ONE_DEVICE = make_engine("", ["/CPU:0"])
CONFIG = Config(
    augment=AugmentConfig(speed_min=0.9, speed_max=1.1, frequency_masks=1, time_masks=1, pauses=0.0),
    model=ModelConfig(family=TINY, dropout=0.2),
    train=TrainConfig(epochs=2, batch_s=4.0, tensorboard_utterances=0),
)


def make_trainer(config, clips, directory: Path, engine=ONE_DEVICE, observer=None) -> Trainer:
    vocabulary = Vocabulary.of_utterances(clips)
    data = Dataset(clips, vocabulary, config.train.batch_s)
    run = Run.create(directory, config, vocabulary)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary)
    return Trainer(engine, TrainingSetup(config, vocabulary, model, data, data), run, observer=observer)


def weights(trainer):
    return [np.asarray(variable) for variable in [*trainer.model.variables, *trainer.optimizer.variables]]


@pytest.fixture(scope="module")
def trained(clips, tmp_path_factory):
    """Return a trainer that has trained its two epochs on two corpora, and its terminal output."""
    joint = [dataclasses.replace(clip, corpus="aabb"[place]) for place, clip in enumerate(clips[:4])]
    directory = tmp_path_factory.mktemp("trained") / "run"
    trainer = make_trainer(CONFIG, joint, directory, observer=TrainingDisplay())
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        trainer.train()
    return trainer, out.getvalue(), err.getvalue()


def test_loss_falls_and_the_learning_rate_follows_its_schedule(clips, tmp_path, monkeypatch):
    monkeypatch.setattr("asr.training.trainer.STEPS_WORTH_COMPILING", 12)
    train = dataclasses.replace(CONFIG.train, epochs=12, batch_s=20.0, learning_rate=2e-2)
    trainer = make_trainer(dataclasses.replace(CONFIG, train=train), clips[:4], tmp_path / "run")
    trainer.train()
    metrics = trainer.run.metrics()
    assert metrics[-1].loss < metrics[0].loss / 2
    assert metrics[-1].learning_rate < train.learning_rate / 10 < max(m.learning_rate for m in metrics)


@pytest.mark.slow
def test_outputs_in_the_middle_are_trained_by_phones(clips, tmp_path):
    config = dataclasses.replace(
        CONFIG,
        augment=AugmentConfig(pauses=0.0),
        model=ModelConfig(family=TINY, dropout=0.0, intermediate_ctc="0.5", intermediate_units="phones"),
        train=dataclasses.replace(CONFIG.train, flat_start=0.0),
    )
    trainer = make_trainer(config, clips[:4], tmp_path / "run")
    objective = make_objective(config.train, trainer.optimizer, phone_ids=trainer.vocabulary.phone_ids())
    _, batches = trainer.train_data.epoch(0, 1, trainer.model.fits, ONE_DEVICE.local_rows)
    batch = next(batches)
    expected, _ = objective(trainer.model, *batch)
    np.testing.assert_allclose(trainer.train_step(batch, len(batch.num_labels)).loss, expected, rtol=1e-5)


@pytest.mark.slow
def test_training_memorizes_a_few_clips(clips, tmp_path):
    config = dataclasses.replace(
        CONFIG,
        augment=AugmentConfig(pauses=0.0),
        model=ModelConfig(dropout=0.0),
        train=dataclasses.replace(CONFIG.train, epochs=120, batch_s=20.0, learning_rate=5e-3),
    )
    trainer = make_trainer(config, clips[:4], tmp_path / "run")
    progress = trainer.train()
    assert progress.best_dev_error == 0.0
    metrics = trainer.run.metrics()
    assert metrics[-1].loss < metrics[0].loss / 20
    assert metrics[-1].learning_rate < config.train.learning_rate / 100


@pytest.mark.parametrize(
    ("num_errors", "chosen"), [(20, True), (30, True), (33, True), (37, False), (60, False), (250, False)]
)
def test_epoch_is_chosen_unless_significantly_worse(num_errors, chosen):
    lowest = EditCounts(substitutions=30, reference_length=900)  # 3.3 %, give or take 0.6
    dev = EditCounts(substitutions=num_errors, reference_length=900)
    assert is_chosen(dev, lowest.rate) == chosen
    assert is_chosen(dev, float("inf"))


def test_chosen_checkpoint_is_that_of_the_last_chosen_epoch(trained):
    trainer, *_ = trained
    progress = trainer.progress
    metrics = trainer.run.metrics()
    assert progress.chosen_epoch == [m.epoch for m in metrics if m.chosen][-1]
    assert progress.best_dev_error == min(m.dev_error for m in metrics)
    lowest = [min(m.dev_error for m in metrics[: m.epoch]) for m in metrics]
    assert [m.best for m in metrics] == [m.dev_error == low for m, low in zip(metrics, lowest, strict=True)]

    chosen = trainer.run.chosen_checkpoint()
    assert chosen == trainer.run.epoch_checkpoint(progress.chosen_epoch)
    assert read_checkpoint(chosen).progress.epochs_done == progress.chosen_epoch


def set_nan_weights(trainer, bad_batches):
    """Set the weights to NaN for some batches of every epoch."""
    train_step, counted = trainer.train_step, itertools.count()

    def step(batch, num_rows):
        weight = trainer.model.trainable_variables[0]
        kept = np.asarray(weight).copy()
        bad = next(counted) in bad_batches
        if bad:
            weight.assign(kept * np.nan)
        result = train_step(batch, num_rows)
        if bad:
            weight.assign(kept)
        return result

    trainer.train_step = step


def test_metrics_of_an_epoch_are_those_of_the_chief(clips, tmp_path, monkeypatch):
    trainer = make_trainer(CONFIG, clips[:4], tmp_path / "run")
    of_chief = iter([0.75, 0.25, 0.7, 0.5])  # another worker than the one that runs here
    monkeypatch.setattr(trainer.engine, "value_of_chief", lambda own: next(of_chief))
    trainer.train()
    errors = [(epoch.train_error, epoch.dev_error, epoch.best) for epoch in trainer.progress.history]
    assert errors == [(0.75, 0.25, True), (0.7, 0.5, False)]


def test_batch_with_nan_loss_is_reported_and_changes_nothing(clips, tmp_path, caplog):
    train = dataclasses.replace(CONFIG.train, max_skipped=2, batch_s=2.5, ema_decay=0.9)
    config = dataclasses.replace(CONFIG, train=train, augment=AugmentConfig(pauses=0.0))
    trainer = make_trainer(config, clips[:8], tmp_path / "run")
    plan, _ = trainer.train_data.epoch(0, train.seed, trainer.model.fits)
    set_nan_weights(trainer, {1})
    trainer.train()
    error = caplog.text
    assert "nan" in error
    assert "(1 of at most 2)" in error
    for place in plan[1]:
        assert trainer.train_data.utterances[place].id in error
    assert [metrics.skipped for metrics in trainer.run.metrics()] == [1, 0]
    assert all(np.isfinite(metrics.loss) for metrics in trainer.run.metrics())
    assert int(trainer.optimizer.iterations) == trainer.progress.step - 1
    for variable in (*trainer.model.variables, *trainer.optimizer.variables, *trainer.average.variables):
        assert np.isfinite(np.asarray(variable)).all()


def test_too_many_skipped_batches_end_the_run_with_a_remedy(clips, tmp_path):
    train = dataclasses.replace(CONFIG.train, max_skipped=2, batch_s=2.5)
    trainer = make_trainer(dataclasses.replace(CONFIG, train=train), clips[:8], tmp_path / "run")
    nan = np.float32("nan")
    trainer.train_step = lambda batch, num_rows: StepResult(loss=nan, path=None, gradient_norm=nan)
    with pytest.raises(UserError, match=r"train\.learning_rate"):
        trainer.train()
    last = read_checkpoint(trainer.run.checkpoints()[-1]).progress  # to be resumed with a larger budget
    assert last == trainer.progress
    assert (last.step, last.skipped) == (3, 3)


def test_run_whose_weights_have_diverged_ends(trained):
    trainer, *_ = trained
    kept = trainer.model.get_weights()
    trainer.model.set_weights([weight * np.nan for weight in kept])
    with pytest.raises(DivergedError, match=r"epoch 3: the dev loss is nan.*another run"):
        trainer._finish_epoch()
    assert len(trainer.run.metrics()) == 2
    trainer.model.set_weights(kept)


@pytest.fixture
def run_eagerly():
    """Run functions eagerly, so that values inside a step can be read."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("run_eagerly")
def test_gradients_are_clipped_to_the_maximum_norm(clips, tmp_path):
    data = Dataset(clips[:4], Vocabulary.of_utterances(clips[:4]), 20.0)
    _, batches = data.in_order()
    batch = next(batches)
    seen = []
    for clip_norm in (1e-3, 1e9):
        train = dataclasses.replace(CONFIG.train, clip_norm=clip_norm)
        trainer = make_trainer(dataclasses.replace(CONFIG, train=train), clips[:4], tmp_path / str(clip_norm))
        trainer.optimizer.apply = lambda gradients, variables: seen.append(tf.linalg.global_norm(gradients))
        trainer.train_step(batch, num_rows=4)
    assert float(seen[0]) == pytest.approx(1e-3, rel=1e-3)
    assert float(seen[1]) > 1


def test_resumed_run_refuses_another_training_set(trained, clips, tmp_path):
    trainer, *_ = trained
    other = make_trainer(CONFIG, clips[:3], tmp_path / "other")
    other.store.run = trainer.run
    with pytest.raises(UserError, match="training set has changed"):
        other.resume()


def test_progress_bar_shows_loss_errors_throughput_and_time_left(trained):
    _, out, err = trained
    assert re.search(
        r"epoch +1/2 +loss +[\d.]+ +token errors +[\d.]+% +dev loss .* dev token errors .* s/s", out
    )
    assert re.search(r"\d\d:\d\d < .*s of audio/s.*loss [\d.]+, token errors [\d.]+%", err)


@pytest.mark.parametrize(("steps_worth_it", "compiled"), [(1, True), (1000, False)])
def test_only_a_long_run_compiles_its_update(steps_worth_it, compiled, clips, tmp_path, monkeypatch):
    def recorded(*args):
        seen.append(args[2:])
        return make_optimizer(*args)

    seen = []
    monkeypatch.setattr("asr.training.trainer.STEPS_WORTH_COMPILING", steps_worth_it)
    monkeypatch.setattr("asr.training.trainer.make_optimizer", recorded)
    make_trainer(CONFIG, clips[:4], tmp_path / "run")
    assert seen == [(True, compiled)]


def test_each_corpus_has_its_dev_error(trained):
    trainer, out, _ = trained
    for metrics in trainer.run.metrics():
        assert set(metrics.corpora) == {"a", "b"}
        assert f"dev token errors of a {metrics.corpora['a']:.1%}  b {metrics.corpora['b']:.1%}" in out
    of_b = Dataset(trainer.dev_data.utterances[2:], trainer.vocabulary, 3.0)
    evaluation = trainer.evaluator.evaluate(of_b)
    assert evaluation.rates_by_corpus == {}
    assert trainer.run.metrics()[-1].corpora["b"] == pytest.approx(evaluation.edits.rate)


def test_evaluation_keeps_the_order_of_the_set(trained, clips):
    trainer, *_ = trained
    shuffled = [clips[2], clips[0], clips[3], clips[1]]
    data = Dataset(shuffled, trainer.vocabulary, 3.0)
    evaluation = trainer.evaluator.evaluate(data)
    one_by_one = [trainer.evaluator.evaluate(Dataset([clip], data.vocabulary, 3.0)) for clip in shuffled]
    assert [h.end_s for h in evaluation.hypotheses] == [u.duration_s for u in shuffled]
    assert [h.tokens for h in evaluation.hypotheses] == [e.hypotheses[0].tokens for e in one_by_one]
    assert len({h.tokens for h in evaluation.hypotheses}) == 4
    assert evaluation.loss == pytest.approx(np.mean([e.loss for e in one_by_one]), rel=1e-3)
