"""`asr merge` puts the results of the jobs of `asr transcribe --shard` together."""

from __future__ import annotations

import argparse
from pathlib import Path

from asr.base.text.wording import counted


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.description = "Put the results of all jobs of `asr transcribe --shard` into one file, in order."
    parser.add_argument("out", type=Path, metavar="OUT", help="what --out named for the jobs")


def merge_command(arguments: argparse.Namespace) -> int:
    """Merge the shards of a transcription, and return the exit status."""
    from asr.transcription.to_files.shards import merge_shards

    print(f"{arguments.out}: {counted(merge_shards(arguments.out), 'shard')} merged")
    return 0
