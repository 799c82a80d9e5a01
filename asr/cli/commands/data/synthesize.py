"""`asr synthesize` makes labelled speech with espeak-ng."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.base.text.wording import counted
from asr.cli.progress_bars import ProgressBars


def add_synthesize_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("out", type=Path, help="folder for the audio and its manifest")
    parser.add_argument(
        "--num",
        dest="num_utterances",
        type=int,
        default=1000,
        metavar="N",
        help="number of utterances (default: 1000)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random choice of utterances (default: 1)")


def synthesize_command(arguments: argparse.Namespace) -> int:
    """Synthesize a corpus and return the exit status."""
    from data_pipeline.recordings.synthesis import synthesize_corpus

    with ProgressBars() as bars:
        manifest = synthesize_corpus(
            arguments.out,
            num_utterances=arguments.num_utterances,
            seed=arguments.seed,
            on_progress=bars,
        )
    print(f"{counted(arguments.num_utterances, 'utterance')}: {manifest}")
    return 0
