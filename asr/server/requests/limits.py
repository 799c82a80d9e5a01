"""Hold the limits of a server, each with a default that suits a machine with a few cores."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from asr.base.errors import UserError

MAX_CHANNELS = 16  # of a recording
MAX_HOT_WORD_CHARS = 100  # of one that a client may ask to be favoured
MAX_SYLLABLES = 20_000  # of a request to convert them


@dataclass(frozen=True)
class Limits:
    """The limits of a server.

    Attributes:
        max_body_mb: largest body of a request, in MiB.
        max_audio_s: longest recording, in seconds.
        max_queue: requests that are received, waiting or being recognized; more are refused.
        max_pending_mb: memory of their bodies and samples together, in MiB.
        max_connections: requests and streams that are open at the same time.
        request_timeout_s: seconds from the beginning of a request to its answer.
        batch_s: seconds of audio, with padding, that the model recognizes at once.
        drain_s: seconds that requests in progress have to end when the server is stopped.
        max_streams: that are open at the same time.
        stream_idle_s: seconds without a message after which a stream is closed.
        max_hot_words: words that a client may ask to be favoured.

    Raises:
        UserError: a limit is not above 0.
    """

    max_body_mb: int = 128
    max_audio_s: float = 3600.0
    max_queue: int = 256
    max_pending_mb: int = 1024
    max_connections: int = 512
    request_timeout_s: float = 300.0
    batch_s: float = 60.0
    drain_s: float = 30.0
    max_streams: int = 128
    stream_idle_s: float = 60.0
    max_hot_words: int = 1000

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise UserError(f"`{name}={value}`: expected a number above 0")

    @property
    def max_body_bytes(self) -> int:
        """Return the largest body in bytes."""
        return self.max_body_mb << 20

    @property
    def max_pending_bytes(self) -> int:
        """Return the memory of all requests in bytes."""
        return self.max_pending_mb << 20
