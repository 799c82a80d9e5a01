"""`asr transcribe`: turn recordings into text."""

from __future__ import annotations

import argparse
import io
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from asr.base.types import UserError
from asr.cli.commands import EXIT_MISTAKE
from asr.cli.options.decoder import add_decoder_arguments, decoder_of
from asr.cli.options.devices import add_device_arguments
from asr.cli.progress_bars import ProgressBars
from asr.model.devices import start_devices
from asr.recognition.transcripts import Format

if TYPE_CHECKING:
    from asr.base.work import OnProgress
    from asr.recognition.recognizer import Recognizer


def add_transcribe_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="audio of any rate and container, a folder, or - for standard input",
    )
    parser.add_argument("--format", choices=get_args(Format), default="text", help="default: text")
    parser.add_argument(
        "--out",
        type=Path,
        help="write there instead of to standard output; the same command goes on with what was interrupted",
    )
    add_decoder_arguments(parser)
    add_device_arguments(parser)


def transcribe_command(arguments: argparse.Namespace) -> int:
    """Transcribe files and folders; returns the exit status."""
    from asr.recognition.transcripts import audio_files, refuse_bad_out
    from asr.runs.run import Run

    if arguments.n_best is not None and arguments.format != "jsonl":
        raise UserError("--n-best: only JSON tells more than one hypothesis; add --format jsonl")
    sources = audio_files(arguments.files)
    if arguments.out:
        refuse_bad_out(arguments.out, sources)
    run = Run.open(arguments.run)
    choice = decoder_of(arguments, run)
    start_devices(arguments.devices, simulate=arguments.simulate)
    from asr.recognition.recognizer import Recognizer
    from asr.recognition.transcribe import transcribe_to_file

    with ProgressBars() as bars:
        recognizer = Recognizer.of_choice(
            run, choice, arguments.devices, simulate=arguments.simulate, on_progress=bars
        )
    shown = arguments.out is not None or _only_errors_reach_the_terminal()
    with ProgressBars(shown=shown, delay_s=0.0) as bars:
        if arguments.out:
            num_failed = transcribe_to_file(recognizer, sources, arguments.out, arguments.format, bars)
        else:
            num_failed = _print(recognizer, sources, arguments.format, bars)
    return EXIT_MISTAKE if num_failed else 0


def _print(
    recognizer: Recognizer, sources: Sequence[Path], format_name: Format, on_progress: OnProgress
) -> int:
    """Print the results as they come; returns how many recordings failed."""
    from asr.recognition.transcribe import log_trouble
    from asr.recognition.transcripts import TranscriptWriter

    num_failed = 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    writer = TranscriptWriter(sys.stdout, format_name, with_names=len(sources) > 1)
    results = recognizer.transcribe_files(sources, on_progress)
    for source, result in zip(sources, results, strict=True):
        log_trouble(source, result)
        num_failed += isinstance(result, UserError)
        writer.write(str(source), result)
    return num_failed


def _only_errors_reach_the_terminal() -> bool:
    """Whether standard output is a file: what reads a pipe may well print it."""
    return sys.stderr.isatty() and stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
