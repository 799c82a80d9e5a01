"""The loop: train -> train_epoch -> train_step.

trainer = Trainer(engine, model, config, vocabulary, train_data, dev_data, run)
trainer.train()
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from asr.acoustic import AcousticModel
from asr.checkpoint import BEST, LAST, Progress, restore_checkpoint, save_checkpoint
from asr.config import Config, TrainConfig
from asr.decoding.greedy import BestPath, best_path, labels_of
from asr.engine import Engine
from asr.evaluate import BATCH_SIGNATURE, EvaluationData, Evaluator
from asr.loss import ctc_loss
from asr.metrics import total_edits
from asr.run import EpochMetrics, Run
from asr.types import Batch, EditCounts, Tensor, UserError, Utterance
from asr.vocabulary import Vocabulary


class TrainingData(Protocol):
    """What the loop needs of a training set; `data_pipeline.dataset.Dataset` is one."""

    @property
    def utterances(self) -> Sequence[Utterance]:
        """The rows."""

    @property
    def duration_s(self) -> float:
        """Seconds of audio in all."""

    @property
    def checksum(self) -> int:
        """Differs where the utterances do."""

    def epoch(
        self,
        epoch: int,
        seed: int,
        fits: Any,
        own_rows: Callable[[Sequence[int]], list[int]],
    ) -> tuple[list[list[int]], Iterator[Batch]]:
        """The rows of each batch, and the batches with those of them that are this process's own."""


class StepResult(NamedTuple):
    """What a step tells the loop."""

    loss: Tensor  # () mean over the utterances
    path: BestPath
    gradient_norm: Tensor  # () before clipping


