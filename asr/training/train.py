"""Train a model with one call; `asr train` is the command line of this function.

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

from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.interrupt import StopRequest, stop_signals
from asr.model.devices import ModelDevices, device_errors_as_user_errors
from asr.runs.origin import read_origin
from asr.runs.resume_command import resume_command
from asr.runs.run import Run
from asr.runs.stage_record import read_stages
from asr.runs.state import track_state
from asr.training.engine import DeviceChoice, Engine, start_engine
from asr.training.observer import TrainingObserver, TrainingStart

if TYPE_CHECKING:
    import tensorflow as tf

    from asr.base.vocabulary import Vocabulary
    from asr.evaluation.run_evaluation import EvaluatedRun
    from asr.model.acoustic_model import AcousticModel
    from asr.report.files import ReportFiles
    from asr.training.trainer import Trainer, TrainingSetup
    from data_pipeline.batches.dataset import Dataset

logger = logging.getLogger(__name__)

# the settings that a resumed run may change, as they hardly affect what it learns; `accumulate` affects the
# batch statistics, but must be changed to resume a run that was out of memory
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
    """The result of training.

    Attributes:
        run: with its checkpoints, metrics and report.
        evaluation: of the best model on the test set; None in a process that is not the chief.
        files: the files of the evaluation's report; None in a process that is not the chief.
    """

    run: Run
    evaluation: EvaluatedRun | None = None
    files: ReportFiles | None = None


class _Prepared(NamedTuple):
    """The model and the data that are ready before the first step."""

    setup: TrainingSetup
    train_data: Dataset
    dev_data: Dataset
    test_data: Dataset
    left_out: list[str]  # unusable utterances of the training manifest, with reasons


def train(
    config: Config,
    name: str,
    *,
    devices: str | int | None = None,
    simulate: bool = False,
    engine: str = "",
    stages: int = 0,
    profile: bool = False,
    observer: TrainingObserver | None = None,
) -> Trained:
    """Train a model, evaluate its best checkpoint on the test set, and write the report.

    On Ctrl-C or SIGTERM, training finishes and saves the current step, then raises
    `asr.base.interrupt.Interrupted`; `resume` continues such a run. A second signal ends it at once.

    Args:
        config: the model, the data and the training; `asr.load_config` makes one.
        name: of the run, whose directory is created in `train.runs_dir`.
        devices: how many, such as 2; which, such as "0,2"; or "all". None for one.
        simulate: whether to split the machine's single device into that many.
        engine: how devices share the work, one of `multigpu.ENGINES`; empty for the default.
        stages: number of parts into which the model is cut for the engine "stages", which it implies; 0 for
            one a device. With several times as many devices, each row of them trains on its share of a batch.
        profile: whether to profile a few steps on the devices, for TensorBoard.
        observer: receives the progress of training.

    Returns:
        The run and its evaluation.

    Raises:
        UserError: the run exists already, a setting, a device or the data cannot be used, or training
            failed; the message says how to continue.
    """
    directory = run_directory(config, name)
    if directory.parent.exists() and not directory.parent.is_dir():
        raise UserError(f"train.runs_dir: expected a folder, {directory.parent} is a file; name another")
    if engine != "multi-worker":  # with which another process may have created it already
        Run.refuse_existing(directory)
    chosen = DeviceChoice(devices, simulate, engine, stages)
    return _Session(Run(directory), config, chosen, observer, profile, resumes=False).train()


def resume(
    run: str | Path,
    overrides: Sequence[str] = (),
    *,
    devices: str | int | None = None,
    simulate: bool = False,
    engine: str = "",
    stages: int = 0,
    profile: bool = False,
    observer: TrainingObserver | None = None,
) -> Trained:
    """Continue a run exactly where it stopped, on the same devices or others.

    Args:
        run: the run's directory.
        overrides: settings to change, such as "train.accumulate=2"; only those of `SET_ON_RESUME`.
        devices: see `train`.
        simulate: see `train`.
        engine: see `train`.
        stages: see `train`.
        profile: see `train`.
        observer: see `train`.

    Raises:
        UserError: there is no run, or it cannot be continued with these settings.
    """
    for override in overrides:
        if override.partition("=")[0].strip() not in SET_ON_RESUME:
            raise UserError(
                f"`overrides={override}`: a resumed run keeps its settings, except "
                f"{', '.join(SET_ON_RESUME)}; to continue from its weights with other settings, such as more "
                f"epochs, start another run with train.init_from={run} and another `name`"
            )
    old = Run.open(Path(run))
    if origin := read_origin(old.directory):
        raise UserError(
            f"{old.directory}: these weights ({origin.summary()}) have no optimizer and cannot be resumed; "
            f"start another run from them, with train.init_from={old.directory} and another `name`"
        )
    config = old.config(overrides)
    chosen = DeviceChoice(devices, simulate, engine, stages)
    return _Session(old, config, chosen, observer, profile, resumes=True).train()


def run_directory(config: Config, name: str) -> Path:
    """Return the directory of the run with this name.

    Raises:
        UserError: the name is a path or empty.
    """
    if Path(name).name != name or name in ("", ".."):
        raise UserError(f"`name={name}`: expected a name, not a path; train.runs_dir sets the folder")
    return Path(config.train.runs_dir) / name


class _Session:
    """Prepares, trains and evaluates in one session of a run."""

    def __init__(
        self,
        run: Run,
        config: Config,
        devices: DeviceChoice,
        observer: TrainingObserver | None,
        profile: bool,
        resumes: bool,
    ) -> None:
        self.run, self.config, self.devices = run, config, devices
        self.observer, self.profile, self.resumes = observer or TrainingObserver(), profile, resumes
        self.command = resume_command(run.directory, **devices._asdict())

    def train(self) -> Trained:
        """Train what is left of the run."""
        engine = start_engine(self.devices, self.config.train.cpu_towers)
        # after the engine has started: that of several workers sets a signal handler of its own
        with (
            stop_signals(self.observer.on_stop_requested) as stop,
            _lost_workers_as_user_errors(engine, self.command),
        ):
            prepared = self._prepare(engine)
            trainer, trained = None, Trained(self.run)
            try:
                with track_state(self.run.directory, self.command, engine.is_chief):
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
        """Prepare the data and the model before the run's directory is created or changed."""
        from asr.evaluation.data import evaluation_data
        from asr.model.acoustic_model import make_acoustic_model
        from asr.model.networks import refuse_contradictions
        from asr.training.callbacks import load_callbacks, refuse_rate_setters
        from asr.training.data import make_vocabulary, training_data, with_manifests
        from asr.training.stages import place_model
        from asr.training.trainer import TrainingSetup

        config, on_work = self.config, self.observer.on_work
        callbacks = load_callbacks(config.train.callbacks)
        refuse_rate_setters(callbacks, config.train)
        refuse_contradictions(config.model)
        if self.resumes:
            vocabulary = self.run.vocabulary()
        else:
            Run.refuse_existing(self.run.directory)  # the chief creates it after all workers have passed here
            config = _chief_first(engine, lambda: with_manifests(config, on_work))
            vocabulary = make_vocabulary(config)
        with engine.scope():
            model = make_acoustic_model(config, vocabulary, for_training=True)
        with device_errors_as_user_errors("train.accumulate"):
            engine.check_num_parts(model, config.train.accumulate)
        if config.train.init_from and not (self.resumes and self.run.checkpoints()):
            _load_weights(config.train.init_from, model, vocabulary, engine.is_chief)
        train_data, left_out = training_data(
            config, vocabulary, model, on_work, engine.worker, engine.num_workers
        )
        dev_data, _ = evaluation_data(Path(config.data.dev), vocabulary, on_work)
        test_data = dev_data  # where both are one file: nothing is checked or reported twice
        if Path(config.data.test).resolve() != Path(config.data.dev).resolve():
            test_data, _ = evaluation_data(Path(config.data.test), vocabulary, on_work)
        placed = place_model(engine, model, train_data.utterances, config.train.batch_clips_s, self.run)
        setup = TrainingSetup(config, vocabulary, model, train_data, dev_data, callbacks, placed)
        return _Prepared(setup, train_data, dev_data, test_data, left_out)

    def _make_trainer(self, engine: Engine, prepared: _Prepared, stop: StopRequest) -> Trainer:
        """Create or resume the run, and return its trainer."""
        from asr.training.data import warn_of_shared_sentences
        from asr.training.trainer import Trainer

        setup, train_data = prepared.setup, prepared.train_data
        config, run = setup.config, self.run
        if engine.is_chief:
            self.observer.on_start(_training_start(run, prepared, engine))
            others = {config.data.dev: prepared.dev_data.utterances}
            if prepared.test_data is not prepared.dev_data:
                others[config.data.test] = prepared.test_data.utterances
            warn_of_shared_sentences(train_data.utterances, others)
            if not self.resumes:
                run.write_token_counts(train_data.utterances)
                run = Run.create(run.directory, config, setup.vocabulary)
            run.write_left_out(prepared.left_out)
        else:
            logger.info(
                "worker %d of %d: worker 0 reports the progress of training",
                engine.worker,
                engine.num_workers,
            )
        trainer = Trainer(engine, setup, run, stop, self.observer, self.profile)
        if self.resumes:
            trainer.resume()
        return trainer

    def _evaluate(self, trainer: Trainer, test_data: Dataset) -> Trained:
        """Evaluate the best model on the test set, and write the report."""
        from asr.evaluation.run_evaluation import evaluate_on_devices
        from asr.report.files import write_report_files

        engine, manifest = trainer.engine, Path(trainer.config.data.test)
        devices = ModelDevices.of_engine(engine, [stage.layers for stage in read_stages(self.run.directory)])
        evaluated = evaluate_on_devices(devices, self.run, test_data, manifest, trainer.stop)
        trainer.stop.raise_if_requested()
        return Trained(self.run, evaluated, write_report_files(evaluated, self.run.report_path))

    def _resume_hint(self) -> str:
        """Return a message that says what is saved, and the command that resumes the run."""
        if not self.run.exists:
            return f"restore the run's directory, then resume with\n    {self.command}"
        saved = self.run.checkpoints()
        return f"{saved[-1] if saved else 'nothing'} is saved; resume with\n    {self.command}"


