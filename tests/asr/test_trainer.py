import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from asr.acoustic import make_acoustic_model
from asr.checkpoint import LAST
from asr.config import AugmentConfig, Config, ModelConfig, TrainConfig
from asr.evaluate import Evaluator
from asr.run import Run
from asr.trainer import Trainer
from asr.types import UserError
from asr.vocabulary import Vocabulary
from data_pipeline.dataset import Dataset

CONFIG = Config(
    augment=AugmentConfig(speed_min=0.9, speed_max=1.1, frequency_masks=1, time_masks=1),
    model=ModelConfig(dropout=0.2),
    train=TrainConfig(epochs=2, batch_s=4.0),
)


def make_trainer(config, clips, directory: Path) -> Trainer:
    vocabulary = Vocabulary.of_utterances(clips)
    data = Dataset(clips, vocabulary, config.train.batch_s)
    run = Run.create(directory, config, vocabulary)
    return Trainer(make_acoustic_model(config, vocabulary), config, vocabulary, data, data, run)


def weights(trainer):
    return [np.asarray(variable) for variable in [*trainer.model.variables, *trainer.optimizer.variables]]


def test_a_resumed_run_equals_an_uninterrupted_one(clips, tmp_path):
    whole = make_trainer(CONFIG, clips[:6], tmp_path / "whole")
    whole.train()

    stopped = make_trainer(CONFIG, clips[:6], tmp_path / "stopped")
    stopped.num_epochs = 1
    stopped.train()
    resumed = make_trainer(CONFIG, clips[:6], tmp_path / "resumed")
    resumed.run = stopped.run
    resumed.resume()
    assert resumed.progress.epochs_done == 1
    resumed.train()

    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
    curves = [[(m.epoch, m.loss, m.dev_error) for m in t.run.metrics()] for t in (whole, resumed)]
    assert curves[0] == curves[1]
    assert len(curves[0]) == 2


def test_training_learns_a_few_clips_by_heart(clips, tmp_path):
    config = dataclasses.replace(
        CONFIG,
        augment=AugmentConfig(),
        model=ModelConfig(dropout=0.0),
        train=TrainConfig(epochs=120, batch_s=20.0, learning_rate=5e-3),
    )
    trainer = make_trainer(config, clips[:4], tmp_path / "run")
    progress = trainer.train()
    assert progress.best_dev_error == 0.0
    metrics = trainer.run.metrics()
    assert metrics[-1].loss < metrics[0].loss / 20
    assert metrics[-1].learning_rate < config.train.learning_rate / 100


def test_the_best_checkpoint_is_the_one_of_the_best_dev_error(clips, tmp_path):
    trainer = make_trainer(CONFIG, clips[:4], tmp_path / "run")
    progress = trainer.train()
    best = min(trainer.run.metrics(), key=lambda m: (m.dev_error, m.epoch))
    assert (progress.best_epoch, progress.best_dev_error) == (best.epoch, best.dev_error)
    assert trainer.run.checkpoint().exists()


def test_a_loss_that_is_not_finite_stops_the_run_with_the_remedy(clips, tmp_path):
    trainer = make_trainer(CONFIG, clips[:4], tmp_path / "run")
    for variable in trainer.model.trainable_variables:
        variable.assign(variable * np.nan)
    with pytest.raises(UserError, match=r"the loss became nan in epoch 1: lower train\.learning_rate"):
        trainer.train()
    assert not trainer.run.checkpoint(LAST).exists()


def test_progress_shows_loss_errors_throughput_and_time_left(clips, tmp_path, capsys):
    make_trainer(CONFIG, clips[:4], tmp_path / "run").train()
    printed = capsys.readouterr()
    assert re.search(r"epoch +1/2 +loss +[\d.]+ +errors +[\d.]+% +dev loss .* dev errors .* s/s", printed.out)
    assert re.search(r"\d\d:\d\d < .*s of audio/s.*loss [\d.]+, errors [\d.]+%", printed.err)


def test_evaluation_reports_in_the_order_of_the_set(clips, tmp_path):
    trainer = make_trainer(CONFIG, clips[:4], tmp_path / "run")
    shuffled = [clips[2], clips[0], clips[3], clips[1]]
    data = Dataset(shuffled, trainer.evaluator.vocabulary, 3.0)
    evaluation = trainer.evaluator.evaluate(data)
    assert [h.utterance_id for h in evaluation.hypotheses] == [u.id for u in shuffled]
    one_by_one = [
        Evaluator(trainer.model, trainer.evaluator.vocabulary)
        .evaluate(Dataset([clip], trainer.evaluator.vocabulary, 3.0))
        .loss
        for clip in shuffled
    ]
    assert evaluation.loss == pytest.approx(np.mean(one_by_one), rel=1e-3)
