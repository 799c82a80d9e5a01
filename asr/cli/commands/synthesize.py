"""`asr synthesize`: make labelled robotic speech."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.base.types import UserError


def add_synthesize_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("out", type=Path, help="folder for the audio and its manifest")
    parser.add_argument("--num", type=int, default=1000, help="number of utterances (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other utterances (default: 1)")


def synthesize_command(arguments: argparse.Namespace) -> int:
    """Make the corpus; returns the exit status."""
    from data_pipeline.synthesis import synthesize_corpus

    if arguments.num < 1 or arguments.seed < 0:
        raise UserError("--num and --seed: expected a number of utterances from 1, and a seed from 0")
    manifest = synthesize_corpus(arguments.out, num_utterances=arguments.num, seed=arguments.seed)
    print(f"{arguments.num} utterances: {manifest}")
    return 0
