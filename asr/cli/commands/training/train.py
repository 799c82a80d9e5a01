"""`asr train` trains a model, evaluates it and writes its report."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from typing import TYPE_CHECKING, Any

from asr.cli.commands import add_override_argument
from asr.cli.options.devices import add_device_arguments, add_engine_arguments, chosen_devices

if TYPE_CHECKING:
    from asr.training.monitoring.observer import TrainingObserver
    from asr.training.train import Trained


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "config",
        nargs="?",
        default="demo",
        help="a TOML file, or the name of one in configs/, such as aishell1, which downloads its corpus; "
        "with --resume, also a run directory (default: demo)",
    )
    parser.add_argument("--name", help="name of the run in runs/ (default: the configuration's name)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the run of this name exactly where it stopped; with --set train.epochs=N, train a "
        "finished run for more epochs",
    )
    add_override_argument(parser, "train.epochs=60 model.size=m")
    parser.add_argument(
        "--profile", action="store_true", help="profile a few steps on the devices, for TensorBoard"
    )
    add_device_arguments(parser)
    add_engine_arguments(parser)


def train_command(arguments: argparse.Namespace) -> int:
    """Train, evaluate on the test set, write the report, and return the exit status."""
    from asr.cli.progress_bars import ProgressBars
    from asr.cli.training_display import TrainingDisplay

    with ProgressBars() as bars:
        trained = _train(arguments, TrainingDisplay(bars))
    if trained.evaluation is not None:
        _print_result(trained)
    return 0


def _train(arguments: argparse.Namespace, observer: TrainingObserver) -> Trained:
    from asr.base.config import find_config, load_config
    from asr.base.system.storage.address import path_of
    from asr.training.train import resume, run_directory, train

    how: dict[str, Any] = {"observer": observer, "profile": arguments.profile}
    devices = chosen_devices(arguments)
    if arguments.resume and arguments.name is None and (path_of(arguments.config) / "config.toml").exists():
        return resume(arguments.config, arguments.overrides, devices, **how)
    path = find_config(arguments.config)
    name = path.stem if arguments.name is None else arguments.name
    config = load_config(path, arguments.overrides)
    if not arguments.resume:
        return train(config, name, devices, **how)
    return resume(run_directory(config, name), arguments.overrides, devices, **how)


def _print_result(trained: Trained) -> None:
    """Print the error rates, and the command that transcribes with the model."""
    from asr.cli.console import NOTE_COLUMNS, print_evaluation, print_report_files
    from asr.report.files import advice_about
    from asr.runs.progress import describe_choice
    from asr.runs.resume_command import asr_command

    run, evaluated, files, more = trained
    assert evaluated is not None
    assert files is not None
    print(f"chosen: {describe_choice(run.metrics(), run.start_error())}")
    print_evaluation(evaluated.record, evaluated.scores)
    for line in advice_about(evaluated):
        text, _, command = line.partition("\n")
        print("\n" + textwrap.fill(text, NOTE_COLUMNS, break_on_hyphens=False))
        if command:
            print(f"\n    {command}")
    print_report_files(files)
    for other in more:
        print_evaluation(other.evaluation.record, other.evaluation.scores)
        print_report_files(other.files)
    sample = evaluated.record.utterances[0].audio_path
    print("\nTranscribe any recording with the trained model:\n")
    print(f"    {asr_command()} transcribe {shlex.quote(str(run.directory))} {shlex.quote(sample)}")