def _training_start(run: Run, prepared: _Prepared, engine: Engine) -> TrainingStart:
    setup, train_data = prepared.setup, prepared.train_data
    return TrainingStart(
        directory=run.directory,
        config=setup.config,
        num_parameters=setup.model.count_params(),
        num_tokens=len(setup.vocabulary) - 1,
        train_s=train_data.duration_s,
        num_train=len(train_data.utterances),
        num_dev=len(prepared.dev_data.utterances),
        engine=engine.name,
        devices=tuple(engine.devices),
        num_devices=engine.num_devices,
        num_workers=engine.num_workers,
        num_stages=engine.num_stages,
        token=setup.vocabulary.token_name,
    )


def _load_weights(run_path: str, model: AcousticModel, vocabulary: Vocabulary, is_chief: bool) -> None:
    """Load the matching weights of another run into a new model, and log which do not match."""
    from asr.runs.checkpoint import read_checkpoint
    from asr.training.fine_tuning import load_matching

    other = Run.open(Path(run_path))
    path = other.best_checkpoint()
    loaded = load_matching(model, vocabulary, read_checkpoint(path).decoding_weights, other.vocabulary())
    if is_chief:
        logger.info("\n".join([f"weights of {path}:", *(f"  {line}" for line in loaded.lines())]))


def _chief_first(engine: Engine, prepare: Callable[[], Config]) -> Config:
    """Return what `prepare` returns; the chief calls it first, so that other processes find its files."""
    if not engine.is_chief:
        engine.wait_for_all()
    prepared = prepare()
    if engine.is_chief:
        engine.wait_for_all()
    return prepared


@contextlib.contextmanager
def _lost_workers_as_user_errors(engine: Engine, command: str) -> Iterator[None]:
    """Raise a one-line error instead of TensorFlow's traceback when another process has ended."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if engine.num_workers == 1:
            raise
        has_ended = isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)
        what = (
            "another worker has ended; its own output says why"
            if has_ended
            else "the workers cannot continue together"
        )
        raise UserError(
            f"{what} ({_cause(error)}). The epochs that the chief printed are saved: start every worker "
            f"again, as before, with\n    {command}"
        ) from None


def _cause(error: tf.errors.OpError) -> str:
    """Return the line of TensorFlow's message that gives the cause."""
    lines = [line.strip() for line in str(error.message).splitlines()]
    skipped = ("[[", "Detected at", "File ", "Graph execution error", "The error could be")
    left = [line for line in lines if line and not line.startswith(skipped)]
    return left[-1] if left else type(error).__name__
