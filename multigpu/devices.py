"""Parses which devices to use (`2`, `"0,2,3"`, `[0, 2]`, `"all"`, `["/GPU:1", "/GPU:3"]`) and simulates some.

from multigpu.devices import parse_devices, simulate_devices

simulate_devices(2)         # a machine without GPUs gets two logical CPUs, one card becomes two
parse_devices("all")        # ("/CPU:0", "/CPU:1")
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

from multigpu.errors import DeviceError

DeviceSpec: TypeAlias = int | str | Sequence[int | str]

NAME = re.compile(r"(?:.*/)?(?:device:)?(CPU|GPU):(\d+)", re.IGNORECASE)
MAX_SIMULATED_DEVICES = 64  # parts of one device
NVIDIA_SMI_LIMIT_S = 30  # many cards without persistence mode take seconds
SHARE_OF_CARD = 0.9  # of its memory, for simulated devices: CUDA itself needs some

# XLA of TensorFlow 2.21 builds YNNPACK's subgraphs when a compiled function first runs on a CPU, and without
# a lock (newer ones have one): towers that run it at once may crash the process. Left empty, it makes none
NO_YNNPACK = "--xla_cpu_experimental_ynn_fusion_type="
if tf.__version__.startswith("2.21.") and NO_YNNPACK not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {NO_YNNPACK}".strip()


def available_devices() -> tuple[str, ...]:
    """Return the short names of the devices to train on: all GPUs, or else CPUs (several if simulated)."""
    for kind in ("GPU", "CPU"):
        devices = tf.config.list_logical_devices(kind)
        if devices:
            return tuple(short_name(device.name) for device in devices)
    return ()


def has_gpus() -> bool:
    """Return whether this machine has a GPU that TensorFlow may use."""
    return bool(tf.config.get_visible_devices("GPU"))


def parse_devices(spec: DeviceSpec) -> tuple[str, ...]:
    """Return the short names of the devices that a specification names, such as ("/GPU:0", "/GPU:2").

    Turns memory growth on, unless TensorFlow has initialized the GPUs already.

    Args:
        spec: a number of devices, which takes the first ones; ids, as a list or separated by commas; names;
            or "all". A number in a string is a number: "2" means the first two, "2," means device 2. What
            `share_cpu` returned stays as it is.

    Raises:
        DeviceError: a device does not exist or is named twice, or the specification names none.
    """
    allow_memory_growth()
    available = available_devices()
    parts = _parse_text(spec, available) if isinstance(spec, str) else spec
    if isinstance(parts, bool) or not isinstance(parts, int | Sequence):
        raise _device_error(spec, "expected a number, ids, names or all", available)
    if isinstance(parts, int):
        if parts < 1:
            raise _device_error(spec, "expected at least 1 device", available)
        if parts > len(available):
            raise _device_error(spec, f"{parts} devices requested", available, _remedy_for_missing(available))
        return available[:parts]
    chosen = tuple(_one_device(part, spec, available) for part in parts)
    if not chosen:
        raise _device_error(spec, "no device named", available)
    if len(parts) > 1 and all(part == "/CPU:0" for part in parts):  # what `share_cpu` returns
        return chosen
    doubled = sorted({name for name in chosen if chosen.count(name) > 1})
    if doubled:
        raise _device_error(spec, f"{', '.join(doubled)} named more than once", available)
    return chosen


def simulate_devices(num_devices: int) -> tuple[str, ...]:
    """Split this machine's one device into several logical ones, which TensorFlow treats as devices.

    On a machine with GPUs the first one is split, each part with an equal share of its memory; without
    any, the CPU, and an operation then uses only its part's share of the threads. Must be called before
    TensorFlow makes its first tensor.

    Returns:
        The short names of the new devices.

    Raises:
        DeviceError: TensorFlow is already initialized, or the number is not from 1 to 64.
    """
    if not 1 <= num_devices <= MAX_SIMULATED_DEVICES:
        raise DeviceError(
            f"simulated devices: expected 1 to {MAX_SIMULATED_DEVICES}, received {num_devices}; try 2"
        )
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    cards = tf.config.list_physical_devices("GPU")
    whole = (cards or tf.config.list_physical_devices("CPU"))[0]
    limit = _card_memory_mb() * SHARE_OF_CARD / num_devices if cards else None
    part = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
    try:
        if cards:
            tf.config.set_visible_devices([whole], "GPU")
        elif not tf.config.threading.get_intra_op_parallelism_threads():
            _divide_threads(num_devices)
        tf.config.set_logical_device_configuration(whole, [part] * num_devices)
    except RuntimeError:
        available = available_devices()
        if len(available) == num_devices:
            return available
        raise DeviceError(
            f"cannot simulate {num_devices} devices: TensorFlow already uses {', '.join(available)}; "
            "call simulate_devices before the first tensor or model is made"
        ) from None
    return available_devices()


def share_cpu(num_towers: int) -> tuple[str, ...]:
    """Return the name of the CPU once for each of several towers, which share its cores.

    Each operation then uses only its tower's share of the threads: on a CPU, two operations side by side, on
    a core each, take less time than one after the other on both. Has no effect on the threads once
    TensorFlow is initialized.

    Args:
        num_towers: number of parts of a batch that are computed side by side.
    """
    if not tf.config.threading.get_intra_op_parallelism_threads():
        with contextlib.suppress(RuntimeError):
            _divide_threads(num_towers)
    return ("/CPU:0",) * num_towers


def num_to_simulate(spec: str) -> int:
    """Return how many devices must be simulated for a specification to be met; two for "all"."""
    if re.fullmatch(r"\s*\d+\s*", spec):
        return int(spec)
    return max((int(number) + 1 for number in re.findall(r"\d+", spec)), default=2)


def allow_memory_growth() -> None:
    """Let TensorFlow allocate GPU memory as needed, not all at once; no effect once it is initialized."""
    for card in tf.config.list_physical_devices("GPU"):
        if tf.config.get_logical_device_configuration(card):
            continue  # split into parts, each with its own limit
        try:
            tf.config.experimental.set_memory_growth(card, True)
        except RuntimeError:
            return


def short_name(device: str) -> str:
    """Return a device's short name: `/GPU:1` for `/job:localhost/replica:0/task:0/device:GPU:1`."""
    match = NAME.fullmatch(device)
    if not match:
        raise DeviceError(f"expected a device name such as /GPU:1, received {device!r}")
    return f"/{match[1].upper()}:{int(match[2])}"