class Trainer:
    """Trains one model on one set.

    Args:
        engine: runs the steps, on one device or many.
        model: its weights made in the engine's scope.
        config: of the run.
        vocabulary: of the labels.
        train_data: batches by epoch.
        dev_data: batches to evaluate on after every epoch.
        run: where everything is written.
    """

    def __init__(
        self,
        engine: Engine,
        model: AcousticModel,
        config: Config,
        vocabulary: Vocabulary,
        train_data: TrainingData,
        dev_data: EvaluationData,
        run: Run,
    ) -> None:
        self.engine, self.model, self.config = engine, model, config
        self.train_data, self.dev_data, self.run = train_data, dev_data, run
        self.evaluator = Evaluator(model, vocabulary, engine.spread)
        self.progress = Progress()
        self.num_epochs = config.train.epochs
        plan, _ = self._epoch(0)
        with engine.scope():
            self.optimizer = make_optimizer(config.train, num_steps=len(plan) * self.num_epochs)
            self.optimizer.build(model.trainable_variables)

    def resume(self) -> None:
        """Go on where the last checkpoint stopped; a run without one yet begins anew.

        Raises:
            UserError: the checkpoint cannot be read, or the training set has changed since.
        """
        if not self.run.checkpoint(LAST).exists():
            return
        progress = restore_checkpoint(self.run.checkpoint(LAST), self.model, self.optimizer)
        if progress.data_checksum != self.train_data.checksum:
            raise UserError(
                f"{self.run.directory}: its training set is another one than when it began (recordings were "
                "added, mended, or cannot be read now); bring it back, or start another run under --name NAME"
            )
        self.progress = progress

    def train(self) -> Progress:
        """Train what is left of the epochs; returns how far the run has come."""
        done = self.progress.epochs_done
        with ProgressBar(self.train_data.duration_s, done, self.num_epochs, self.engine) as bar:
            for epoch in range(done, self.num_epochs):
                started = time.monotonic()
                loss, train_edits = self.train_epoch(epoch, bar)
                train_s = time.monotonic() - started
                dev = self.evaluator.evaluate(self.dev_data)
                metrics = EpochMetrics(
                    epoch=epoch + 1,
                    loss=loss,
                    train_error=train_edits.rate,
                    dev_loss=dev.loss,
                    dev_error=dev.edits.rate,
                    learning_rate=float(self.optimizer.learning_rate),
                    audio_s_per_s=self.train_data.duration_s / train_s,
                    train_s=self.progress.train_s + train_s,
                    best=is_best(dev.edits, self.progress.best_dev_error),
                )
                self._finish_epoch(metrics)
                bar.tell(metrics)
        return self.progress

    def train_epoch(self, epoch: int, bar: ProgressBar) -> tuple[float, EditCounts]:
        """Every utterance once; returns the mean loss and the greedy errors made on the way."""
        plan, batches = self._epoch(epoch)
        losses, sizes, edits = [], [], EditCounts()
        for places, batch in zip(plan, batches, strict=True):
            result = self.train_step(batch, num_rows=len(places))
            heard = labels_of(result.path)
            said = reference_labels(batch)[: len(heard)]  # a process without a row of its own reads one
            step_edits = total_edits(zip(said, heard, strict=True))
            loss = float(result.loss)
            if not np.isfinite(loss):
                raise UserError(
                    f"the loss became {loss} in epoch {epoch + 1}: lower train.learning_rate "
                    f"(now {self.config.train.learning_rate:g}), then start again under another --name"
                )
            losses.append(loss)
            sizes.append(len(places))
            edits += step_edits
            audio_s = sum(self.train_data.utterances[place].duration_s for place in places)
            bar.advance(audio_s, loss, step_edits)
        return float(np.average(losses, weights=sizes)), edits

    def train_step(self, batch: Batch, num_rows: int) -> StepResult:
        """One update of the weights.

        Args:
            batch: this process's rows.
            num_rows: of all processes that train together.
        """
        return StepResult(*self._compiled_step(tf.constant(num_rows), *batch))

    @functools.cached_property
    def _compiled_step(self) -> Any:
        return self.engine.train_step(self.model, self.optimizer, loss_of, self._clip, BATCH_SIGNATURE)

    def _clip(self, gradients: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The gradients scaled down to their highest norm, and the norm that they had."""
        clipped, norm = tf.clip_by_global_norm(gradients, self.config.train.clip_norm)
        return clipped, norm

    def _epoch(self, epoch: int) -> tuple[list[list[int]], Iterator[Batch]]:
        train = self.config.train
        return self.train_data.epoch(epoch, train.seed, self.model.fits, self.engine.own_rows)

    def _finish_epoch(self, metrics: EpochMetrics) -> None:
        """Keep what the epoch brought; the chief alone writes."""
        progress = Progress(
            epochs_done=metrics.epoch,
            best_dev_error=min(metrics.dev_error, self.progress.best_dev_error),
            best_epoch=metrics.epoch if metrics.best else self.progress.best_epoch,
            train_s=metrics.train_s,
            data_checksum=self.train_data.checksum,
        )
        self.progress = progress
        if not self.engine.is_chief:
            return
        if metrics.best:
            save_checkpoint(self.run.checkpoint(BEST), self.model, self.optimizer, progress)
        # LAST is what a resumed run believes: what it counts as done must be there before it
        self.run.append_metrics(metrics)
        save_checkpoint(self.run.checkpoint(LAST), self.model, self.optimizer, progress)
        with self._tensorboard.as_default(step=metrics.epoch):
            for name, value in dataclasses.asdict(metrics).items():
                tf.summary.scalar(name, value)
        self._tensorboard.flush()

    @functools.cached_property
    def _tensorboard(self) -> Any:
        return tf.summary.create_file_writer(str(self.run.tensorboard_dir))


def loss_of(
    model: AcousticModel, audio: Tensor, num_samples: Tensor, labels: Tensor, num_labels: Tensor
) -> tuple[Tensor, BestPath]:
    """Mean CTC loss of some rows, and the best path through each."""
    logits = model(audio, num_samples, training=True)
    return tf.reduce_mean(ctc_loss(logits, labels, num_labels)), best_path(logits)


def make_optimizer(config: TrainConfig, num_steps: int) -> keras.optimizers.Optimizer:
    """AdamW (Loshchilov & Hutter, 2019) under a warm-up and a cosine decay to zero."""
    warmup = max(1, round(config.warmup_share * num_steps))
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(1, num_steps - warmup),
        warmup_target=config.learning_rate,
        warmup_steps=warmup,
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=config.weight_decay, beta_2=0.98)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def is_best(dev: EditCounts, lowest_rate: float) -> bool:
    """Whether an epoch's weights are kept as the best: the latest no worse than the best but by chance.

    The one-standard-error rule (Breiman et al., 1984). Of epochs that a small dev set cannot tell apart the
    last is the best guess: its weights moved the least.
    """
    return dev.rate <= lowest_rate + dev.standard_error


def reference_labels(batch: Batch) -> list[list[int]]:
    """Each row's labels, without padding."""
    labels, num_labels = np.asarray(batch.labels), np.asarray(batch.num_labels)
    return [row[:length].tolist() for row, length in zip(labels, num_labels, strict=True)]


class ProgressBar:
    """One bar for the whole run, in seconds of audio: its rate is the throughput, its end the run's.

    Where several processes train together, the chief alone shows it.
    """

    SMOOTHING = 0.95

    def __init__(self, epoch_s: float, epochs_done: int, num_epochs: int, engine: Engine) -> None:
        self._num_epochs, self._total_s = num_epochs, epoch_s * num_epochs
        self._loss = self._error = float("nan")
        self._bar = tqdm(
            total=self._total_s,
            initial=epoch_s * epochs_done,
            desc=f"{engine.num_devices} devices" if engine.num_devices > 1 else None,
            disable=not engine.is_chief,
            bar_format="{l_bar}{bar:20}| {elapsed} < {remaining}, {rate_noinv_fmt}{postfix}",
            unit=" s of audio",
        )

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def advance(self, audio_s: float, loss: float, edits: EditCounts) -> None:
        """Show a step."""
        self._loss = self._smooth(self._loss, loss)
        self._error = self._smooth(self._error, edits.rate)
        self._bar.set_postfix_str(f"loss {self._loss:.2f}, errors {self._error:.1%}", refresh=False)
        self._bar.update(min(audio_s, self._total_s - self._bar.n))

    def tell(self, metrics: EpochMetrics) -> None:
        """Print an epoch's line above the bar."""
        if self._bar.disable:
            return
        self._bar.write(
            f"epoch {metrics.epoch:>3}/{self._num_epochs}  loss {metrics.loss:7.3f}  "
            f"errors {metrics.train_error:6.1%}  dev loss {metrics.dev_loss:7.3f}  "
            f"dev errors {metrics.dev_error:6.1%}  {metrics.audio_s_per_s:5.0f} s/s"
            + ("  best" if metrics.best else ""),
            file=sys.stdout,
        )

    def _smooth(self, old: float, new: float) -> float:
        return new if np.isnan(old) else self.SMOOTHING * old + (1 - self.SMOOTHING) * new
