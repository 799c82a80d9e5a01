"""`asr train`: train a model, evaluate it, write its report."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from asr.base.types import UserError
from asr.cli.commands import add_override_argument
from asr.cli.commands.evaluate import evaluation_data, report
from asr.cli.options.devices import add_device_arguments, add_engine_argument, device_options, start_engine
from asr.cli.progress_bars import ProgressBars
from asr.model.devices import device_errors_as_user_errors

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from asr.base.config import Config
    from asr.base.interrupt import StopRequest
    from asr.base.vocabulary import Vocabulary
    from asr.model.acoustic_model import AcousticModel
    from asr.runs.run import Run
    from asr.training.trainer import Trainer
    from data_pipeline.dataset import Dataset
    from multigpu.engines import Engine


SET_ON_RESUME = (
    "train.runs_dir",
    "train.accumulate",
    "train.max_skipped",
    "train.checkpoint_s",
    "train.keep_last",
    "train.keep_best",
    "train.tensorboard_utterances",
)


class Parts(NamedTuple):
    """What there is before the first step."""

    config: Config
    vocabulary: Vocabulary
    model: AcousticModel
    train_data: Dataset
    dev_data: Dataset
    test_data: Dataset
    left_out: list[str]  # of the training manifest, and why
    callbacks: list[keras.callbacks.Callback]


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "config",
        nargs="?",
        default="demo",
        help="a TOML file, or the name of one in configs/ (default: demo)",
    )
    parser.add_argument("--name", help="of the run in runs/ (default: the configuration's name)")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run of this name, exactly where it stopped"
    )
    add_override_argument(parser, "train.epochs=60")
    parser.add_argument(
        "--profile", action="store_true", help="record what a few steps do on the device, for TensorBoard"
    )
    add_device_arguments(parser)
    add_engine_argument(parser)


def train_command(arguments: argparse.Namespace) -> int:
    """Train, evaluate on the test set, write the report; returns the exit status."""
    from asr.base.config import find_config
    from asr.base.interrupt import stop_signals
    from asr.runs.state import tracked

    config_path = find_config(arguments.config)
    name = config_path.stem if arguments.name is None else arguments.name
    if Path(name).name != name or name in ("", ".."):
        raise UserError(f"--name {name}: expected a name, not a path; folders are chosen by train.runs_dir")
    if arguments.resume:
        run, config = _old_run(config_path, name, arguments.overrides)
    else:
        run, config = _new_run(config_path, name, arguments.overrides, arguments.engine == "multi-worker")
    command = _resume_command(arguments, name, config)
    engine = start_engine(arguments)
    # signals after the engine: that of several workers has a handler of its own
    with stop_signals() as stop, _lost_workers_told(engine, command):
        parts = _prepare(engine, run, config, arguments.resume)
        trainer = None
        try:
            with tracked(run.directory, command, engine.is_chief):
                trainer = _make_trainer(engine, run, parts, stop, arguments)
                trainer.train()
                if engine.is_chief:
                    _finish(trainer, parts.test_data)
        except KeyboardInterrupt:
            with contextlib.suppress(OSError):  # the same Ctrl-C may have ended who reads it
                print(f"\n{_way_on(run, command)}", file=sys.stderr, flush=True)
            raise
        except UserError as error:
            if trainer is None:
                raise
            raise UserError(f"{error}\n{_way_on(run, command)}") from None
    return 0


def _new_run(path: Path, name: str, overrides: Sequence[str], with_others: bool) -> tuple[Run, Config]:
    """A run still to be made; where other processes take part, one of them may have made it by now."""
    from asr.base.config import load_config
    from asr.runs.run import Run

    config = load_config(path, overrides)
    directory = Path(config.train.runs_dir) / name
    if directory.parent.exists() and not directory.parent.is_dir():
        raise UserError(f"train.runs_dir: {directory.parent} is a file; name a folder")
    if not with_others:
        Run.refuse_existing(directory)
    return Run(directory), config


def _old_run(path: Path, name: str, overrides: Sequence[str]) -> tuple[Run, Config]:
    """A run to go on with; of its settings, those may be changed that hardly change what it learns.

    `accumulate` does by batch statistics: it is the way on where memory does not suffice.
    """
    from asr.base.config import load_config
    from asr.runs.average import read_origin
    from asr.runs.run import Run

    for override in overrides:
        if override.partition("=")[0].strip() not in SET_ON_RESUME:
            raise UserError(
                f"--set {override}: a resumed run keeps its settings, but for {', '.join(SET_ON_RESUME)}; "
                "start another one under --name NAME"
            )
    run = Run.open(Path(load_config(path, overrides).train.runs_dir) / name)
    if read_origin(run.directory):
        raise UserError(
            f"{run.directory}: an average, which has no optimiser; train on from it in another run, by "
            f"--set train.init_from={run.directory} --name NAME"
        )
    return run, load_config(run.directory / "config.toml", overrides)


def _resume_command(arguments: argparse.Namespace, name: str, config: Config) -> str:
    """What to type to go on with a run."""
    from asr.runs.resume_command import resume_command

    runs_dir = config.train.runs_dir if arguments.overrides else ""
    return resume_command(arguments.config, name, runs_dir, device_options(arguments))


def _prepare(engine: Engine, run: Run, config: Config, resume: bool) -> Parts:
    """What there is to do before the run is made, or touched."""
    from asr.model.acoustic_model import make_acoustic_model
    from asr.runs.run import Run
    from asr.training.callbacks import load_callbacks, refuse_ruled

    callbacks = load_callbacks(config.train.callbacks)
    refuse_ruled(callbacks, config.train)
    if resume:
        vocabulary = run.vocabulary()
    else:
        Run.refuse_existing(run.directory)  # the chief makes it when all workers have come by here
        config = _chief_first(engine, lambda: with_manifests(config))
        vocabulary = make_vocabulary(config)
    with engine.scope():
        model = make_acoustic_model(config, vocabulary, for_training=True)
    with device_errors_as_user_errors("train.accumulate"):
        engine.refuse_parts(model, config.train.accumulate)
    if config.train.init_from and not (resume and run.checkpoints()):
        _begin_with(config.train.init_from, model, vocabulary, engine.is_chief)
    train_data, left_out = training_data(config, vocabulary, model)
    dev_data, _ = evaluation_data(Path(config.data.dev), vocabulary)
    test_data, _ = evaluation_data(Path(config.data.test), vocabulary)
    return Parts(config, vocabulary, model, train_data, dev_data, test_data, left_out, callbacks)


def _make_trainer(
    engine: Engine, run: Run, parts: Parts, stop: StopRequest, arguments: argparse.Namespace
) -> Trainer:
    """The trainer of a run that is made, or resumed, here."""
    from asr.cli import console
    from asr.runs.run import Run
    from asr.training.trainer import Trainer

    config, vocabulary, train_data = parts.config, parts.vocabulary, parts.train_data
    if engine.is_chief:
        console.tell_start(
            run.directory, config, parts.model, train_data, len(parts.dev_data.utterances), engine
        )
        _tell_shared_sentences(
            train_data, {config.data.dev: parts.dev_data, config.data.test: parts.test_data}
        )
        if not arguments.resume:
            run.write_token_counts(train_data.utterances)
            run = Run.create(run.directory, config, vocabulary)
        run.write_left_out(parts.left_out)
    else:
        print(f"worker {engine.worker} of {engine.num_workers}: worker 0 tells how training goes")
    trainer = Trainer(
        engine,
        parts.model,
        config,
        vocabulary,
        train_data,
        parts.dev_data,
        run,
        stop=stop,
        callbacks=parts.callbacks,
        profile=arguments.profile,
    )
    if arguments.resume:
        trainer.resume()
    return trainer


def _begin_with(run_path: str, model: AcousticModel, vocabulary: Vocabulary, is_chief: bool) -> None:
    """Give a new model the weights of another run that fit, and tell which do not."""
    from asr.runs.checkpoint import read_checkpoint
    from asr.runs.run import Run
    from asr.training.fine_tuning import load_matching

    other = Run.open(Path(run_path))
    path = other.best_checkpoint()
    loaded = load_matching(model, vocabulary, read_checkpoint(path).decoding_weights, other.vocabulary())
    if is_chief:
        print(f"beginning with {path}:")
        for line in loaded.lines():
            print(f"  {line}")


def _way_on(run: Run, command: str) -> str:
    """Where the run can go on, and how."""
    if not run.is_there:
        return f"once its directory is back, go on by\n    {command}"
    saved = run.checkpoints()
    return f"{saved[-1] if saved else 'nothing'} is saved; go on by\n    {command}"


def _chief_first(engine: Engine, prepare: Callable[[], Config]) -> Config:
    """What `prepare` returns; of several processes the chief prepares, and the others find it prepared."""
    if not engine.is_chief:
        engine.wait_for_all()
    prepared = prepare()
    if engine.is_chief:
        engine.wait_for_all()
    return prepared


@contextlib.contextmanager
def _lost_workers_told(engine: Engine, command: str) -> Iterator[None]:
    """One line instead of TensorFlow's stack where another process is gone."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if engine.num_workers == 1:
            raise
        gone = isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError)
        what = (
            "another worker is gone; its own output tells why"
            if gone
            else "the workers cannot go on together"
        )
        raise UserError(
            f"{what} ({_cause(error)}). The epochs whose lines the chief printed are saved: start every "
            f"worker again, as before, by\n    {command}"
        ) from None


