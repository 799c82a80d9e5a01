"""`python -m multigpu check`: what the devices of this machine do together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from multigpu.errors import DeviceError
from multigpu.quiet import start_devices

if TYPE_CHECKING:
    from multigpu.check import Check


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m multigpu", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = commands.add_parser("check", help="prove that every device works, backward pass and all")
    check.add_argument("--gpus", default="all", help="2, or 0,2,3, or all (default: all)")
    check.add_argument(
        "--simulate", action="store_true", help="cut this machine's one device into as many (default: 2)"
    )
    arguments = parser.parse_args(argv)
    try:
        return _check(arguments.gpus, arguments.simulate)
    except DeviceError as error:
        print(f"error: {error}".replace("`simulate`", "--simulate"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def _check(spec: str, simulate: bool) -> int:
    devices = start_devices(spec, simulate=simulate)
    if len(devices) == 1:
        raise DeviceError(f"{devices[0]} alone has nobody to share with; try `--gpus 2 --simulate`")
    from multigpu.check import check_devices

    print(f"{', '.join(devices)}: a small network takes a step on one device and on all ...", flush=True)
    found = check_devices(devices)
    _tell(found, simulate)
    return 1 if found.problems else 0


def _tell(found: Check, simulated: bool) -> None:
    print("\ndevice      forward ops  backward ops  its ops took  peak memory")
    for device in found.work:
        seconds = "unknown" if device.compute_s is None else f"{device.compute_s * 1e3:.1f} ms"
        memory = "-" if device.peak_memory_bytes is None else f"{device.peak_memory_bytes / 2**20:,.0f} MiB"
        ops = f"{device.forward_ops:>11}  {device.backward_ops:>12}"
        print(f"{device.device:<10}  {ops}  {seconds:>12}  {memory:>11}")
    print("(convolutions and matrix products in the graph that was executed)\n")
    for what, difference in found.differences.items():
        print(f"gradient of {what + ',':<9} largest difference from one device  {difference:.1e}")
    times = found.times
    print(f"\nstrong scaling, the same batch on all:        {times.strong:.2f} times as fast as one device")
    print(f"weak scaling, a device's batch on each:       {times.weak:.2f} times as much in a step")
    print(f"limited by {'the one device that simulated ones share' if simulated else times.limit}")
    print()
    for problem in found.problems:
        print(f"PROBLEM  {problem}")
    if not found.problems:
        print("Every device does its part, forward and backward, and the gradient is that of one device.")


if __name__ == "__main__":
    sys.exit(main())
