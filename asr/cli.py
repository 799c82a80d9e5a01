"""The commands. `asr train` and `python train.py` are the same; so are `asr` and `python -m asr`.

TensorFlow is imported by the commands that need it, when they run: `--help` answers at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr import __version__
from asr.quiet import import_tensorflow
from asr.types import UserError

if TYPE_CHECKING:
    from asr.acoustic import AcousticModel
    from asr.config import Config
    from asr.evaluate import Evaluation
    from asr.run import Run
    from asr.vocabulary import Vocabulary
    from data_pipeline.dataset import Dataset

EXIT_MISTAKE, EXIT_INTERRUPTED, EXIT_NO_READER = 2, 130, 141
EVALUATION_BATCH_S = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    arguments = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without hanzi is no reason to stop
    try:
        status: int = arguments.run_command(arguments)
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # the reader of our output, such as `head`, has gone: there is no one to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_NO_READER
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_MISTAKE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asr", description="Train CTC speech recognition and use what was trained.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"asr {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    train = commands.add_parser("train", help="train a model, evaluate it, write its report")
    train.add_argument(
        "config",
        nargs="?",
        default="demo",
        help="a TOML file, or the name of one in configs/ (default: demo)",
    )
    train.add_argument("--name", help="of the run in runs/ (default: the configuration's name)")
    train.add_argument("--resume", action="store_true", help="go on with the run of this name")
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="overrides",
        help="change one setting, such as train.epochs=60; may be repeated",
    )
    train.set_defaults(run_command=_train)

    evaluate = commands.add_parser("evaluate", help="measure a trained model on a manifest")
    evaluate.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    evaluate.add_argument("manifest", type=Path, help="JSON Lines, such as data/mandarin_demo/test.jsonl")
    evaluate.set_defaults(run_command=_evaluate)

    transcribe = commands.add_parser("transcribe", help="turn recordings into text")
    transcribe.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    transcribe.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="audio of any rate and container, a folder, or - for standard input",
    )
    transcribe.add_argument(
        "--format", choices=("text", "jsonl", "csv"), default="text", help="default: text"
    )
    transcribe.add_argument("--out", type=Path, help="write there instead of to standard output")
    transcribe.set_defaults(run_command=_transcribe)

    synthesize = commands.add_parser("synthesize", help="make labelled robotic speech with espeak-ng")
    synthesize.add_argument("out", type=Path, help="folder for the audio and its manifest")
    synthesize.add_argument("--num", type=int, default=1000, help="number of utterances (default: 1000)")
    synthesize.add_argument("--seed", type=int, default=1, help="another seed, other utterances (default: 1)")
    synthesize.set_defaults(run_command=_synthesize)
    return parser


def _train(arguments: argparse.Namespace) -> int:
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
    dev_data, _ = _evaluation_data(Path(config.data.dev), vocabulary)
    test_data, _ = _evaluation_data(Path(config.data.test), vocabulary)
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
    _report(evaluation, run, manifest, run.report_path)
    sample = evaluation.utterances[0].audio_path
    print("\nTranscribe any recording with what was trained:\n")
    print(f"    {console.asr_command()} transcribe {shlex.quote(str(run.directory))} {shlex.quote(sample)}")


def _evaluate(arguments: argparse.Namespace) -> int:
    from asr.run import Run

    run = Run.open(arguments.run)

    import_tensorflow()
    from asr.evaluate import Evaluator
    from asr.recognizer import Recognizer

    recognizer = Recognizer.load(arguments.run)
    data, num_left_out = _evaluation_data(arguments.manifest, recognizer.vocabulary)
    evaluation = Evaluator(recognizer.model, recognizer.vocabulary).evaluate(data)
    _report(evaluation, run, arguments.manifest, _report_path(run, arguments.manifest))
    return EXIT_MISTAKE if num_left_out else 0


def _transcribe(arguments: argparse.Namespace) -> int:
    from asr.transcripts import audio_files, open_writer

    sources = audio_files(arguments.files)
    if arguments.out and arguments.out.resolve() in {source.resolve() for source in sources}:
        raise UserError(
            f"--out {arguments.out}: one of the recordings; choose another file for the transcripts"
        )

    import_tensorflow()
    from asr.recognizer import Recognizer

    recognizer = Recognizer.load(arguments.run)
    num_failed = 0
    with open_writer(arguments.format, arguments.out, num_files=len(sources)) as writer:
        for source, result in zip(sources, recognizer.transcribe_files(sources), strict=True):
            if isinstance(result, UserError):
                num_failed += 1
                print(f"error: {result}", file=sys.stderr)
            writer.write(str(source), result)
    return EXIT_MISTAKE if num_failed else 0


def _synthesize(arguments: argparse.Namespace) -> int:
    from data_pipeline.synthesis import synthesize_corpus

    if arguments.num < 1 or arguments.seed < 0:
        raise UserError("--num and --seed: expected a number of utterances from 1, and a seed from 0")
    manifest = synthesize_corpus(arguments.out, num_utterances=arguments.num, seed=arguments.seed)
    print(f"{arguments.num} utterances: {manifest}")
    return 0


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


def _evaluation_data(manifest: Path, vocabulary: Vocabulary) -> tuple[Dataset, int]:
    """What can be heard of a manifest, and how many recordings cannot. Unknown labels count as errors."""
    from data_pipeline.dataset import Dataset
    from data_pipeline.doctor import check_audio, tell_left_out
    from data_pipeline.manifest import read_manifest

    utterances = read_manifest(manifest)
    problems = check_audio(utterances)
    sound = [u for u, problem in zip(utterances, problems, strict=True) if not problem]
    tell_left_out([problem for problem in problems if problem], len(utterances), str(manifest))
    if not sound:
        raise UserError(f"{manifest}: no recording can be read; the reasons stand above")
    if not any(utterance.tokens for utterance in sound):
        raise UserError(f"{manifest}: no utterance has tokens to compare with; give them labels")
    unknown = [u.id for u in sound if any(token not in vocabulary for token in u.tokens)]
    if unknown:
        print(
            f"{manifest}: {len(unknown)} utterances hold tokens that the model cannot write, "
            f"which count as errors: {', '.join(unknown[:3])}{', ...' if len(unknown) > 3 else ''}"
        )
    return Dataset(sound, vocabulary, EVALUATION_BATCH_S), len(utterances) - len(sound)


def _report_path(run: Run, manifest: Path) -> Path:
    """Named by manifest and folder: many a corpus has its `test.jsonl`."""
    return run.directory / f"report-{manifest.resolve().parent.name}-{manifest.stem}.html"


def _report(evaluation: Evaluation, run: Run, manifest: Path, path: Path) -> None:
    from asr import console
    from asr.config import dump_config
    from asr.report import write_report

    write_report(
        path,
        run_name=run.directory.name,
        set_name=manifest.stem,
        evaluation=evaluation,
        metrics=run.metrics(),
        config_toml=dump_config(run.config()),
    )
    console.tell_evaluation(evaluation, manifest)
    print(f"\nReport: {path}")
