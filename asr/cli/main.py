"""Parse the command line and run the command that it names.

`asr train` and `python train.py` are the same; so are `asr` and `python -m asr`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGINT
from typing import Any, NamedTuple

from asr.base.errors import UserError
from asr.base.system.interrupt import Interrupted, stop_signals
from asr.base.system.paths import path_on_disk
from asr.base.system.storage.address import path_of
from asr.base.version import __version__
from asr.cli.commands import EXIT_MISTAKE, EXIT_NO_READER, EXIT_SIGNAL
from asr.cli.commands.data.augment import add_augment_arguments, augment_command
from asr.cli.commands.data.doctor import add_doctor_arguments, doctor_command
from asr.cli.commands.data.download import add_download_arguments, download_command
from asr.cli.commands.data.inspect import add_inspect_arguments, inspect_command
from asr.cli.commands.data.labels import add_labels_arguments, labels_command
from asr.cli.commands.data.pack import add_pack_arguments, pack_command
from asr.cli.commands.data.prepare import add_prepare_arguments, prepare_command
from asr.cli.commands.data.record import add_record_arguments, record_command
from asr.cli.commands.data.synthesize import add_synthesize_arguments, synthesize_command
from asr.cli.commands.language.lm import add_lm_arguments, lm_command
from asr.cli.commands.speech.align import add_align_arguments, align_command
from asr.cli.commands.speech.label import add_label_arguments, label_command
from asr.cli.commands.speech.merge import add_merge_arguments, merge_command
from asr.cli.commands.speech.serve import add_serve_arguments, serve_command
from asr.cli.commands.speech.transcribe import add_transcribe_arguments, transcribe_command
from asr.cli.commands.training.average import add_average_arguments, average_command
from asr.cli.commands.training.compare import add_compare_arguments, compare_command
from asr.cli.commands.training.evaluate import add_evaluate_arguments, evaluate_command
from asr.cli.commands.training.export import add_export_arguments, export_command
from asr.cli.commands.training.import_asrt import add_import_asrt_arguments, import_asrt_command
from asr.cli.commands.training.runs import add_runs_arguments, runs_command
from asr.cli.commands.training.train import add_train_arguments, train_command
from asr.cli.commands.training.tune_batch import add_tune_batch_arguments, tune_batch_command
from asr.cli.commands.training.tune_decoder import add_tune_decoder_arguments, tune_decoder_command
from asr.cli.errors import with_options
from asr.cli.logs import add_log_arguments, start_logging
from asr.cli.terminal import survive_hangup

SETTING = re.compile(r"\w+\.\w+=.*", re.DOTALL)


class Command(NamedTuple):
    """A command: its name, its help, its arguments and its function."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS = (
    Command("train", "train a model, evaluate it, write its report", add_train_arguments, train_command),
    Command(
        "tune-batch",
        "find the largest and the fastest batch size that fits the devices",
        add_tune_batch_arguments,
        tune_batch_command,
    ),
    Command("evaluate", "measure a trained model on a manifest", add_evaluate_arguments, evaluate_command),
    Command(
        "tune-decoder",
        "tune the weights of a decoder on a dev set",
        add_tune_decoder_arguments,
        tune_decoder_command,
    ),
    Command("transcribe", "transcribe recordings", add_transcribe_arguments, transcribe_command),
    Command(
        "label",
        "label recordings without text by a model, to train on them",
        add_label_arguments,
        label_command,
    ),
    Command("merge", "put the shards of a transcription together", add_merge_arguments, merge_command),
    Command("serve", "answer clients over the network with a model", add_serve_arguments, serve_command),
    Command("export", "write a model for other runtimes", add_export_arguments, export_command),
    Command("align", "find when each syllable of a known text is spoken", add_align_arguments, align_command),
    Command("lm", "train, inspect and evaluate language models", add_lm_arguments, lm_command),
    Command("runs", "list runs, their state, and how to resume them", add_runs_arguments, runs_command),
    Command("compare", "compare settings and curves of runs", add_compare_arguments, compare_command),
    Command(
        "average", "average a run's best checkpoints into one model", add_average_arguments, average_command
    ),
    Command(
        "import-asrt",
        "turn weights that ASRT trained into a run",
        add_import_asrt_arguments,
        import_asrt_command,
    ),
    Command(
        "download",
        "download and unpack a corpus; run it again to resume after an interruption",
        add_download_arguments,
        download_command,
    ),
    Command(
        "prepare",
        "convert a corpus, or recordings of your own, to manifests",
        add_prepare_arguments,
        prepare_command,
    ),
    Command(
        "record", "record sentences of your own on a page, as a corpus", add_record_arguments, record_command
    ),
    Command("doctor", "check recordings and labels before training", add_doctor_arguments, doctor_command),
    Command("inspect", "show statistics of manifests", add_inspect_arguments, inspect_command),
    Command("labels", "apply reviewed corrections of labels", add_labels_arguments, labels_command),
    Command("augment", "write a recording as training augments it", add_augment_arguments, augment_command),
    Command("pack", "pack recordings into a few large files", add_pack_arguments, pack_command),
    Command(
        "synthesize",
        "synthesize labelled speech with espeak-ng or Kokoro",
        add_synthesize_arguments,
        synthesize_command,
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    survive_hangup()
    given = _with_set_before_each_setting(sys.argv[1:] if argv is None else argv)
    arguments, unknown = make_parser().parse_known_args([*map(_as_on_disk, given)])
    if unknown:  # argparse itself would show how to use `asr`, not the command
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    start_logging(verbose=arguments.verbose, quiet=arguments.quiet)
    # tqdm reads it when imported: a progress bar is drawn rarely where each update is a line of a log file
    os.environ.setdefault("TQDM_MININTERVAL", "0.2" if sys.stderr.isatty() else "15")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without hanzi must not end a command
    try:
        with stop_signals():  # so that SIGTERM, too, removes what is unfinished
            status: int = arguments.run_command(arguments)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except UserError as error:
        print(f"error: {with_options(str(error), arguments.parser)}", file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError):  # the same Ctrl-C may have ended the reader of our output
            lines = ["", *getattr(interrupt, "__notes__", ()), "stopped"]
            print("\n".join(lines), file=sys.stderr, flush=True)
        return EXIT_SIGNAL + (interrupt.signal_number if isinstance(interrupt, Interrupted) else SIGINT)
    except BrokenPipeError:
        # the reader of our output, such as `head`, has exited: nobody would read a message
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_NO_READER
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return EXIT_MISTAKE
    return status


def _as_on_disk(argument: str) -> str:
    """Return an argument, or the value of `key=value`, as a path has it on disk; other texts as they are."""
    key, equals, value = argument.rpartition("=")
    found = path_on_disk(value)
    return key + equals + found if os.path.lexists(found) else argument


def _with_set_before_each_setting(argv: Sequence[str]) -> list[str]:
    """Return the arguments of `--set a.b=1 c.d=2` as those of `--set a.b=1 --set c.d=2`.

    argparse would take what follows the settings, such as a configuration, for one of them.
    """
    arguments: list[str] = []
    for argument in argv:
        before, last = ["", "", *arguments][-2:]
        if (before == "--set" or last.startswith("--set=")) and SETTING.fullmatch(argument):
            arguments.append("--set")
        arguments.append(argument)
    return arguments


class _Parser(argparse.ArgumentParser):
    """A parser whose paths may be addresses, as may those of its commands."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", Path, path_of)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    parser = _Parser(
        prog="asr",
        description="Train CTC speech recognition models, and transcribe with them.",
        allow_abbrev=False,
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
