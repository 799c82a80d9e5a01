"""Train a model with one call; `asr train` is the command line of this function.

from asr import Devices, load_config, train

trained = train(load_config("demo", overrides=["train.epochs=2"]), name="x", devices=Devices("0,1"))
print(trained.run.directory, trained.evaluation.scores[0].total.rate)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asr.audio.recording import SAMPLE_RATE_HZ
from asr.base.config import Config
from asr.base.errors import UserError
from asr.base.system.interrupt import StopRequest, stop_signals
from asr.base.system.storage.address import Address, path_of, refuse_address
from asr.base.text.wording import counted, percent
from asr.model.devices import ONE_DEVICE, Devices, ModelDevices
from asr.runs.checkpoint_store import trained_history
from asr.runs.origin import read_origin
from asr.runs.resume_command import resume_command
from asr.runs.run import Run
from asr.runs.stage_record import read_stages
from asr.runs.state import track_state
from asr.training.engine import make_model, start_engine
from asr.training.monitoring.observer import TrainingObserver, TrainingStart

if TYPE_CHECKING:
    import tensorflow as tf

    from asr.base.types import Utterance
    from asr.base.vocabulary import Vocabulary
    from asr.evaluation.run_evaluation import EvaluatedRun
    from asr.model.acoustic_model import AcousticModel
    from asr.report.files import ReportFiles
    from asr.training.final_evaluation import EvaluatedSet
    from asr.training.trainer import Trainer, TrainingSetup
    from data_pipeline.batches.dataset import Dataset
    from multigpu.engine import Engine

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
MORE_EPOCHS = "train.epochs"  # may be raised once all epochs are trained


class Trained(NamedTuple):
    """The result of training.

    Attributes:
        run: with its checkpoints, metrics and report.
        evaluation: of the chosen epoch on the test set, or on dev without one; None in a process that is
            not the chief.
        files: the files of the evaluation's report; None in a process that is not the chief.
        more: the evaluations on `data.more_tests`, each with its files.
    """

    run: Run
    evaluation: EvaluatedRun | None = None
    files: ReportFiles | None = None
    more: Sequence[EvaluatedSet] = ()


class _Data(NamedTuple):
    """The sets of a run."""

    train: Dataset
    dev: Dataset
    test: Dataset | None  # None where nothing is to be tested
    more: list[Dataset]  # of data.more_tests
    left_out: list[str]  # unusable utterances of the training manifest, with reasons


def train(
    config: Config,
    name: str,
    devices: Devices = ONE_DEVICE,
    *,
    profile: bool = False,
    observer: TrainingObserver | None = None,
) -> Trained:
    """Train a model, evaluate its chosen epoch on the test set, and write the report.

    On Ctrl-C or SIGTERM, training finishes and saves the current step, then raises
    `asr.base.system.interrupt.Interrupted`; `resume` continues such a run. A second signal ends it at once.

    Args:
        config: the model, the data and the training; `asr.load_config` makes one.
        name: of the run, whose directory is created in `train.runs_dir`.
        devices: on which to train, and how they share the work.
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
    if devices.engine != "multi-worker":  # with which another process may have created it already
        Run.refuse_existing(directory)
    return _train_and_evaluate(Run(directory), config, devices, observer, profile, resumes=False)


def resume(
    run: str | Path,
    overrides: Sequence[str] = (),
    devices: Devices = ONE_DEVICE,
    *,
    profile: bool = False,
    observer: TrainingObserver | None = None,
) -> Trained:
    """Continue a run exactly where it stopped, on the same devices or others.

    Args:
        run: the run's directory.
        overrides: settings to change, such as "train.accumulate=2": those of `SET_ON_RESUME`, which the run
            keeps, and, to train a finished run for more epochs, "train.epochs=80". The schedule of the
            learning rate is then that of all these epochs: `cosine` rises again to where it would be in a
            run of this length.
        devices: see `train`.
        profile: see `train`.
        observer: see `train`.

    Raises:
        UserError: there is no run, or it cannot be continued with these settings.
    """
    for override in overrides:
        if override.partition("=")[0].strip() not in (*SET_ON_RESUME, MORE_EPOCHS):
            raise UserError(
                f"`overrides={override}`: a resumed run keeps its settings, except "
                f"{', '.join(SET_ON_RESUME)} and, when it is finished, {MORE_EPOCHS}; to continue from its "
                f"weights with others, start another run with train.init_from={run} and another `name`"
            )
    if isinstance(path_of(run), Address):
        raise UserError(
            f"{path_of(run)}: `resume`: expected a run on a disk, since nothing is written to an address; "
            "copy it to a disk, and resume it there"
        )
    old = Run.open(run)
    if origin := read_origin(old.directory):
        raise UserError(
            f"{old.directory}: these weights ({origin.summary()}) have no optimizer and cannot be resumed; "
            f"start another run from them, with train.init_from={old.directory} and another `name`"
        )
    config = old.config(overrides)
    _refuse_other_length(old, config.train.epochs)
    return _train_and_evaluate(old, config, devices, observer, profile, resumes=True)