def _cause(error: tf.errors.OpError) -> str:
    """The line of TensorFlow's message that says it."""
    lines = [line.strip() for line in str(error.message).splitlines()]
    skipped = ("[[", "Detected at", "File ", "Graph execution error", "The error could be")
    said = [line for line in lines if line and not line.startswith(skipped)]
    return said[-1] if said else type(error).__name__


def _finish(trainer: Trainer, test_data: Dataset) -> None:
    """Evaluate the best model, and say how to use it."""
    import tensorflow as tf

    from asr.evaluation.evaluator import Evaluator
    from asr.model.listener import Listener
    from asr.recognition.recognizer import Recognizer
    from asr.runs.resume_command import asr_command

    run, manifest = trainer.run, Path(trainer.config.data.test)
    with tf.device(trainer.engine.devices[0]):
        best = Recognizer.load(run.directory)
    evaluator = Evaluator(Listener(best.model, trainer.engine.spread), best.vocabulary, best.decoder)
    evaluation = evaluator.evaluate(test_data, trainer.stop)
    trainer.stop.raise_if_requested()
    report(evaluation, run, manifest, run.report_path)
    sample = evaluation.utterances[0].audio_path
    print("\nTranscribe any recording with what was trained:\n")
    print(f"    {asr_command()} transcribe {shlex.quote(str(run.directory))} {shlex.quote(sample)}")


