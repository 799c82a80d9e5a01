"""The command line. `asr train` and `python train.py` are the same; so are `asr` and `python -m asr`."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from signal import SIGINT
from typing import NamedTuple

from asr.base.interrupt import Interrupted
from asr.base.types import UserError
from asr.base.version import __version__
from asr.cli.commands import EXIT_MISTAKE, EXIT_NO_READER, EXIT_SIGNAL
from asr.cli.commands.align import add_align_arguments, align_command
from asr.cli.commands.augment import add_augment_arguments, augment_command
from asr.cli.commands.average import add_average_arguments, average_command
from asr.cli.commands.compare import add_compare_arguments, compare_command
from asr.cli.commands.doctor import add_doctor_arguments, doctor_command
from asr.cli.commands.download import add_download_arguments, download_command
from asr.cli.commands.evaluate import add_evaluate_arguments, evaluate_command
from asr.cli.commands.inspect import add_inspect_arguments, inspect_command
from asr.cli.commands.labels import add_labels_arguments, labels_command
from asr.cli.commands.lm import add_lm_arguments, lm_command
from asr.cli.commands.pack import add_pack_arguments, pack_command
from asr.cli.commands.prepare import add_prepare_arguments, prepare_command
from asr.cli.commands.runs import add_runs_arguments, runs_command
from asr.cli.commands.synthesize import add_synthesize_arguments, synthesize_command
from asr.cli.commands.train import add_train_arguments, train_command
from asr.cli.commands.transcribe import add_transcribe_arguments, transcribe_command
from asr.cli.commands.tune_batch import add_tune_batch_arguments, tune_batch_command
from asr.cli.commands.tune_decoder import add_tune_decoder_arguments, tune_decoder_command
from asr.cli.errors import as_typed
from asr.cli.logs import add_log_arguments, start_logging


class Command(NamedTuple):
    """One of the program's commands."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS = (
    Command("train", "train a model, evaluate it, write its report", add_train_arguments, train_command),
    Command(
        "tune-batch",
        "find the largest batch that the devices hold, and the fastest",
        add_tune_batch_arguments,
        tune_batch_command,
    ),
    Command("evaluate", "measure a trained model on a manifest", add_evaluate_arguments, evaluate_command),
    Command(
        "tune-decoder",
        "weigh a language model on a dev set",
        add_tune_decoder_arguments,
        tune_decoder_command,
    ),
    Command("transcribe", "turn recordings into text", add_transcribe_arguments, transcribe_command),
    Command("align", "find when each syllable of a known text is said", add_align_arguments, align_command),
    Command(
        "lm", "train language models from text, look into them, measure them", add_lm_arguments, lm_command
    ),
    Command("runs", "list runs, their state, and how to go on", add_runs_arguments, runs_command),
    Command(
        "compare", "put settings and curves of runs side by side", add_compare_arguments, compare_command
    ),
    Command(
        "average", "average a run's best checkpoints into one model", add_average_arguments, average_command
    ),
    Command(
        "download",
        "fetch and unpack a corpus; again, to go on after an interruption",
        add_download_arguments,
        download_command,
    ),
    Command(
        "prepare",
        "turn a corpus, or lists of your own, into manifests",
        add_prepare_arguments,
        prepare_command,
    ),
    Command(
        "doctor", "check recordings and labels before the first step", add_doctor_arguments, doctor_command
    ),
    Command("inspect", "show what manifests hold", add_inspect_arguments, inspect_command),
    Command("labels", "correct labels that a review has found wrong", add_labels_arguments, labels_command),
    Command("augment", "hear what training hears of a recording", add_augment_arguments, augment_command),
    Command("pack", "put recordings into a few large TFRecord files", add_pack_arguments, pack_command),
    Command(
        "synthesize",
        "make labelled robotic speech with espeak-ng",
        add_synthesize_arguments,
        synthesize_command,
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    arguments = _parser().parse_args(argv)
    start_logging(verbose=arguments.verbose, quiet=arguments.quiet)
    # tqdm reads it when it is imported: a progress bar is drawn seldom where each time makes a line of a log
    os.environ.setdefault("TQDM_MININTERVAL", "0.2" if sys.stderr.isatty() else "15")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without hanzi is no reason to stop
    try:
        status: int = arguments.run_command(arguments)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except UserError as error:
        print(f"error: {as_typed(str(error), arguments.parser)}", file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError):  # the same Ctrl-C may have ended who reads it
            lines = ["", *getattr(interrupt, "__notes__", ()), "stopped"]
            print("\n".join(lines), file=sys.stderr, flush=True)
        return EXIT_SIGNAL + (interrupt.signal_number if isinstance(interrupt, Interrupted) else SIGINT)
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
    add_log_arguments(parser, default=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.help)
        command.add_arguments(subparser)
        add_log_arguments(subparser, default=argparse.SUPPRESS)
        subparser.set_defaults(run_command=command.run, parser=subparser)
    return parser
