"""`--gpus`, `--simulate` and `--engine`, as the commands that take them understand them."""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING

from asr.base.types import UserError
from asr.model.devices import device_errors_as_user_errors, start_devices
from multigpu import ENGINES, quiet

if TYPE_CHECKING:
    from multigpu.engines import Engine


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
        help="how devices share the work (default: parallel-model for several; multi-worker takes part in a "
        "run of several processes, named by TF_CONFIG or Slurm)",
    )


def device_options(arguments: argparse.Namespace) -> list[str]:
    """The options of this module as they were given, to be shown in a command that goes on."""
    options = ["--gpus", arguments.devices] if arguments.devices is not None else []
    options += ["--engine", arguments.engine] if arguments.engine else []
    return [*options, "--simulate"] if arguments.simulate else options


def start_engine(arguments: argparse.Namespace) -> Engine:
    """Start TensorFlow and the engine asked for.

    Raises:
        UserError: a device is not there, or the workers cannot meet.
    """
    if arguments.engine == "multi-worker":
        return _join_workers(arguments)
    devices = start_devices(arguments.devices, simulate=arguments.simulate)
    from multigpu.engines import make_engine

    with device_errors_as_user_errors("engine"):
        return make_engine(arguments.engine or "", devices)


def _join_workers(arguments: argparse.Namespace) -> Engine:
    if arguments.devices is not None or arguments.simulate:
        raise UserError(
            "--engine multi-worker: takes all GPUs that its process sees; choose them by "
            "CUDA_VISIBLE_DEVICES instead of --gpus and --simulate"
        )
    engines: list[Engine] = []

    def join() -> None:
        from multigpu.cluster import find_cluster
        from multigpu.engines import MultiWorkerEngine

        cluster = find_cluster()
        others = [address for index, address in enumerate(cluster.addresses) if index != cluster.worker]
        if others:
            print(f"worker {cluster.worker}: waiting for {', '.join(others)}", flush=True)
        # TensorFlow waits without end, and would not hear Ctrl-C; there is nothing to be saved yet
        handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        engines.append(MultiWorkerEngine(cluster))
        signal.signal(signal.SIGINT, handler)

    with device_errors_as_user_errors("engine"):
        quiet.import_tensorflow(prepare=join)
    return engines[0]