def _refuse_other_length(run: Run, num_epochs: int) -> None:
    """Raise a UserError where a run is to have fewer epochs, or more before all of them are trained."""
    config = run.config().train
    which = f"`overrides={MORE_EPOCHS}={num_epochs}`: {run.directory} has"
    another = f"start another run with train.init_from={run.directory} and another `name`"
    if num_epochs < config.epochs:
        raise UserError(f"{which} {config.epochs}; expected more, or {another}")
    if num_epochs > config.epochs and (done := len(metrics := trained_history(run))) < config.epochs:
        from asr.training.optimization.schedule import stops_early

        if stops_early([epoch.dev_error for epoch in metrics], config.early_stopping_epochs):
            raise UserError(f"{which} stopped early, after epoch {done}; to train on, {another}")
        raise UserError(
            f"{which} trained {done} of {config.epochs} epochs, whose learning rates depend on their number; "
            "finish it (`resume`), then train on"
        )


def run_directory(config: Config, name: str) -> Path:
    """Return the directory of the run with this name.

    Raises:
        UserError: the name is a path or empty.
    """
    if Path(name).name != name or name in ("", ".."):
        raise UserError(f"`name={name}`: expected a name, not a path; train.runs_dir sets the folder")
    refuse_address(path_of(config.train.runs_dir), "train.runs_dir")
    return Path(config.train.runs_dir) / name


def _train_and_evaluate(
    run: Run,
    config: Config,
    devices: Devices,
    observer: TrainingObserver | None,
    profile: bool,
    resumes: bool,
) -> Trained:
    """Train what is left of a run, and evaluate its chosen epoch."""
    observer = observer or TrainingObserver()
    command = resume_command(run.directory, devices)
    engine = start_engine(devices, config.train.cpu_towers)
    from asr.report.training_page import TrainingPage
    from asr.training.final_evaluation import refuse_language_model, train_run_language_model
    from asr.training.stages import place_model
    from asr.training.trainer import Trainer, TrainingSetup

    # after the engine has started: that of several workers sets a signal handler of its own
    with stop_signals(observer.on_stop_requested) as stop, _lost_workers_as_user_errors(engine, command):
        # nothing is written into the run's directory until all of this is known to work
        callbacks = _load_callbacks(config)
        if config.train.init_from and not resumes:
            Run.open(config.train.init_from).chosen_checkpoint()  # before a corpus is prepared
        config, vocabulary = _read_labels(run, config, engine, observer, resumes)
        refuse_language_model(config, vocabulary)
        model = make_model(config, vocabulary, engine)
        starts_from_other = bool(config.train.init_from) and not (resumes and run.checkpoints())
        if starts_from_other:
            _load_weights(config, model, vocabulary, engine.is_chief)
        data = _read_data(config, vocabulary, model, engine, observer)
        placed = place_model(engine, model, data.train.utterances, config.train.batch_clips_s, run)
        setup = TrainingSetup(config, vocabulary, model, data.train, data.dev, callbacks, placed, profile)
        if starts_from_other:
            setup = _with_start(setup, engine, stop)
        # another process may have made a run of this name meanwhile
        refuse = functools.partial(run.refuse_existing, run.directory) if not resumes else None
        if engine.is_chief:
            if refuse is not None:
                refuse()
            train_run_language_model(run, config, vocabulary, observer.on_work)
        tracked = track_state(run.directory, command, engine.is_chief, refuse=refuse)
        with _resume_hint_of_interrupts(run, command), tracked:
            _start_run(run, setup, data, engine, observer, resumes)
            page = TrainingPage(run, config, vocabulary.token_name, command) if engine.is_chief else None
            trainer = Trainer(engine, setup, run, stop, observer, page)
            if resumes:
                trainer.resume()
                if engine.is_chief and run.config() != setup.config:
                    run.write_config(setup.config)  # with the settings that were changed
            with _resume_hint_of_errors(run, command), page or contextlib.nullcontext():
                trainer.train()
                return _evaluate(trainer, data, observer) if engine.is_chief else Trained(run)