def _divide_threads(num_shares: int) -> None:
    """Let an operation use one of several equal shares of the cores.

    Raises:
        RuntimeError: TensorFlow is already initialized.
    """
    num_threads = max(1, (os.cpu_count() or 1) // num_shares)
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)


def _parse_text(text: str, available: Sequence[str]) -> int | list[int | str]:
    if text.strip().lower() == "all":
        return len(available)
    if re.fullmatch(r"[+-]?\d+", text.strip()):
        return int(text)
    parts = [part.strip() for part in text.split(",")]
    if parts[-1] == "":
        parts.pop()
    return [int(part) if re.fullmatch(r"[+-]?\d+", part) else part for part in parts]


def _one_device(part: int | str, spec: DeviceSpec, available: Sequence[str]) -> str:
    kind = device_kind(available[0])
    if isinstance(part, bool) or not isinstance(part, int | str):
        raise _device_error(spec, f"expected an id or a name, received {part!r}", available)
    if isinstance(part, int):
        if part < 0:
            raise _device_error(spec, f"expected ids from 0, received {part}", available)
        name = f"/{kind}:{part}"
    elif not NAME.fullmatch(part):
        raise _device_error(spec, f"{part!r} is neither an id nor a name such as /{kind}:0", available)
    else:
        name = short_name(part)
    cpus = tuple(short_name(device.name) for device in tf.config.list_logical_devices("CPU"))
    if name not in (*available, *cpus):
        raise _device_error(spec, f"{name} requested", available, _remedy_for_missing(available))
    return name


def _device_error(
    spec: DeviceSpec,
    problem: str,
    available: Sequence[str],
    remedy: str = "give a number of devices, such as 1, or ids, such as 0,",
) -> DeviceError:
    return DeviceError(f"devices {spec!r}: {problem}; available: {', '.join(available)}; {remedy}")


def _remedy_for_missing(available: Sequence[str]) -> str:
    """Say what to do about a device that does not exist."""
    if available[0].startswith("/GPU"):
        return "choose among these, by number or by ids such as 0,2"
    return (
        "TensorFlow finds no GPU on this machine (check nvidia-smi, CUDA_VISIBLE_DEVICES, and "
        "`pip install tensorflow[and-cuda]`); use `simulate` to try several devices on one"
    )


def ask_nvidia_smi(*options: str) -> list[str]:
    """Return the lines that nvidia-smi prints, none if it is not installed; it knows more than TensorFlow."""
    program = shutil.which("nvidia-smi")
    if not program:
        return []
    try:  # a driver in trouble lets it wait forever
        answer = subprocess.run(
            [program, *options], capture_output=True, text=True, check=False, timeout=NVIDIA_SMI_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.strip().splitlines()


def device_kind(device: str) -> str:
    """Return the kind of a device, the first word of its short name: GPU or CPU."""
    return device.strip("/").split(":")[0]


def _card_memory_mb() -> float:
    """Return the free memory of the first visible GPU in MB; 8192 where it is unknown."""
    first_card = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    options = (f"--id={first_card}", "--query-gpu=memory.free", "--format=csv,noheader,nounits")
    first = ask_nvidia_smi(*options)[:1]
    return float(first[0]) if first and first[0].strip().isdigit() else 8192.0
