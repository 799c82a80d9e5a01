"""Checks the devices of this machine: `python -m multigpu check` shows what each does in a training step."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from multigpu.errors import DeviceError
from multigpu.start import start_devices

if TYPE_CHECKING:
    from multigpu.checking.check import Check
    from multigpu.stages.check import StagesCheck


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = make_parser().parse_args(argv)
    try:
        if arguments.stages is not None:
            return _check_stages(arguments.stages, arguments.gpus, arguments.simulate)
        return _check(arguments.gpus, arguments.simulate)
    except DeviceError as error:
        print(f"error: {error}".replace("`simulate`", "--simulate"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    parser = argparse.ArgumentParser(prog="python -m multigpu", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check", help="prove that every device does its share of the forward and the backward pass"
    )
    check.add_argument(
        "--gpus", default="all", help="how many, such as 2; which, such as 0,2,3; or all (default: all)"
    )
    check.add_argument(
        "--stages",
        type=int,
        metavar="N",
        help="check a model that is cut into N stages, each on a device of its own; with a multiple of N "
        "`--gpus`, in replicas",
    )
    check.add_argument(
        "--simulate", action="store_true", help="split this machine's one device into as many (default: 2)"
    )
    return parser


def _check(spec: str, simulate: bool) -> int:
    devices = start_devices(spec, simulate=simulate)
    if len(devices) == 1:
        raise DeviceError(
            f"expected at least 2 devices, received {devices[0]} alone; try `--gpus 2 --simulate`"
        )
    from multigpu.checking.check import check_devices

    print(f"{', '.join(devices)}: running a small network on one device and on all ...", flush=True)
    found = check_devices(devices)
    _print_result(found, simulate)
    return 1 if found.problems else 0


def _check_stages(num_stages: int, spec: str, simulate: bool) -> int:
    if num_stages < 2:
        raise DeviceError(f"expected at least 2 stages, received {num_stages}; try `--stages 2`")
    if spec == "all" and simulate:
        spec = str(num_stages)
    devices = start_devices(spec, simulate=simulate)
    if spec == "all":
        devices = devices[:num_stages]
    if len(devices) % num_stages:
        raise DeviceError(
            f"expected a device for each of {num_stages} stages, or a multiple of that, received "
            f"{', '.join(devices)}; try `--gpus {num_stages}`, and --simulate on a machine with fewer"
        )
    from multigpu.stages.check import check_stages

    print(f"{', '.join(devices)}: running a small network on one device and in stages ...", flush=True)
    found = check_stages(devices, num_stages)
    _print_stages(found, simulate)
    return 1 if found.problems else 0


def _print_stages(found: StagesCheck, simulated: bool) -> None:
    print("\nstage  device      parameters  forward ops  backward ops  compute time  layers")
    work_of = {work.device: work for work in found.work}
    for index, stage in enumerate(found.placement):
        for device in stage.devices:
            work, layers = work_of[device], ", ".join(stage.layers)
            seconds = "unknown" if work.compute_s is None else f"{work.compute_s * 1e3:.1f} ms"
            ops = f"{work.forward_ops:>11}  {work.backward_ops:>12}"
            print(f"{index:<5}  {device:<10}  {stage.num_parameters:>10,}  {ops}  {seconds:>12}  {layers}")
    print("(ops are convolutions and matrix products of the executed graph)\n")
    num_placed = found.num_ops - len(found.misplaced)
    print(f"{num_placed} of {found.num_ops} ops of layers, of every kind, ran on the device of their stage")
    for what, difference in found.differences.items():
        print(f"gradient of {what + ',':<9} largest relative difference from one device  {difference:.1e}")
    print(
        f"\n{found.num_micro_batches} micro-batches in each replica: a device was idle {found.idle:.0%} of "
        f"the step; the schedule alone accounts for {found.bubble:.0%}, (S - 1) / (M + S - 1)"
    )
    print("(simulated devices also wait for the cores that they share)\n" if simulated else "")
    for problem in found.problems:
        print(f"PROBLEM  {problem}")
    if not found.problems:
        print(
            "Every stage runs on its device, forward and backward, and gradients equal those of one device."
        )


def _print_result(found: Check, simulated: bool) -> None:
    print("\ndevice      forward ops  backward ops  compute time  peak memory")
    for device in found.work:
        seconds = "unknown" if device.compute_s is None else f"{device.compute_s * 1e3:.1f} ms"
        memory = "-" if device.peak_memory_bytes is None else f"{device.peak_memory_bytes / 2**20:,.0f} MiB"
        ops = f"{device.forward_ops:>11}  {device.backward_ops:>12}"
        print(f"{device.device:<10}  {ops}  {seconds:>12}  {memory:>11}")
    print("(ops are convolutions and matrix products of the executed graph)\n")
    for what, difference in found.differences.items():
        print(f"gradient of {what + ',':<9} largest relative difference from one device  {difference:.1e}")
    times = found.times
    print(f"\nstrong scaling (same batch size): {times.strong:.2f} times as fast as one device")
    print(f"weak scaling (N times the batch): {times.weak:.2f} times the throughput of one device")
    print(f"limited by {'the one device that the simulated devices share' if simulated else times.limit}")
    print()
    for problem in found.problems:
        print(f"PROBLEM  {problem}")
    if not found.problems:
        print("Every device does its part, forward and backward, and gradients equal those of one device.")


if __name__ == "__main__":
    sys.exit(main())
