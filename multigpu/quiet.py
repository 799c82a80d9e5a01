"""TensorFlow started without its greetings, on the devices that a command line asks for."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def import_tensorflow(prepare: Callable[[], object] = lambda: None) -> None:
    """Import TensorFlow and find its devices, without the dozen lines its libraries write on the way.

    They write before they read any setting, so they are held back where they come out, at file descriptor
    2, and shown if the import fails. Who sets TF_CPP_MIN_LOG_LEVEL sees them all.

    Args:
        prepare: called before TensorFlow looks for its devices; its errors tell enough by themselves.
    """
    if LOG_LEVEL in os.environ or "tensorflow" in sys.modules:
        prepare()
        return
    os.environ[LOG_LEVEL] = "3"
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


def start_devices(spec: str, *, simulate: bool) -> tuple[str, ...]:
    """Start TensorFlow and return the names of the devices asked for.

    Args:
        spec: what `multigpu.devices.parse_devices` takes.
        simulate: whether the machine's one device is cut into as many as are named.

    Raises:
        DeviceError: a device is not there.
    """

    def prepare() -> None:
        from multigpu.devices import allow_memory_growth, num_named, simulate_devices

        if simulate:
            simulate_devices(num_named(spec))
        allow_memory_growth()

    import_tensorflow(prepare)
    from multigpu.devices import parse_devices

    return parse_devices(spec)
