"""`--gpus` and `--simulate`, as the commands that take them understand them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from asr.quiet import import_tensorflow
from asr.types import UserError


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--gpus` and `--simulate`."""
    parser.add_argument(
        "--gpus",
        default="1",
        metavar="DEVICES",
        help="how many, such as 2; which, such as 0,2 (just number 2: '2,'); or all (default: 1)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="cut the machine's one device into as many as --gpus names, to try them out",
    )


def start_devices(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Start TensorFlow and return the names of the devices asked for.

    Raises:
        UserError: a device is not there.
    """
    import_tensorflow(prepare=_preparation(arguments))
    from multigpu.devices import DeviceError, parse_devices

    try:
        return parse_devices(arguments.gpus)
    except DeviceError as error:
        raise UserError(f"--gpus {arguments.gpus}: {error}") from None


def _preparation(arguments: argparse.Namespace) -> Callable[[], object]:
    """What has to be said to TensorFlow before it looks at its devices."""

    def prepare() -> None:
        from multigpu.devices import DeviceError, allow_memory_growth, simulate_devices

        if not arguments.simulate:
            allow_memory_growth()
            return
        try:
            simulate_devices(_num_named(arguments.gpus))
        except DeviceError as error:
            raise UserError(f"--simulate: {error}") from None

    return prepare


def _num_named(spec: str) -> int:
    """How many devices there must be for a specification to be met; two for `all`."""
    numbers = [int(number) for number in re.findall(r"\d+", spec)]
    if re.fullmatch(r"\s*\d+\s*", spec):
        return max(1, numbers[0])
    return max(numbers) + 1 if numbers else 2
