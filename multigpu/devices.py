"""Which devices to use: `2`, `"0,2,3"`, `[0, 2]`, `"all"`, `["/GPU:1", "/GPU:3"]`, and simulated ones.

from multigpu.devices import parse_devices, simulate_devices

simulate_devices(2)         # a machine without GPUs gets two logical CPUs, one card becomes two
parse_devices("all")        # ("/CPU:0", "/CPU:1")
"""

from __future__ import annotations

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
MOST_PARTS = 64  # of one device
SHARE_OF_CARD = 0.9  # of its memory, for simulated devices: CUDA itself needs some


def available_devices() -> tuple[str, ...]:
    """Short names of the devices to train on: the GPUs, or without one the CPUs (several if simulated)."""
    for kind in ("GPU", "CPU"):
        devices = tf.config.list_logical_devices(kind)
        if devices:
            return tuple(short_name(device.name) for device in devices)
    return ()


def parse_devices(spec: DeviceSpec) -> tuple[str, ...]:
    """The short names of the devices that a specification means, such as ("/GPU:0", "/GPU:2").

    Turns memory growth on, where TensorFlow has not yet taken hold of the GPUs.

    Args:
        spec: a number, which means the first so many; ids, as a list or separated by commas; names;
            or "all". A number in a string is a number: "2" is the first two, "2," is number 2.

    Raises:
        DeviceError: a device is not there, or named twice; or the specification means none.
    """
    allow_memory_growth()
    there = available_devices()
    parts = _parse_text(spec, there) if isinstance(spec, str) else spec
    if isinstance(parts, bool) or not isinstance(parts, int | Sequence):
        raise _refusal(spec, "expected a number, ids, names or all", there)
    if isinstance(parts, int):
        if parts < 1:
            raise _refusal(spec, "expected at least 1 device", there)
        if parts > len(there):
            raise _refusal(spec, f"{parts} devices asked for", there, _more_devices(there))
        return there[:parts]
    chosen = tuple(_one_device(part, spec, there) for part in parts)
    if not chosen:
        raise _refusal(spec, "no device named", there)
    doubled = sorted({name for name in chosen if chosen.count(name) > 1})
    if doubled:
        raise _refusal(spec, f"{', '.join(doubled)} named more than once", there)
    return chosen


def simulate_devices(num_devices: int) -> tuple[str, ...]:
    """Cut this machine's one device into several logical ones, which TensorFlow treats as devices.

    On a machine with a GPU its first card is cut, each part with an equal share of its memory; without
    one, the CPU, an operation then taking only a part's share of the threads. To be called before
    TensorFlow makes its first tensor.

    Returns:
        The short names of the new devices.

    Raises:
        DeviceError: TensorFlow is already at work, or the number is not from 1 to 64.
    """
    if not 1 <= num_devices <= MOST_PARTS:
        raise DeviceError(f"simulated devices: expected 1 to {MOST_PARTS}, received {num_devices}; try 2")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    cards = tf.config.list_physical_devices("GPU")
    whole = (cards or tf.config.list_physical_devices("CPU"))[0]
    limit = _card_memory_mb() * SHARE_OF_CARD / num_devices if cards else None
    part = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
    try:
        if cards:
            tf.config.set_visible_devices([whole], "GPU")
        elif not tf.config.threading.get_intra_op_parallelism_threads():
            num_threads = max(1, (os.cpu_count() or 1) // num_devices)
            tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.set_logical_device_configuration(whole, [part] * num_devices)
    except RuntimeError:
        there = available_devices()
        if len(there) == num_devices:
            return there
        raise DeviceError(
            f"cannot simulate {num_devices} devices: TensorFlow already works on {', '.join(there)}; "
            "call simulate_devices before the first tensor or model is made"
        ) from None
    return available_devices()


def num_named(spec: str) -> int:
    """How many devices have to be simulated for a specification to be met; two for "all"."""
    if re.fullmatch(r"\s*\d+\s*", spec):
        return int(spec)
    return max((int(number) + 1 for number in re.findall(r"\d+", spec)), default=2)


def allow_memory_growth() -> None:
    """Let TensorFlow take GPU memory as it needs it, not all at once; no effect once it is at work."""
    for card in tf.config.list_physical_devices("GPU"):
        if tf.config.get_logical_device_configuration(card):
            continue  # cut into parts, each with its limit
        try:
            tf.config.experimental.set_memory_growth(card, True)
        except RuntimeError:
            return


def short_name(device: str) -> str:
    """`/job:localhost/replica:0/task:0/device:GPU:1` and its like as `/GPU:1`."""
    match = NAME.fullmatch(device)
    if not match:
        raise DeviceError(f"{device!r}: not the name of a device; expected one such as /GPU:1")
    return f"/{match[1].upper()}:{int(match[2])}"


def _parse_text(text: str, there: Sequence[str]) -> int | list[int | str]:
    if text.strip().lower() == "all":
        return len(there)
    if re.fullmatch(r"[+-]?\d+", text.strip()):
        return int(text)
    parts = [part.strip() for part in text.split(",")]
    if parts[-1] == "":
        parts.pop()
    return [int(part) if re.fullmatch(r"[+-]?\d+", part) else part for part in parts]


def _one_device(part: int | str, spec: DeviceSpec, there: Sequence[str]) -> str:
    kind = device_kind(there[0])
    if isinstance(part, bool) or not isinstance(part, int | str):
        raise _refusal(spec, f"expected an id or a name, received {part!r}", there)
    if isinstance(part, int):
        if part < 0:
            raise _refusal(spec, f"expected ids from 0, received {part}", there)
        name = f"/{kind}:{part}"
    elif not NAME.fullmatch(part):
        raise _refusal(spec, f"{part!r} is neither an id nor a name such as /{kind}:0", there)
    else:
        name = short_name(part)
    cpus = tuple(short_name(device.name) for device in tf.config.list_logical_devices("CPU"))
    if name not in (*there, *cpus):
        raise _refusal(spec, f"{name} asked for", there, _more_devices(there))
    return name


def _refusal(
    spec: DeviceSpec,
    what: str,
    there: Sequence[str],
    remedy: str = "say how many, such as 1, or which, as 0,",
) -> DeviceError:
    return DeviceError(f"devices {spec!r}: {what}; there is {', '.join(there)}: {remedy}")


def _more_devices(there: Sequence[str]) -> str:
    """What to do for them."""
    if there[0].startswith("/GPU"):
        return "choose among these, by number or as ids such as 0,2"
    return (
        "this machine shows TensorFlow no GPU (look at nvidia-smi, CUDA_VISIBLE_DEVICES, and "
        "`pip install tensorflow[and-cuda]`); `simulate` tries several devices on one"
    )


def ask_nvidia_smi(*options: str) -> list[str]:
    """The lines that it answers; none without it. It comes with the driver, and TensorFlow tells less."""
    program = shutil.which("nvidia-smi")
    if not program:
        return []
    answer = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    return answer.stdout.strip().splitlines()


def device_kind(device: str) -> str:
    """The first word of a short name: GPU or CPU."""
    return device.strip("/").split(":")[0]


def _card_memory_mb() -> float:
    """Of the first card in sight."""
    first_card = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    options = (f"--id={first_card}", "--query-gpu=memory.free", "--format=csv,noheader,nounits")
    first = ask_nvidia_smi(*options)[:1]
    return float(first[0]) if first and first[0].strip().isdigit() else 8192.0
