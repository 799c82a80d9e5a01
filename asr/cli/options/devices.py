"""Declare `--gpus`, `--simulate`, `--engine` and `--stages` for the commands that accept them."""

from __future__ import annotations

import argparse

from asr.model.devices import Devices
from multigpu import ENGINES


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--gpus` and `--simulate`."""
    parser.add_argument(
        "--gpus",
        dest="devices",
        metavar="DEVICES",
        help="the number of devices, such as 2; or their indices, such as 0,2 (only index 2: '2,'); or all "
        "(default: 1; training without a GPU divides the CPU, see train.cpu_towers)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="split the machine's single device into as many as --gpus asks for, to try several out",
    )


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--engine`, how devices share the work, and `--stages`."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="",
        help="how devices share the work (default: parallel-model for several; stages puts different layers "
        "on different devices, for a model that does not fit on one; multi-worker joins a run of several "
        "processes, which TF_CONFIG or Slurm lists)",
    )
    add_stages_argument(parser)


def add_stages_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--stages`, the number of parts into which the model is cut."""
    parser.add_argument(
        "--stages",
        type=int,
        default=0,
        metavar="N",
        help="cut the model into N stages, one a device, as --engine stages does for all devices; with "
        "several times N devices, each replica of the stages gets its share of a batch (default for --gpus: "
        "N)",
    )


def chosen_devices(arguments: argparse.Namespace) -> Devices:
    """Return the devices that the options of a command select."""
    engine, stages = getattr(arguments, "engine", ""), getattr(arguments, "stages", 0)
    return Devices(arguments.devices, arguments.simulate, engine, stages)
