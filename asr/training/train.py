"""Train a model in one call: `asr train` is this function behind a command line.

from asr import load_config, train

trained = train(load_config("demo", overrides=["train.epochs=2"]), name="x", devices="0,1")
print(trained.run.directory, trained.evaluation.scores[0].total.rate)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.base.config import Config, load_config
from asr.base.interrupt import StopRequest, stop_signals
from asr.base.types import UserError
from asr.model.devices import device_errors_as_user_errors
from asr.runs.average import read_origin
from asr.runs.resume_command import resume_command
from asr.runs.run import Run
from asr.runs.state import tracked
from asr.training.engine import Engine, start_engine
from asr.training.observer import TrainingObserver, TrainingStart

if TYPE_CHECKING:
    import tensorflow as tf

    from asr.base.vocabulary import Vocabulary
    from asr.evaluation.evaluate import Evaluated
    from asr.model.acoustic_model import AcousticModel
    from asr.report.files import ReportFiles
    from asr.training.trainer import Trainer, TrainingSetup
    from data_pipeline.dataset import Dataset

logger = logging.getLogger(__name__)

# the settings that a resumed run may change, as they hardly change what it learns; `accumulate` does so by
# batch statistics, and is the way to continue where memory does not suffice
SET_ON_RESUME = (
    "train.runs_dir",
    "train.accumulate",
    "train.max_skipped",
    "train.checkpoint_s",
    "train.keep_last",
    "train.keep_best",
    "train.tensorboard_utterances",
)


class Trained(NamedTuple):
    """What training made.

    Attributes:
        run: with its checkpoints, metrics and report.
        evaluation: of the best model on the test set; None in a process that is not the chief of several.
        files: what was written of the evaluation; None likewise.
    """

    run: Run
    evaluation: Evaluated | None = None
    files: ReportFiles | None = None


class _Prepared(NamedTuple):
    """What exists before the first step."""

    setup: TrainingSetup
    train_data: Dataset
    dev_data: Dataset
    test_data: Dataset
    left_out: list[str]  # of the training manifest, and why


def train(
    config: Config,
    name: str,
    *,
    devices: str | int | None = None,
    simulate: bool = False,
    engine: str = "",
    profile: bool = False,
    observer: TrainingObserver | None = None,
) -> Trained:
    """Train a model, evaluate its best checkpoint on the test set, and write the report.

    Ctrl-C or SIGTERM lets the step be finished and saved, then raises `asr.base.interrupt.Interrupted`;
    `resume` continues such a run. A second one ends at once.

    Args:
        config: what to train, on what; `asr.load_config` makes one.
        name: of the run, whose directory is made in `train.runs_dir`.
        devices: how many, such as 2; which, such as "0,2"; or "all". None for one.
        simulate: whether to cut the machine's one device into as many.
        engine: how devices share the work, one of `multigpu.ENGINES`; empty for the usual one.
        profile: whether to record what a few steps do on the device, for TensorBoard.
        observer: receives how training goes.

    Returns:
        The run and its evaluation.

    Raises:
        UserError: the run exists already, a setting, a device or the data cannot be used, or training
            failed; the message says how to continue.
    """
    directory = run_directory(config, name)
    if directory.parent.exists() and not directory.parent.is_dir():
        raise UserError(f"train.runs_dir: {directory.parent} is a file; name a folder")
    if engine != "multi-worker":  # where another process may have made it by now
        Run.refuse_existing(directory)
    command = resume_command(directory, devices=devices, simulate=simulate, engine=engine)
    session = _Session(Run(directory), config, observer, command, profile, resumes=False)
    return session.train(start_engine(devices, simulate=simulate, engine=engine))


def resume(
    run: str | Path,
    overrides: Sequence[str] = (),
    *,
    devices: str | int | None = None,
    simulate: bool = False,
    engine: str = "",
    profile: bool = False,
    observer: TrainingObserver | None = None,
) -> Trained:
    """Continue a run exactly where it stopped, on the same devices or others.

    Args:
        run: its directory.
        overrides: settings to change, such as "train.accumulate=2": only those of `SET_ON_RESUME`.
        devices: see `train`.
        simulate: see `train`.
        engine: see `train`.
        profile: see `train`.
        observer: see `train`.

    Raises:
        UserError: there is no run, or it cannot be continued with these settings.
    """
    for override in overrides:
        if override.partition("=")[0].strip() not in SET_ON_RESUME:
            raise UserError(
                f"`overrides={override}`: a resumed run keeps its settings, except "
                f"{', '.join(SET_ON_RESUME)}; start another one under another `name`"
            )
    old = Run.open(Path(run))
    if read_origin(old.directory):
        raise UserError(
            f"{old.directory}: an average, which has no optimiser; train on from it in another run, by "
            f"train.init_from={old.directory} and another `name`"
        )
    config = load_config(old.directory / "config.toml", overrides)
    command = resume_command(old.directory, devices=devices, simulate=simulate, engine=engine)
    session = _Session(old, config, observer, command, profile, resumes=True)
    return session.train(start_engine(devices, simulate=simulate, engine=engine))


def run_directory(config: Config, name: str) -> Path:
    """Return the directory of a run of some name.

    Raises:
        UserError: it is no name.
    """
    if Path(name).name != name or name in ("", ".."):
        raise UserError(f"`name={name}`: expected a name, not a path; train.runs_dir chooses the folder")
    return Path(config.train.runs_dir) / name


class _Session:
    """One session of a run: prepares, trains, evaluates."""

    def __init__(
        self,
        run: Run,
        config: Config,
        observer: TrainingObserver | None,
        command: str,
        profile: bool,
        resumes: bool,
    ) -> None:
        self.run, self.config, self.observer = run, config, observer or TrainingObserver()
        self.command, self.profile, self.resumes = command, profile, resumes

    def train(self, engine: Engine) -> Trained:
        """Train what is left of the run on an engine."""
        # signals after the engine: that of several workers has a handler of its own
        with (
            stop_signals(self.observer.on_stop_requested) as stop,
            _lost_workers_as_user_errors(engine, self.command),
        ):
            prepared = self._prepare(engine)
            trainer, trained = None, Trained(self.run)
            try:
                with tracked(self.run.directory, self.command, engine.is_chief):
                    trainer = self._make_trainer(engine, prepared, stop)
                    trainer.train()
                    if engine.is_chief:
                        trained = self._evaluate(trainer, prepared.test_data)
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(self._resume_hint())
                raise
            except UserError as error:
                if trainer is None:
                    raise
                raise UserError(f"{error}\n{self._resume_hint()}") from None
        return trained

    def _prepare(self, engine: Engine) -> _Prepared:
        """Do what there is to do before the run is made, or touched."""
        from asr.evaluation.data import evaluation_data
        from asr.model.acoustic_model import make_acoustic_model
        from asr.training.callbacks import load_callbacks, refuse_ruled
        from asr.training.data import make_vocabulary, training_data, with_manifests
        from asr.training.trainer import TrainingSetup

        config, on_work = self.config, self.observer.on_work
        callbacks = load_callbacks(config.train.callbacks)
        refuse_ruled(callbacks, config.train)
        if self.resumes:
            vocabulary = self.run.vocabulary()
        else:
            Run.refuse_existing(self.run.directory)  # the chief makes it when all workers have come by here
            config = _chief_first(engine, lambda: with_manifests(config, on_work))
            vocabulary = make_vocabulary(config)
        with engine.scope():
            model = make_acoustic_model(config, vocabulary, for_training=True)
        with device_errors_as_user_errors("train.accumulate"):
            engine.refuse_parts(model, config.train.accumulate)
        if config.train.init_from and not (self.resumes and self.run.checkpoints()):
            _take_weights(config.train.init_from, model, vocabulary, engine.is_chief)
        train_data, left_out = training_data(config, vocabulary, model, on_work)
        dev_data, _ = evaluation_data(Path(config.data.dev), vocabulary, on_work)
        test_data, _ = evaluation_data(Path(config.data.test), vocabulary, on_work)
        setup = TrainingSetup(config, vocabulary, model, train_data, dev_data, callbacks)
        return _Prepared(setup, train_data, dev_data, test_data, left_out)

    def _make_trainer(self, engine: Engine, prepared: _Prepared, stop: StopRequest) -> Trainer:
        """Return the trainer of a run that is made, or resumed, here."""
        from asr.training.data import warn_of_shared_sentences
        from asr.training.trainer import Trainer

        setup, train_data = prepared.setup, prepared.train_data
        config, run = setup.config, self.run
        if engine.is_chief:
            self.observer.on_start(_start_of(run, prepared, engine))
            others = {
                config.data.dev: prepared.dev_data.utterances,
                config.data.test: prepared.test_data.utterances,
            }
            warn_of_shared_sentences(train_data.utterances, others)
            if not self.resumes:
                run.write_token_counts(train_data.utterances)
                run = Run.create(run.directory, config, setup.vocabulary)
            run.write_left_out(prepared.left_out)
        else:
            logger.info(
                "worker %d of %d: worker 0 reports how training goes", engine.worker, engine.num_workers
            )
        trainer = Trainer(engine, setup, run, stop, self.observer, self.profile)
        if self.resumes:
            trainer.resume()
        return trainer

    def _evaluate(self, trainer: Trainer, test_data: Dataset) -> Trained:
        """Evaluate the best model on the test set, and write the report."""
        from asr.evaluation.evaluate import evaluate_on
        from asr.report.files import write_report_files

        engine, manifest = trainer.engine, Path(trainer.config.data.test)
        evaluated = evaluate_on(engine.devices, engine.spread, self.run, test_data, manifest, trainer.stop)
        trainer.stop.raise_if_requested()
        return Trained(self.run, evaluated, write_report_files(evaluated, self.run.report_path))

    def _resume_hint(self) -> str:
        """Return from where the run can be continued, and how."""
        if not self.run.is_there:
            return f"once its directory is back, resume by\n    {self.command}"
        saved = self.run.checkpoints()
        return f"{saved[-1] if saved else 'nothing'} is saved; resume by\n    {self.command}"


def _start_of(run: Run, prepared: _Prepared, engine: Engine) -> TrainingStart:
    setup, train_data = prepared.setup, prepared.train_data
    return TrainingStart(
        directory=run.directory,
        config=setup.config,
        num_parameters=setup.model.count_params(),
        num_tokens=setup.model.network.num_outputs - 1,
        train_s=train_data.duration_s,
        num_train=len(train_data.utterances),
        num_dev=len(prepared.dev_data.utterances),
        engine=engine.name,
        devices=tuple(engine.devices),
        num_devices=engine.num_devices,
        num_workers=engine.num_workers,
    )


def _take_weights(run_path: str, model: AcousticModel, vocabulary: Vocabulary, is_chief: bool) -> None:
    """Give a new model the weights of another run that fit, and log which do not."""
    from asr.runs.checkpoint import read_checkpoint
    from asr.training.fine_tuning import load_matching

    other = Run.open(Path(run_path))
    path = other.best_checkpoint()
    loaded = load_matching(model, vocabulary, read_checkpoint(path).decoding_weights, other.vocabulary())
    if is_chief:
        logger.info("\n".join([f"starting from {path}:", *(f"  {line}" for line in loaded.lines())]))


def _chief_first(engine: Engine, prepare: Callable[[], Config]) -> Config:
    """Return what `prepare` returns; of several processes the chief calls it first, for the others."""
    if not engine.is_chief:
        engine.wait_for_all()
    prepared = prepare()
    if engine.is_chief:
        engine.wait_for_all()
    return prepared


@contextlib.contextmanager
def _lost_workers_as_user_errors(engine: Engine, command: str) -> Iterator[None]:
    """Raise one line instead of TensorFlow's stack where another process has gone."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if engine.num_workers == 1:
            raise
        gone = isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)
        what = (
            "another worker is gone; its own output says why"
            if gone
            else "the workers cannot continue together"
        )
        raise UserError(
            f"{what} ({_cause(error)}). The epochs whose lines the chief printed are saved: start every "
            f"worker again, as before, by\n    {command}"
        ) from None


def _cause(error: tf.errors.OpError) -> str:
    """Return the line of TensorFlow's message that says it."""
    lines = [line.strip() for line in str(error.message).splitlines()]
    skipped = ("[[", "Detected at", "File ", "Graph execution error", "The error could be")
    left = [line for line in lines if line and not line.startswith(skipped)]
    return left[-1] if left else type(error).__name__
