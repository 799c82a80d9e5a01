"""`asr transcribe` transcribes recordings to the terminal or to a file."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.errors import UserError
from asr.cli.commands import EXIT_MISTAKE
from asr.cli.options.cluster import add_cluster_argument, chosen_cluster
from asr.cli.options.decoder import add_decoder_arguments, decoder_choice
from asr.cli.options.devices import add_device_arguments, add_stages_argument, chosen_devices
from asr.cli.options.run import RUN_HELP, run_and_rest
from asr.cli.progress_bars import ProgressBars
from asr.model.devices import ONE_DEVICE, STAGES
from asr.transcription.formats import FORMATS, Format, is_timed

if TYPE_CHECKING:
    from asr.base.work import OnProgress
    from asr.runs.run import Run
    from asr.transcription.decoder_choice import DecoderChoice
    from asr.transcription.file_recognizer import FileRecognizer
    from asr.transcription.transcript import Transcript


def add_transcribe_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    run = parser.add_argument("run", metavar="[RUN]", help=RUN_HELP)
    files = parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="audio of any rate and container, a folder, an address such as s3://BUCKET/FOLDER, or - for "
        "standard input",
    )
    run.required = files.required = False  # see `run_and_rest`
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="output format; srt, vtt (subtitles) and textgrid make a file of each recording (default: "
        "that of the suffix of --out, else text)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="output file, or folder for one file a recording, which replaces no file (default: standard "
        "output); the same command resumes an interrupted one",
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="transcribe one of N shares of the recordings, such as 3/16 in the third of sixteen jobs, to a "
        "file of its own beside --out; asr merge puts them together (subtitles need no merging)",
    )
    add_cluster_argument(parser, "transcribe")
    add_decoder_arguments(parser)
    add_device_arguments(parser)
    parser.add_argument(
        "--engine",
        choices=[STAGES],
        default="",
        help="stages: different layers on different devices, for a model that does not fit on one (default: "
        "the whole model on each, which transcribes its share)",
    )
    add_stages_argument(parser)


def transcribe_command(arguments: argparse.Namespace) -> int:
    """Transcribe files and folders, and return the exit status."""
    from asr.runs.run import Run
    from asr.transcription.files import audio_files, files_of_recordings, format_of, refuse_bad_out

    format_name = arguments.format or format_of(arguments.out)
    if arguments.n_best is not None and format_name != "jsonl":
        raise UserError("--n-best: only JSON contains more than one hypothesis; add --format jsonl")
    if arguments.shard and not arguments.out:
        raise UserError("--shard: name the file of all results with --out; each job writes its own beside it")
    named, files = run_and_rest([arguments.run, *(arguments.files or ())], 1, "FILE")
    sources = audio_files(files)
    outs: dict[Path, Path] = {}
    if arguments.out and is_timed(format_name):
        outs = files_of_recordings(arguments.out, files, sources, format_name)
    elif arguments.out:
        refuse_bad_out(arguments.out, sources)
    elif is_timed(format_name) and len(sources) > 1:
        raise UserError(
            f"--format {format_name}: each recording has a file of its own; name a folder with --out"
        )
    run = Run.open(named)
    choice = decoder_choice(arguments, run)
    from asr.transcription.to_files.resumable_transcription import transcribe_to_file, transcribe_to_files
    from asr.transcription.to_files.shards import Shard

    shard = Shard.read(arguments.shard) if arguments.shard else None
    shown = arguments.out is not None or _only_errors_reach_the_terminal()
    with (
        _recognizer(arguments, run, named, choice) as recognizer,
        ProgressBars(shown=shown, delay_s=0.0) as bars,
    ):
        if is_timed(format_name) and arguments.out:
            num_failed = transcribe_to_files(recognizer, outs, arguments.out, format_name, bars, shard)
        elif arguments.out and not is_timed(format_name):
            num_failed = transcribe_to_file(recognizer, sources, arguments.out, format_name, bars, shard)
        else:
            num_failed = _print(recognizer, sources, format_name, bars)
    return EXIT_MISTAKE if num_failed else 0


@contextlib.contextmanager
def _recognizer(
    arguments: argparse.Namespace, run: Run, named: str, choice: DecoderChoice
) -> Iterator[FileRecognizer]:
    """Load the model here, or connect the workers that load it."""
    from asr.transcription.recognizer import Recognizer

    devices = chosen_devices(arguments)
    if arguments.cluster is not None and devices != ONE_DEVICE:
        raise UserError("--cluster: each worker has devices of its own; leave out --gpus, --engine, --stages")
    with chosen_cluster(arguments) as cluster:
        recognizer: FileRecognizer
        with ProgressBars() as bars:
            if cluster:
                from asr.transcription.to_files.on_cluster import ClusterRecognizer

                recognizer = ClusterRecognizer.load(cluster, named, choice, bars)
            else:
                recognizer = Recognizer.of_run(run, choice, devices, bars)
        yield recognizer


def _print(
    recognizer: FileRecognizer, sources: Sequence[Path], format_name: Format, on_progress: OnProgress
) -> int:
    """Print the results as they come, and return how many recordings failed."""
    from asr.transcription.to_files.resumable_transcription import DoubtfulTranscripts, log_problem

    num_failed, doubtful = 0, DoubtfulTranscripts()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    write = _writer_of(format_name, len(sources) > 1)
    results = recognizer.transcribe_files(sources, on_progress)
    for source, result in zip(sources, results, strict=True):
        log_problem(source, result)
        num_failed += isinstance(result, UserError)
        write(str(source), result)
        doubtful.add(source, result)
    doubtful.log()
    return num_failed


def _writer_of(format_name: Format, with_names: bool) -> Callable[[str, Transcript | UserError], None]:
    """Return a function that prints the transcript of a recording."""
    from asr.transcription.formats import ListWriter, format_transcript

    if not is_timed(format_name):
        return ListWriter(sys.stdout, format_name, with_names).write

    def write(_: str, result: Transcript | UserError) -> None:
        if not isinstance(result, UserError):
            print(format_transcript(result, format_name), end="")

    return write


def _only_errors_reach_the_terminal() -> bool:
    """Return whether standard output is a file and standard error a terminal: a pipe's reader may print."""
    return sys.stderr.isatty() and stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