def _load_callbacks(config: Config) -> list[Any]:
    """Return the user's callbacks, and refuse settings that contradict each other."""
    from asr.model.networks import refuse_contradictions
    from asr.training.monitoring.callbacks import load_callbacks, refuse_rate_setters

    callbacks = load_callbacks(config.train.callbacks)
    refuse_rate_setters(callbacks, config.train)
    refuse_contradictions(config.model)
    return callbacks


def _read_labels(
    run: Run, config: Config, engine: Engine, observer: TrainingObserver, resumes: bool
) -> tuple[Config, Vocabulary]:
    """Return the configuration with its manifests, which are prepared if need be, and their vocabulary."""
    from asr.training.data import make_vocabulary, with_manifests
    from asr.training.final_evaluation import refuse_final_files

    if resumes:
        return config, run.vocabulary()
    refuse_final_files(config)
    Run.refuse_existing(run.directory)  # the chief creates it after all workers have passed here
    config = _chief_first(engine, lambda: with_manifests(config, observer.on_work))
    return config, make_vocabulary(config)


def _read_data(
    config: Config, vocabulary: Vocabulary, model: AcousticModel, engine: Engine, observer: TrainingObserver
) -> _Data:
    from asr.evaluation.data import evaluation_data
    from asr.training.data import training_data

    worker = engine.worker, engine.num_workers
    train_data, left_out = training_data(config, vocabulary, model, observer.on_work, *worker)
    dev_data, _ = evaluation_data(path_of(config.data.dev), vocabulary, observer.on_work)
    _expect_one_that_fits(dev_data.utterances, config.data.dev, vocabulary, model)
    test_data: Dataset | None = None
    if config.data.test and path_of(config.data.test).resolve() == path_of(config.data.dev).resolve():
        test_data = dev_data  # nothing is checked or reported twice
    elif config.data.test:
        test_data, _ = evaluation_data(path_of(config.data.test), vocabulary, observer.on_work)
    more = [
        evaluation_data(manifest, vocabulary, observer.on_work)[0]
        for manifest in config.data.more_test_manifests
    ]
    return _Data(train_data, dev_data, test_data, more, left_out)


def _expect_one_that_fits(
    utterances: Iterable[Utterance], manifest: str, vocabulary: Vocabulary, model: AcousticModel
) -> None:
    """Raise a UserError if each label has more tokens than its recording has frames: there is no loss."""
    labels = ((one.duration_s * SAMPLE_RATE_HZ, vocabulary.encode_known(one.tokens)) for one in utterances)
    if not any(model.fits(round(num_samples), ids) for num_samples, ids in labels):
        raise UserError(
            f"{manifest}: each label has more tokens than its recording has frames; `asr doctor` lists them"
        )


def _start_run(
    run: Run, setup: TrainingSetup, data: _Data, engine: Engine, observer: TrainingObserver, resumes: bool
) -> None:
    """Create the directory of a new run, and report what is trained."""
    from asr.training.data import warn_of_shared_sentences

    if not engine.is_chief:
        which = f"worker {engine.worker} of {engine.num_workers}"
        logger.info("%s: worker 0 reports the progress of training", which)
        return
    observer.on_start(_training_start(run, setup, data, engine))
    others = {setup.config.data.dev: data.dev.utterances}
    if data.test not in (None, data.dev):
        assert data.test is not None
        others[setup.config.data.test] = data.test.utterances
    warn_of_shared_sentences(data.train.utterances, others)
    if not resumes:
        run.write_token_counts(data.train.utterances)
        Run.create(run.directory, setup.config, setup.vocabulary)
    elif history := trained_history(run):
        run.write_metrics(history)  # which a killed process may not have done
    run.write_left_out(data.left_out)


