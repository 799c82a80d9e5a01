"""Declare `--gpus`, `--simulate` and `--engine` for the commands that accept them."""

from __future__ import annotations

import argparse

from multigpu import ENGINES


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--gpus` and `--simulate`."""
    parser.add_argument(
        "--gpus",
        dest="devices",
        metavar="DEVICES",
        help="the number of devices, such as 2; or their indices, such as 0,2 (only index 2: '2,'); or all "
        "(default: 1)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="split the machine's single device into as many as --gpus asks for, to try several out",
    )


def add_engine_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--engine`, how devices share the work."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="",
        help="how devices share the work (default: parallel-model for several; multi-worker joins a run of "
        "several processes, which TF_CONFIG or Slurm lists)",
    )