def with_manifests(config: Config) -> Config:
    """The configuration with a manifest for each split, its corpus prepared if need be."""
    from data_pipeline.prepare import prepare_corpus
    from data_pipeline.types import SPLITS

    given = {split: getattr(config.data, split) for split in SPLITS}
    missing = [split for split, path in given.items() if not path]
    if missing and not config.data.corpus:
        raise UserError(
            f"data.{missing[0]}: no manifest; name one by --set data.{missing[0]}=FILE.jsonl, "
            "or a corpus by data.corpus"
        )
    if missing:
        target = Path(config.data.prepared_dir) / config.data.corpus
        with ProgressBars() as bars:
            corpus, source = config.data.corpus, config.data.source
            prepared = prepare_corpus(corpus, source, target, config.data.units or None, on_progress=bars)
        for line in prepared.lines():
            print(line)
        for split in missing:
            if split not in prepared.manifests:
                raise UserError(
                    f"{target}: nothing is there for {split}; bring that part of {config.data.corpus}, or "
                    f"name another manifest by --set data.{split}=FILE.jsonl"
                )
            given[split] = str(prepared.manifests[split])
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **given))


def _tell_shared_sentences(train_data: Dataset, others: dict[str, Dataset]) -> None:
    """Say where error rates will flatter."""
    from data_pipeline.doctor.quick import shared_sentences

    for manifest, data in others.items():
        if count := shared_sentences(train_data.utterances, data.utterances):
            print(
                f"{manifest}: {count:,} of {len(data.utterances):,} utterances say what one in the training "
                "set says: their error rate flatters; `asr doctor` names them"
            )


def make_vocabulary(config: Config) -> Vocabulary:
    """The output units that `data.vocabulary` asks for."""
    from asr.base.pinyin import mandarin_syllables
    from asr.base.vocabulary import Vocabulary
    from data_pipeline.manifest import read_manifest

    if config.data.vocabulary == "train":
        return Vocabulary.of_utterances(read_manifest(Path(config.data.train)))
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables())
    return Vocabulary.load(Path(config.data.vocabulary))


def training_data(config: Config, vocabulary: Vocabulary, model: AcousticModel) -> tuple[Dataset, list[str]]:
    """What can be trained on of the training manifest, and why the rest cannot."""
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor.quick import check_utterances, log_left_out
    from data_pipeline.manifest import read_manifest

    with ProgressBars() as bars:
        augmenter = Augmenter.load(config.augment, config.train.seed, on_progress=bars)
    manifest = Path(config.data.train)
    utterances = read_manifest(manifest)
    with ProgressBars() as bars:
        sound, problems = check_utterances(utterances, vocabulary, model.fits, on_progress=bars)
    log_left_out(problems, len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no utterance can be trained on; the reasons stand above")
    return Dataset(sound, vocabulary, config.train.batch_s, augmenter), problems
