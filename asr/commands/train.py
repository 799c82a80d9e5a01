"""`asr train`: train a model, evaluate it, write its report."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.commands.evaluate import evaluation_data, report
from asr.quiet import import_tensorflow
from asr.types import UserError

if TYPE_CHECKING:
    from asr.acoustic import AcousticModel
    from asr.config import Config
    from asr.run import Run
    from asr.vocabulary import Vocabulary
    from data_pipeline.dataset import Dataset


def train_command(arguments: argparse.Namespace) -> int:
    """Train, evaluate on the test set, write the report; returns the exit status."""
    from asr.config import find_config
    from asr.run import Run

    config_path = find_config(arguments.config)
    name = arguments.name or config_path.stem
    if Path(name).name != name:
        raise UserError(f"--name {name}: expected a name, not a path; folders are chosen by train.runs_dir")
    if arguments.resume:
        run, config, vocabulary = _old_run(config_path, name, arguments.overrides)
    else:
        run, config, vocabulary = _new_run(config_path, name, arguments.overrides)

    import_tensorflow()
    from asr import console
    from asr.acoustic import make_acoustic_model
    from asr.trainer import Trainer

    model = make_acoustic_model(config, vocabulary)
    train_data, left_out = _training_data(Path(config.data.train), vocabulary, model, config.train.batch_s)
    dev_data, _ = evaluation_data(Path(config.data.dev), vocabulary)
    test_data, _ = evaluation_data(Path(config.data.test), vocabulary)
    console.tell_start(run.directory, config, model, train_data, len(dev_data.utterances))
    if not arguments.resume:
        run = Run.create(run.directory, config, vocabulary)
    run.write_left_out(left_out)
    trainer = Trainer(model, config, vocabulary, train_data, dev_data, run)
    if arguments.resume:
        trainer.resume()
    try:
        trainer.train()
    except KeyboardInterrupt:
        done = trainer.progress.epochs_done
        command = [*shlex.split(console.asr_command()), "train", arguments.config, "--name", name, "--resume"]
        command += ["--set", f"train.runs_dir={config.train.runs_dir}"] * bool(arguments.overrides)
        print(f"\n{done} epochs are saved; go on by\n    {shlex.join(command)}", file=sys.stderr)
        raise
    _finish(run, vocabulary, test_data, Path(config.data.test))
    return 0


def _new_run(path: Path, name: str, overrides: Sequence[str]) -> tuple[Run, Config, Vocabulary]:
    """A run still to be made, its corpus prepared."""
    from asr.config import load_config
    from asr.run import Run

    config = load_config(path, overrides)
    directory = Path(config.train.runs_dir) / name
    Run.refuse_existing(directory)
    config = _with_manifests(config)
    return Run(directory), config, _make_vocabulary(config)


def _old_run(path: Path, name: str, overrides: Sequence[str]) -> tuple[Run, Config, Vocabulary]:
    """A run to go on with; `train.runs_dir` alone may be set, to find it."""
    from asr.config import load_config
    from asr.run import Run

    if any(not override.startswith("train.runs_dir=") for override in overrides):
        raise UserError("--set: a resumed run keeps its settings; start another one under --name NAME")
    run = Run.open(Path(load_config(path, overrides).train.runs_dir) / name)
    return run, run.config(), run.vocabulary()


def _finish(run: Run, vocabulary: Vocabulary, test_data: Dataset, manifest: Path) -> None:
    """Evaluate the best model, and say how to use it."""
    from asr import console
    from asr.evaluate import Evaluator
    from asr.recognizer import Recognizer

    best = Recognizer.load(run.directory)
    evaluation = Evaluator(best.model, vocabulary).evaluate(test_data)
    report(evaluation, run, manifest, run.report_path)
    sample = evaluation.utterances[0].audio_path
    print("\nTranscribe any recording with what was trained:\n")
    print(f"    {console.asr_command()} transcribe {shlex.quote(str(run.directory))} {shlex.quote(sample)}")


def _with_manifests(config: Config) -> Config:
    """The configuration with a manifest for each split, its corpus prepared if need be."""
    from data_pipeline.corpora import SPLITS, prepare_corpus

    given = {split: getattr(config.data, split) for split in SPLITS}
    missing = [split for split, path in given.items() if not path]
    if missing and not config.data.corpus:
        raise UserError(
            f"data.{missing[0]}: no manifest; name one by --set data.{missing[0]}=FILE.jsonl, "
            "or a corpus by data.corpus"
        )
    if missing:
        target = Path(config.data.prepared_dir) / config.data.corpus
        prepared = prepare_corpus(config.data.corpus, config.data.source, target)
        given.update({split: str(prepared[split]) for split in missing})
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **given))


def _make_vocabulary(config: Config) -> Vocabulary:
    from asr.vocabulary import Vocabulary, mandarin_syllables
    from data_pipeline.manifest import read_manifest

    if config.data.vocabulary == "train":
        return Vocabulary.of_utterances(read_manifest(Path(config.data.train)))
    if config.data.vocabulary == "mandarin":
        return Vocabulary(mandarin_syllables())
    return Vocabulary.load(Path(config.data.vocabulary))


def _training_data(
    manifest: Path, vocabulary: Vocabulary, model: AcousticModel, batch_s: float
) -> tuple[Dataset, list[str]]:
    """What can be trained on of a manifest, and why the rest cannot."""
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor import check_utterances, tell_left_out
    from data_pipeline.manifest import read_manifest

    utterances = read_manifest(manifest)
    sound, problems = check_utterances(utterances, vocabulary, model.fits)
    tell_left_out(problems, len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no utterance can be trained on; the reasons stand above")
    return Dataset(sound, vocabulary, batch_s), problems
