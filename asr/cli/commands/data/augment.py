"""`asr augment` writes a recording as several epochs of training augment it, to listen to."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from asr.cli.commands import add_override_argument
from asr.cli.progress_bars import ProgressBars

if TYPE_CHECKING:
    from data_pipeline.augment.versions import Version

HEADER: tuple[str, ...] = (
    "epoch",
    "speed",
    "reverberation",
    "pauses",
    "noise",
    "SNR",
    "gain",
    "channel",
    "file",
)


def add_augment_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="audio of any rate and container")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the WAV files")
    parser.add_argument(
        "--config", default="demo", help="a TOML file, or the name of one in configs/ (default: demo)"
    )
    add_override_argument(parser, "augment.noise=coloured")
    parser.add_argument(
        "--num",
        dest="num_versions",
        type=int,
        default=5,
        metavar="NUM",
        help="number of versions, one per epoch (default: 5)",
    )
    parser.add_argument(
        "--id", help="the utterance's id in its manifest (default: the file's name without its suffix)"
    )


def augment_command(arguments: argparse.Namespace) -> int:
    """Write a recording as several epochs of training augment it, and return the exit status."""
    from asr.base.config import load_config
    from data_pipeline.augment.augmenter import Augmenter
    from data_pipeline.augment.versions import write_versions

    config = load_config(arguments.config, arguments.overrides)
    with ProgressBars() as bars:
        augmenter = Augmenter.load(config.augment, config.train.seed, on_progress=bars)
    versions = write_versions(
        arguments.file, arguments.out, augmenter, arguments.num_versions, arguments.id or ""
    )
    rows = [HEADER, *map(_row, versions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(version: Version) -> tuple[str, ...]:
    applied = version.applied
    snr = f"{applied.snr_db:.1f} dB" if math.isfinite(applied.snr_db) else "-"
    gain = f"{applied.gain_db:+.1f} dB" if applied.gain_db else "-"
    speed = f"{applied.speed:.3f}" if applied.speed != 1 else "-"
    return (
        str(version.epoch),
        speed,
        applied.response or "-",
        " + ".join(f"{pause:.2f} s" for pause in applied.pauses_s) if any(applied.pauses_s) else "-",
        applied.noise or "-",
        snr,
        gain,
        applied.channel or "-",
        str(version.path),
    )
