"""Starts TensorFlow without its startup messages, on the devices that a command line names."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
SILENT = "3"  # only fatal errors; the import fails by an exception


def import_tensorflow(prepare: Callable[[], object] = lambda: None) -> None:
    """Import TensorFlow and find its devices, without the dozen lines that its libraries print meanwhile.

    They print before they read any setting, so their output is captured at file descriptor 2, and shown
    if the import fails. Set TF_CPP_MIN_LOG_LEVEL below 3 to see all of it.

    Args:
        prepare: called before TensorFlow looks for its devices; its errors are raised without that output.
    """
    if os.environ.setdefault(LOG_LEVEL, SILENT) < SILENT or "tensorflow" in sys.modules:
        prepare()
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        preparing = False
        try:
            import tensorflow as tf

            preparing = True
            prepare()
            preparing = False
            tf.config.list_logical_devices()
        except Exception:
            if not preparing:
                held.seek(0)
                os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def start_devices(spec: str, *, simulate: bool, cpu_towers: int = 1) -> tuple[str, ...]:
    """Start TensorFlow and return the names of the devices asked for; warn if it does not use a GPU.

    Args:
        spec: what `multigpu.devices.parse_devices` takes.
        simulate: whether the machine's one device is split into as many as are named.
        cpu_towers: number of towers that share the CPU of a machine without GPUs; its name is then returned
            as often, whatever `spec` says.

    Raises:
        DeviceError: a device does not exist.
    """
    names: tuple[str, ...] = ()

    def prepare() -> None:
        nonlocal names
        from multigpu.devices import (
            allow_memory_growth,
            has_gpus,
            num_to_simulate,
            share_cpu,
            simulate_devices,
        )

        if simulate:
            simulate_devices(num_to_simulate(spec))
        elif cpu_towers > 1 and not has_gpus():
            names = share_cpu(cpu_towers)
        allow_memory_growth()

    import_tensorflow(prepare)
    from multigpu.devices import parse_devices
    from multigpu.unused_cards import warn_of_unused_cards

    warn_of_unused_cards()
    return names or parse_devices(spec)