def _training_start(run: Run, setup: TrainingSetup, data: _Data, engine: Engine) -> TrainingStart:
    return TrainingStart(
        directory=run.directory,
        config=setup.config,
        num_parameters=setup.model.count_params(),
        num_tokens=len(setup.vocabulary) - 1,
        train_s=data.train.duration_s,
        num_train=len(data.train.utterances),
        num_dev=len(data.dev.utterances),
        engine=engine.name,
        devices=tuple(engine.devices),
        num_devices=engine.num_devices,
        num_workers=engine.num_workers,
        num_stages=engine.num_stages,
        token=setup.vocabulary.token_name,
    )


def _evaluate(trainer: Trainer, data: _Data, observer: TrainingObserver) -> Trained:
    """Evaluate the chosen epoch on the test sets, or on dev where there is none, and write the reports."""
    from asr.training.final_evaluation import evaluate_test_sets

    run = trainer.run
    stages = [stage.layers for stage in read_stages(run.directory)]
    devices = ModelDevices.of_engine(trainer.engine, stages)
    if trainer.page is not None:
        trainer.page.evaluating()
    tested, *more = evaluate_test_sets(trainer, devices, data.test or data.dev, data.more, observer.on_work)
    _make_graph(run)
    return Trained(run, *tested, more)


def _make_graph(run: Run) -> None:
    """Make the graph by which CPUs recognize, so that the first recognition need not."""
    from asr.runs.chosen_model import cpu_runner

    try:
        cpu_runner(run, run.vocabulary())
    except Exception as error:  # nothing of the training is lost
        logger.warning("%s: the graph for inference fails now, and is made later: %s", run.directory, error)


@contextlib.contextmanager
def _resume_hint_of_interrupts(run: Run, command: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(_resume_hint(run, command))
        raise


@contextlib.contextmanager
def _resume_hint_of_errors(run: Run, command: str) -> Iterator[None]:
    from asr.training.trainer import DivergedError

    try:
        yield
    except DivergedError:
        raise
    except UserError as error:
        raise UserError(f"{error}\n{_resume_hint(run, command)}") from error  # the state has the cause alone


def _resume_hint(run: Run, command: str) -> str:
    """Return what is saved, and the command that resumes the run."""
    if not run.exists:
        return f"restore the run's directory, then resume with\n    {command}"
    saved = run.checkpoints()
    return f"{saved[-1] if saved else 'nothing'} is saved; resume with\n    {command}"


def _load_weights(config: Config, model: AcousticModel, vocabulary: Vocabulary, is_chief: bool) -> None:
    """Load the matching weights of another run into a new model, and log which do not match."""
    from asr.runs.checkpoint import read_checkpoint
    from asr.training.fine_tuning import differing_features, load_matching

    other = Run.open(config.train.init_from)
    path = other.chosen_checkpoint()
    loaded = load_matching(model, vocabulary, read_checkpoint(path).decoding_weights, other.vocabulary())
    if is_chief:
        logger.info("\n".join([f"weights of {path}:", *(f"  {line}" for line in loaded.lines())]))
        if differing := differing_features(config, other.config().features):
            logger.warning(
                "%s when %s was trained, whose weights know no other features; leave out what differs",
                " and ".join(differing),
                config.train.init_from,
            )


def _with_start(setup: TrainingSetup, engine: Engine, stop: StopRequest) -> TrainingSetup:
    """Return the setup with the dev error of another run's weights, and the learning rate that suits them."""
    from asr.training.fine_tuning import recipe_line, with_tuning_rate
    from asr.training.trainer import make_evaluator

    if engine.is_chief:
        num_dev = counted(len(setup.dev_data.utterances), "utterance")
        logger.info("evaluating these weights on %s of dev", num_dev)
    evaluator = make_evaluator(engine, setup)
    evaluation = evaluator.evaluate(setup.dev_data, stop)
    if not math.isfinite(evaluation.loss):
        raise UserError(
            f"train.init_from={setup.config.train.init_from}: with these weights the dev loss is "
            f"{evaluation.loss}; they have diverged or are damaged; start from another run"
        )
    error = engine.value_of_chief(evaluation.edits.rate)  # on another card, another syllable may be wrong
    config = with_tuning_rate(setup.config, error)
    if engine.is_chief:
        logger.info("before training, %s of dev is wrong; no epoch with more is chosen", percent(error))
        logger.info("%s", recipe_line(config, error))
    return dataclasses.replace(setup, config=config, start_error=error, evaluator=evaluator)


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
