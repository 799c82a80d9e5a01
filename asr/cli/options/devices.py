"""`--gpus`, `--simulate` and `--engine`, for the commands that take them."""

from __future__ import annotations

import argparse

from multigpu import ENGINES


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--gpus` and `--simulate`."""
    parser.add_argument(
        "--gpus",
        dest="devices",
        metavar="DEVICES",
        help="how many, such as 2; which, such as 0,2 (just number 2: '2,'); or all (default: 1)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="cut the machine's one device into as many as --gpus names, to try them out",
    )


def add_engine_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--engine`."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="",
        help="how devices share the work (default: parallel-model for several; multi-worker takes part in a "
        "run of several processes, named by TF_CONFIG or Slurm)",
    )
