"""Let writing to files fail as on a full disk."""

import contextlib
import resource
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def largest_file(num_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size; to write more is an error (EFBIG)."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
