"""`asr transcribe`: turn recordings into text."""

from __future__ import annotations

import argparse
import functools
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asr.base.types import UserError
from asr.cli.commands import EXIT_MISTAKE
from asr.cli.options.decoder import DecoderChoice, add_decoder_arguments, decoder_of
from asr.cli.options.devices import add_device_arguments
from asr.model.devices import start_devices

if TYPE_CHECKING:
    from asr.recognition.journal import Journal
    from asr.recognition.recognizer import Recognizer
    from asr.recognition.transcripts import Result


def add_transcribe_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="audio of any rate and container, a folder, or - for standard input",
    )
    parser.add_argument("--format", choices=("text", "jsonl", "csv"), default="text", help="default: text")
    parser.add_argument(
        "--out",
        type=Path,
        help="write there instead of to standard output; the same command goes on with what was interrupted",
    )
    add_decoder_arguments(parser)
    add_device_arguments(parser)


def transcribe_command(arguments: argparse.Namespace) -> int:
    """Transcribe files and folders; returns the exit status."""
    from asr.recognition.transcripts import audio_files
    from asr.runs.run import Run

    if arguments.n_best is not None and arguments.format != "jsonl":
        raise UserError("--n-best: only JSON tells more than one hypothesis; add --format jsonl")
    sources = audio_files(arguments.files)
    if arguments.out:
        _refuse_bad_out(arguments.out, sources)
    choice = decoder_of(arguments, Run.open(arguments.run))
    devices = start_devices(arguments.devices, simulate=arguments.simulate)
    if arguments.out:
        num_failed = _write_file(arguments, choice, devices, sources)
    else:
        num_failed = _print(arguments, choice, devices, sources)
    return EXIT_MISTAKE if num_failed else 0


def _write_file(
    arguments: argparse.Namespace, choice: DecoderChoice, devices: Sequence[str], sources: Sequence[Path]
) -> int:
    """Write the results to `--out`, going on with what is there; returns how many recordings failed."""
    from asr.recognition.journal import model_digest, open_journal
    from asr.recognition.transcripts import write_transcripts
    from asr.runs.run import Run

    run = Run.open(arguments.run)
    described_by = [run.best_checkpoint(), run.directory / "config.toml", run.directory / "vocabulary.txt"]
    # before they are loaded: a training may go on meanwhile
    model = model_digest([*described_by, *choice.files], choice.describe())
    recognizer = _load(arguments.run, choice, devices)
    with open_journal(arguments.out, model, sources) as journal:
        chunks = journal.left_of(recognizer.chunks(sources))
        _tell_found(journal, len(sources))
        with _progress_bar(len(sources), journal.num_rows, shown=True) as bar:
            for _, results in _hear(recognizer, chunks, bar):
                journal.add(results)
        write_transcripts(arguments.out, arguments.format, sources, journal.results())
        return journal.num_failed


def _print(
    arguments: argparse.Namespace, choice: DecoderChoice, devices: Sequence[str], sources: Sequence[Path]
) -> int:
    """Print the results as they come; returns how many recordings failed."""
    from asr.recognition.transcripts import standard_output_writer

    recognizer = _load(arguments.run, choice, devices)
    num_failed = 0
    with _progress_bar(len(sources), 0, shown=_only_errors_reach_the_terminal()) as bar:
        writer = standard_output_writer(arguments.format, len(sources))
        for chunk, results in _hear(recognizer, recognizer.chunks(sources), bar):
            for source, result in zip(chunk, results, strict=True):
                num_failed += isinstance(result, UserError)
                writer.write(str(source), result)
    return num_failed


def _load(run: Path, choice: DecoderChoice, devices: Sequence[str]) -> Recognizer:
    import tensorflow as tf

    from asr.recognition.recognizer import Recognizer
    from multigpu.towers import data_parallelism

    with tf.device(devices[0]):
        return Recognizer.load(
            run,
            lambda function: functools.partial(data_parallelism, devices, function),
            len(devices),
            settings=choice.settings,
            hot_words=choice.hot_words,
            hanzi=choice.hanzi,
        )


def _hear(
    recognizer: Recognizer, chunks: Sequence[list[Path]], bar: Any
) -> Iterator[tuple[list[Path], list[Result]]]:
    """Each chunk and its results; errors are told, and the bar advances when the chunk is dealt with."""
    from tqdm import tqdm

    def told(name: str, seconds: float) -> None:
        bar.set_postfix_str(f"{seconds / 60:.0f} minutes of {Path(name).name}")

    for chunk, results in zip(chunks, recognizer.transcribe_chunks(chunks, told), strict=True):
        for name, result in zip(chunk, results, strict=True):
            # above the bar, if there is one
            if isinstance(result, UserError):
                tqdm.write(f"error: {result}", file=sys.stderr)
            elif not result.tokens:
                tqdm.write(f"{name}: no speech is heard in it", file=sys.stderr)
        bar.set_postfix_str("")
        yield chunk, results
        bar.update(len(chunk))


def _progress_bar(num_recordings: int, num_done: int, *, shown: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=num_recordings,
        initial=num_done,
        unit=" recordings",
        disable=not shown,
    )


def _only_errors_reach_the_terminal() -> bool:
    """Whether standard output is a file: what reads a pipe may well print it."""
    return sys.stderr.isatty() and stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)


def _tell_found(journal: Journal, num_recordings: int) -> None:
    """Say what is there from a command that was interrupted."""
    reason = f"{journal.reason}; " if journal.reason else ""
    if journal.num_rows:
        failed = f", {journal.num_failed:,} of them as errors" if journal.num_failed else ""
        there = f"{journal.num_rows:,} of {num_recordings:,} recordings are there already{failed}; going on"
        print(f"{journal.path}: {reason}{there}", file=sys.stderr)
    elif reason:
        print(f"{journal.path}: {reason}beginning anew", file=sys.stderr)


def _refuse_bad_out(out: Path, sources: Sequence[Path]) -> None:
    if out.resolve() in {source.resolve() for source in sources}:
        raise UserError(f"--out {out}: one of the recordings; choose another file for the transcripts")
    if out.exists() and not out.is_file():
        raise UserError(
            f"--out {out}: a folder or a device, expected a file; without --out, transcripts are printed"
        )
