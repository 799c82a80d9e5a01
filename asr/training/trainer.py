"""Run the training loop: train -> train_epoch -> train_step.

setup = TrainingSetup(config, vocabulary, model, train_data, dev_data)
trainer = Trainer(engine, setup, run)
trainer.train()

All state that a step reads is in the model's and the optimiser's variables or in `Progress`, or follows from
them and the configuration: a run that is stopped after any step and resumed equals an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras

from asr.base.config import Config, dump_config
from asr.base.errors import UserError
from asr.base.system.interrupt import Interrupted, StopRequest
from asr.base.types import TrainingBatch, Utterance
from asr.base.vocabulary import Vocabulary
from asr.ctc.greedy import labels_of
from asr.evaluation.errors.metrics import total_edits
from asr.evaluation.evaluator import Evaluation, EvaluationData, Evaluator
from asr.model.acoustic_model import AcousticModel
from asr.model.tensorflow_runner import TensorFlowRunner
from asr.report.training_page import TrainingPage
from asr.runs.checkpoint import restore_state, state_of
from asr.runs.checkpoint_store import CheckpointStore
from asr.runs.progress import EpochMetrics, EpochSoFar, Progress, is_chosen
from asr.runs.run import Run
from asr.runs.stage_record import write_stages
from asr.training.monitoring.callbacks import Callbacks
from asr.training.monitoring.diagnostics import Diagnostics
from asr.training.monitoring.observer import TrainingObserver
from asr.training.monitoring.profiler import Profiler
from asr.training.monitoring.tensorboard import LOG_EVERY_STEPS, TensorBoard
from asr.training.optimization.moving_average import MovingAverage
from asr.training.optimization.objective import flat_steps_of, make_objective
from asr.training.optimization.optimizer import loss_scale_of, make_optimizer
from asr.training.optimization.out_of_memory import memory_errors_as_user_errors
from asr.training.optimization.schedule import (
    learning_rate_of,
    plateau_factor,
    set_plateau,
    stops_early,
    warmup_steps_of,
)
from asr.training.optimization.skipped_batches import SkippedBatch
from asr.training.optimization.step import Step, StepResult, make_step, reference_labels
from asr.training.stages import stages_of, typical_batch
from data_pipeline.manifests.utterances import checksum_of
from multigpu.engine import Engine

logger = logging.getLogger(__name__)

STEPS_WORTH_COMPILING = 1000  # compiling the update takes seconds, and each step then a few percent less
PICTURES_EVERY_S = 60.0  # seconds of training between pictures, which take a while to draw


class DivergedError(UserError):
    """Raised when the weights have diverged: resuming would not help."""


class TrainingData(Protocol):
    """A training set as the loop needs it; `data_pipeline.batches.dataset.Dataset` is one."""

    @property
    def utterances(self) -> Sequence[Utterance]:
        """Return the utterances of the set."""

    @property
    def duration_s(self) -> float:
        """Return the seconds of audio of the whole set."""

    @property
    def checksum(self) -> int:
        """Return a checksum of the utterances."""

    def duration_of(self, plan: Sequence[list[int]]) -> float:
        """Return the seconds of audio of the rows of batches."""

    def epoch(
        self,
        epoch: int,
        seed: int,
        fits: Any,
        local_rows: Callable[[Sequence[int]], list[int]],
        first_batch: int = 0,
    ) -> tuple[Sequence[list[int]], Generator[TrainingBatch, None, None]]:
        """Return the rows of each batch, and the batches with only those rows that this process reads."""


@dataclass(frozen=True)
class TrainingSetup:
    """What is trained, on what data, and how it is watched on the devices.

    Attributes:
        config: of the run.
        vocabulary: of the labels.
        model: with its weights created in the engine's scope.
        train_data: batches by epoch.
        dev_data: batches to evaluate on after every epoch.
        callbacks: Keras callbacks, called as `Model.fit` would call them.
        placed: what the engine's `place` returned for the model; None for the model itself.
        profile: whether to profile some steps on the devices.
        start_error: the dev error of the weights of another run, from which training starts; None if it
            starts from random weights or a checkpoint.
        evaluator: of the model; None to make it.
    """

    config: Config
    vocabulary: Vocabulary
    model: AcousticModel
    train_data: TrainingData
    dev_data: EvaluationData
    callbacks: Sequence[keras.callbacks.Callback] = ()
    placed: Any = None
    profile: bool = False
    start_error: float | None = None
    evaluator: Evaluator | None = None

    @property
    def on_devices(self) -> Any:
        """Return what is called to run the model."""
        return self.placed or self.model


def make_evaluator(engine: Engine, setup: TrainingSetup) -> Evaluator:
    """Return the evaluator of the model that is trained, on the devices that train it."""
    runner = TensorFlowRunner(setup.model, engine.spread, engine.num_devices, setup.on_devices)
    return Evaluator(runner, setup.vocabulary)


class Trainer:
    """The training of one model on one training set.

    Args:
        engine: runs the steps, on one device or several.
        setup: the model to train, its configuration and its data.
        run: receives checkpoints, metrics and event files.
        stop: requests to stop before the end.
        observer: receives the progress of training.
        page: shows the curves after every epoch.
    """

    def __init__(
        self,
        engine: Engine,
        setup: TrainingSetup,
        run: Run,
        stop: StopRequest | None = None,
        observer: TrainingObserver | None = None,
        page: TrainingPage | None = None,
    ) -> None:
        config, model = setup.config, setup.model
        self.engine, self.model, self.config, self.run = engine, model, config, run
        self.train_data, self.dev_data, self.vocabulary = setup.train_data, setup.dev_data, setup.vocabulary
        self.stop = stop or StopRequest()
        self.observer = observer if observer and engine.is_chief else TrainingObserver()
        self.placed = setup.on_devices
        self.evaluator = setup.evaluator or make_evaluator(engine, setup)
        self._one_by_one = TensorFlowRunner(model, placed=self.placed)
        self.store = CheckpointStore(run, config.train.keep_last, config.train.keep_best)
        dev = checksum_of((one.id, one.duration_s, one.tokens) for one in setup.dev_data.utterances)
        self.progress = Progress(
            data_checksum=setup.train_data.checksum, start_error=setup.start_error, dev_checksum=dev
        )
        self.num_epochs = config.train.epochs
        plan, _ = self._epoch(0, first_batch=0)
        num_steps = len(plan) * self.num_epochs
        with engine.scope():
            on_one_device = engine.has_weights_on_one_device
            compiled = on_one_device and num_steps >= STEPS_WORTH_COMPILING
            self.optimizer = make_optimizer(config.train, num_steps, on_one_device, compiled)
            self.optimizer.build(model.trainable_variables)
        self._flat_steps = flat_steps_of(config.train, num_steps)
        self.average = None
        if config.train.ema_decay:
            self.average = MovingAverage(model, config.train.ema_decay)
        self.diagnostics = Diagnostics(config.train, warmup_steps_of(config.train, num_steps))
        self.callbacks = Callbacks(setup.callbacks, model, self.optimizer, self.num_epochs, len(plan))
        self.board = TensorBoard(run.tensorboard_dir) if engine.is_chief else None
        self.profiler = Profiler(run.tensorboard_dir) if setup.profile and engine.is_chief else None
        self.page = page
        self._saved_at_s = time.monotonic()
        self._pictures_at_s = 0.0

    def resume(self) -> None:
        """Load the last complete checkpoint; a run without checkpoints starts from its first step.

        Raises:
            UserError: no checkpoint can be read, or the training set has changed since it was written.
        """
        checkpoint = self.store.newest(repair=self.engine.is_chief)
        if checkpoint is None:
            return
        if checkpoint.progress.data_checksum != self.progress.data_checksum:
            raise UserError(
                f"{self.run.directory}: its training set has changed since the run began (recordings were "
                "added or changed, or cannot be read now); restore it, or start a run under another `name`"
            )
        restore_state(checkpoint, self.model, self.optimizer, self._averages)
        dev = self.progress.dev_checksum
        if checkpoint.progress.history and checkpoint.progress.dev_checksum not in (None, dev):
            self._warn(
                f"{self.run.directory}: its dev set has changed since the last checkpoint; the errors of "
                "epochs before and after are of different sets, and the choice of an epoch compares them"
            )
        self.progress = dataclasses.replace(checkpoint.progress, dev_checksum=dev)
        self._set_plateau()
        reported = self.progress.reported
        self.diagnostics = Diagnostics(self.config.train, self.diagnostics.warmup_steps, reported)
        if self.progress.epochs_done >= self.config.train.epochs:
            logger.info(
                "%s: all epochs are trained already; a higher train.epochs trains on", self.run.directory
            )
        else:
            logger.info(
                "%s: resuming after %s, at a learning rate of %.2g",
                self.run.directory,
                self.progress.place(),
                learning_rate_of(self.optimizer),
            )

    def train(self) -> Progress:
        """Train the remaining epochs, and return the progress of the run.

        Raises:
            Interrupted: a signal was received; after the first, everything up to the last step is saved.
            UserError: memory or disk is full, or too many batches had to be skipped.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.store)
            if self.board is not None:
                stack.enter_context(self.board)
                self.board.configuration(dump_config(self.config))
            if self.profiler is not None:
                stack.callback(self.profiler.close)
            if self.progress.start_error is not None and not self.progress.step:
                self._save_start(self.progress.start_error)
            self._start_session()
            stack.callback(self.observer.on_session_end)
            stack.enter_context(self.stop.deferred())
            self.callbacks.train_begin()
            while not self._is_done() and self.train_epoch():
                self._finish_epoch()
            self.callbacks.train_end()
            self.store.finish()
        self.stop.raise_if_requested()
        return self.progress

    def train_epoch(self) -> bool:
        """Train on the remaining batches of an epoch, and return False if a callback has ended training."""
        self._set_plateau()
        number = self.progress.epochs_done
        if not self.progress.epoch.batches:
            self.callbacks.epoch_begin(number)
        plan, batches = self._epoch(number, self.progress.epoch.batches)
        with contextlib.closing(batches):
            return self._train_on(self._save_on_read_error(zip(plan, batches, strict=True)))

    def _train_on(self, batches: Iterator[tuple[list[int], TrainingBatch]]) -> bool:
        began_s = asked_s = time.monotonic()
        for indices, batch in batches:
            waiting_s = time.monotonic() - asked_s
            epoch = self._train_batch([self.train_data.utterances[index] for index in indices], batch)
            ended_s = time.monotonic()
            epoch = epoch.with_time(ended_s - began_s, waiting_s)
            self.progress = dataclasses.replace(
                self.progress, epoch=epoch, reported=self.diagnostics.reported
            )
            began_s = ended_s
            self._save_if_due()
            asked_s = time.monotonic()
            if self.callbacks.stop_training:
                self._save()
                return False
        return True

    def train_step(self, batch: TrainingBatch, num_rows: int) -> StepResult:
        """Update the weights once.

        Args:
            batch: this process's rows.
            num_rows: number of rows of all processes that train together.
        """
        return self._compiled_step(batch, num_rows)

    def _train_batch(self, rows: Sequence[Utterance], batch: TrainingBatch) -> EpochSoFar:
        """Train on a batch, report its metrics, and return the epoch including it."""
        step = self.progress.step + 1
        self.callbacks.batch_begin(self.progress.epoch.batches)
        # reading the rate takes time, and TensorBoard shows only every tenth step
        rate = learning_rate_of(self.optimizer) if step % LOG_EVERY_STEPS == 0 else 0.0
        local_rows = self.engine.local_rows(range(len(rows)))
        with memory_errors_as_user_errors(
            [rows[row] for row in local_rows], batch, self.config.train, len(self.engine.devices)
        ):
            result = self.train_step(batch, num_rows=len(rows))
            loss, gradient_norm = float(result.loss), float(result.gradient_norm)
        if self.profiler is not None:
            self.profiler.step()
        if self.board is not None:
            self.board.step(step, loss, gradient_norm, rate)
        if not math.isfinite(loss) or not (math.isfinite(gradient_norm) or self._may_be_scale_overflow()):
            return self._skipped(rows, loss, gradient_norm)
        if self.average is not None and math.isfinite(gradient_norm):
            self.average.update(step)
        recognized = labels_of(result.path)
        references = reference_labels(batch)[
            : len(recognized)
        ]  # a process without rows reads a row of another
        edits = total_edits(zip(references, recognized, strict=True))
        self.callbacks.batch_end(self.progress.epoch.batches, {"loss": loss, "error": edits.rate})
        self.observer.on_step(sum(utterance.duration_s for utterance in rows), loss, edits)
        return self.progress.epoch.with_batch(len(rows), loss, gradient_norm, edits)

    def _skipped(self, rows: Sequence[Utterance], loss: float, gradient_norm: float) -> EpochSoFar:
        """Report a skipped batch, and return the epoch including it."""
        epoch = self.progress.epoch.with_skipped()
        batch = SkippedBatch(
            loss,
            gradient_norm,
            rows,
            epoch=self.progress.epochs_done + 1,
            num_skipped=self.progress.skipped + 1,
            learning_rate=learning_rate_of(self.optimizer),
        )
        try:
            lines = self.diagnostics.after_skipped(batch)
        except UserError:
            self.progress = dataclasses.replace(
                self.progress, epoch=epoch, reported=self.diagnostics.reported
            )
            self._save()
            raise
        for line in lines:
            self._warn(line)
        self.observer.on_skipped_step(sum(utterance.duration_s for utterance in rows))
        return epoch

    def _warn(self, line: str) -> None:
        """Log a warning; of several processes only the chief logs it."""
        if self.engine.is_chief:
            logger.warning("%s", line)

    def _may_be_scale_overflow(self) -> bool:
        """Return whether gradients may be infinite only because float16 scales the loss."""
        return self.config.train.precision == "float16" and float(loss_scale_of(self.optimizer)) >= 1

    def _finish_epoch(self) -> None:
        """Evaluate on dev, report the epoch's metrics, and save a checkpoint."""
        began_s = time.monotonic()
        edits = self.progress.epoch.edits
        try:
            with self._decoding_weights():
                evaluation = self.evaluator.evaluate(self.dev_data, self.stop)
        except Interrupted as interrupt:
            if not interrupt.at_once:  # a second signal may have come while weights were being exchanged
                self._save()
                self.store.finish()
            raise
        if not math.isfinite(evaluation.loss):
            raise DivergedError(
                f"epoch {self.progress.epochs_done + 1}: the dev loss is {evaluation.loss}; the weights have "
                "diverged. Start another run under another `name`, with a train.learning_rate below "
                f"{self.config.train.learning_rate:g}"
            )
        metrics = self._metrics(evaluation, dev_s=time.monotonic() - began_s)
        history = (*self.progress.history, metrics)
        self.observer.on_epoch(metrics, self.num_epochs)
        self.callbacks.epoch_end(metrics.epoch - 1, metrics)
        for line in self.diagnostics.after_epoch(history, edits):
            self._warn(line)
        self.progress = dataclasses.replace(
            self.progress, history=history, epoch=EpochSoFar(), reported=self.diagnostics.reported
        )
        self._save()
        if self.page is not None:
            self.page.show(history)
        self._write_tensorboard(metrics)
        self._stop_if_requested()

    def _save_start(self, error: float) -> None:
        """Save the weights of another run, which training starts from, as those of epoch 0."""
        self._save()
        if self.engine.is_chief:
            self.run.write_start_error(error)

    def _write_tensorboard(self, metrics: EpochMetrics) -> None:
        """Write the epoch's metrics and pictures for TensorBoard."""
        if self.board is not None:
            self.board.epoch(metrics)
            if self._pictures_at_s and metrics.train_s - self._pictures_at_s < PICTURES_EVERY_S:
                return
            self._pictures_at_s = metrics.train_s
            num = self.config.train.tensorboard_utterances
            with self._decoding_weights():
                self.board.utterances(self._one_by_one, self.vocabulary, self.dev_data, num, metrics.epoch)

    def _decoding_weights(self) -> contextlib.AbstractContextManager[None]:
        """Put the weights to decode with into the model for a context: the moving average if there is one."""
        return self.average.in_model() if self.average else contextlib.nullcontext()

    def _set_plateau(self) -> None:
        """Lower the learning rate by the plateaus so far; the optimizer's state does not contain them."""
        if self.config.train.schedule == "plateau":
            set_plateau(self.optimizer, plateau_factor(self._dev_errors, self.config.train))

    def _is_done(self) -> bool:
        if self.progress.epochs_done >= self.num_epochs or self.callbacks.stop_training:
            return True
        return stops_early(self._dev_errors, self.config.train.early_stopping_epochs)

    def _metrics(self, dev: Evaluation, dev_s: float) -> EpochMetrics:
        """Return the metrics of the epoch whose batches are done."""
        epoch, before = self.progress.epoch, self.progress
        # of several workers, each has seen other rows, and on another card another syllable may be wrong
        train_error = self.engine.value_of_chief(epoch.edits.rate)
        dev_error = self.engine.value_of_chief(dev.edits.rate)
        return EpochMetrics(
            epoch=before.epochs_done + 1,
            loss=epoch.mean_loss,
            train_error=train_error,
            dev_loss=dev.loss,
            dev_error=dev_error,
            learning_rate=learning_rate_of(self.optimizer),
            audio_s_per_s=self.train_data.duration_s / max(epoch.train_s, 1e-9),
            train_s=before.train_s,
            best=dev_error <= before.best_dev_error,
            chosen=is_chosen(dev.edits, before.best_dev_error, before.start_error),
            step=before.step,
            gradient_norm=epoch.mean_gradient_norm,
            skipped=epoch.skipped,
            waiting_share=epoch.waiting_s / max(epoch.train_s, 1e-9),
            dev_s=dev_s,
            corpora=dev.rates_by_corpus,
        )

    def _save_on_read_error(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches; if one cannot be read, save a checkpoint before raising."""
        try:
            yield from batches
        except UserError:
            if self.progress.step:  # else decoding would take untrained weights
                self._save()
            raise

    def _save_if_due(self) -> None:
        """Save a checkpoint if it is time or a stop is requested; then end training if it is requested."""
        self.store.raise_if_failed()
        if time.monotonic() - self._saved_at_s > self.config.train.checkpoint_s or self.stop.requested:
            self._save()
        self._stop_if_requested()

    def _stop_if_requested(self) -> None:
        if self.stop.requested:
            self.store.finish()
            self.stop.raise_if_requested()

    def _save(self) -> None:
        """Write a checkpoint in the background; only the chief writes."""
        self._saved_at_s = time.monotonic()
        if self.engine.is_chief:
            self.store.save(state_of(self.model, self.optimizer, self._averages), self.progress)

    @property
    def _averages(self) -> list[Any] | None:
        return self.average.variables if self.average else None

    @property
    def _dev_errors(self) -> list[float]:
        return [metrics.dev_error for metrics in self.progress.history]

    def _start_session(self) -> None:
        """Report the stages of the model, the length of the run, and how much of it is done."""
        utterances, batch_s = self.train_data.utterances, self.config.train.batch_clips_s
        if stages := stages_of(self.placed, self.optimizer, typical_batch(utterances, batch_s)[0]):
            write_stages(self.run.directory, stages)
            self.observer.on_stages(stages)
        epoch_s, done = self.train_data.duration_s, self.progress.epochs_done
        done_s = epoch_s * done
        if self.progress.epoch.batches:
            plan, _ = self._epoch(done, self.progress.epoch.batches)
            done_s += epoch_s - self.train_data.duration_of(plan)
        self.observer.on_session(epoch_s * self.num_epochs, done_s, self.engine.num_devices)

    @functools.cached_property
    def _compiled_step(self) -> Step:
        config = self.config.train
        phone_ids = self.vocabulary.phone_ids() if self.config.model.intermediate_units == "phones" else ()
        objective = make_objective(
            config, self.optimizer, self.diagnostics.warmup_steps, self._flat_steps, phone_ids
        )
        return make_step(self.engine, self.placed, self.optimizer, config, objective)

    def _epoch(
        self, epoch: int, first_batch: int
    ) -> tuple[Sequence[list[int]], Generator[TrainingBatch, None, None]]:
        seed = self.config.train.seed
        return self.train_data.epoch(epoch, seed, self.model.fits, self.engine.local_rows, first_batch)
