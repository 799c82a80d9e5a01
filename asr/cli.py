"""The command line. `asr train` and `python train.py` are the same; so are `asr` and `python -m asr`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from asr import __version__
from asr.commands import EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_NO_READER
from asr.commands.augment import augment_command
from asr.commands.devices import add_device_arguments, add_engine_argument
from asr.commands.doctor import add_doctor_arguments, doctor_command
from asr.commands.download import download_command
from asr.commands.evaluate import evaluate_command
from asr.commands.inspect import inspect_command
from asr.commands.pack import pack_command
from asr.commands.prepare import prepare_command
from asr.commands.synthesize import synthesize_command
from asr.commands.train import train_command
from asr.commands.transcribe import transcribe_command
from asr.types import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    arguments = _parser().parse_args(argv)
    # tqdm reads it when it is imported: a progress bar is drawn seldom where each time makes a line of a log
    os.environ.setdefault("TQDM_MININTERVAL", "0.2" if sys.stderr.isatty() else "15")
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
    add_device_arguments(train)
    add_engine_argument(train)
    train.set_defaults(run_command=train_command)

    evaluate = commands.add_parser("evaluate", help="measure a trained model on a manifest")
    evaluate.add_argument("run", type=Path, help="a run directory, such as runs/demo")
    evaluate.add_argument("manifest", type=Path, help="JSON Lines, such as data/mandarin_demo/test.jsonl")
    evaluate.set_defaults(run_command=evaluate_command)

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
    transcribe.add_argument(
        "--out",
        type=Path,
        help="write there instead of to standard output; the same command goes on with what was interrupted",
    )
    add_device_arguments(transcribe)
    transcribe.set_defaults(run_command=transcribe_command)

    download = commands.add_parser(
        "download", help="fetch and unpack a corpus; again, to go on after an interruption"
    )
    download.add_argument("corpus", metavar="CORPUS", help="a name that `asr prepare --list` shows")
    download.add_argument("dir", type=Path, metavar="DIR", help="where its archives and what is in them go")
    download.add_argument(
        "--mirror", metavar="HOST", help="another server with the same files, such as openslr.elda.org"
    )
    download.set_defaults(run_command=download_command)

    prepare = commands.add_parser("prepare", help="turn a corpus, or lists of your own, into manifests")
    prepare.add_argument("corpus", nargs="?", metavar="CORPUS", help="a name that --list shows")
    prepare.add_argument(
        "paths",
        nargs="*",
        metavar="DIR OUT",
        help="the corpus as downloaded and unpacked, and the folder for its manifests",
    )
    prepare.add_argument(
        "--units",
        choices=("syllables", "characters", "words"),
        help="of the labels (default: what the corpus is usually labelled with)",
    )
    prepare.add_argument("--list", action="store_true", help="show the corpora and forms that are known")
    prepare.set_defaults(run_command=prepare_command)

    doctor = commands.add_parser("doctor", help="check recordings and labels before the first step")
    add_doctor_arguments(doctor)
    doctor.set_defaults(run_command=doctor_command)

    inspect = commands.add_parser("inspect", help="show what manifests hold")
    inspect.add_argument(
        "manifests", nargs="+", type=Path, metavar="MANIFEST", help="JSON Lines, train first"
    )
    inspect.add_argument(
        "--html",
        type=Path,
        default=Path("inspect.html"),
        metavar="FILE",
        help="the page with pictures (default: inspect.html)",
    )
    inspect.set_defaults(run_command=inspect_command)

    augment = commands.add_parser("augment", help="hear what training hears of a recording")
    augment.add_argument("file", type=Path, metavar="FILE", help="audio of any rate and container")
    augment.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the WAV files")
    augment.add_argument(
        "--config", default="demo", help="a TOML file, or the name of one in configs/ (default: demo)"
    )
    augment.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="overrides",
        help="change one setting, such as augment.noise=coloured; may be repeated",
    )
    augment.add_argument("--num", type=int, default=5, help="number of versions, an epoch each (default: 5)")
    augment.add_argument(
        "--id", help="the utterance's id in its manifest (default: the file's name without its ending)"
    )
    augment.set_defaults(run_command=augment_command)

    pack = commands.add_parser("pack", help="put recordings into a few large TFRecord files")
    pack.add_argument("manifests", nargs="+", type=Path, metavar="MANIFEST", help="JSON Lines")
    pack.add_argument("out", type=Path, metavar="OUT", help="folder for the files and their manifests")
    pack.set_defaults(run_command=pack_command)

    synthesize = commands.add_parser("synthesize", help="make labelled robotic speech with espeak-ng")
    synthesize.add_argument("out", type=Path, help="folder for the audio and its manifest")
    synthesize.add_argument("--num", type=int, default=1000, help="number of utterances (default: 1000)")
    synthesize.add_argument("--seed", type=int, default=1, help="another seed, other utterances (default: 1)")
    synthesize.set_defaults(run_command=synthesize_command)
    return parser
