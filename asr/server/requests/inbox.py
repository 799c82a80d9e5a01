"""Hold what a client sends while its earlier messages are answered, up to a size."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from asr.server.requests.request_errors import unavailable

MAX_WAITING_BYTES = 1 << 20  # received ahead of what is being answered, besides the message that exceeds it

Message = TypeVar("Message")


class Inbox(Generic[Message]):
    """The messages of one stream, in order.

    Args:
        idle_s: seconds without a message after which a client is refused.
        size_of: returns the bytes of a message.

    Attributes:
        stopped: whether the server ends the stream.
        ended: whether the client has sent its last message.
    """

    def __init__(self, idle_s: float, size_of: Callable[[Message], int]) -> None:
        self._idle_s, self._size_of = idle_s, size_of
        self._waiting: deque[Message] = deque()
        self._num_bytes = 0
        self._changed = asyncio.Event()
        self.stopped = self.ended = False

    async def put(self, message: Message) -> None:
        """Add a message, and return once there is room for the next one."""
        self._waiting.append(message)
        self._num_bytes += self._size_of(message)
        self._changed.set()
        while self._num_bytes > MAX_WAITING_BYTES:
            await self._change()

    async def take(self) -> Message | None:
        """Return the next message; None where there is none after the end, or once the server is stopping.

        Raises:
            RefusalError: the client has been silent for too long.
        """
        try:
            async with asyncio.timeout(self._idle_s):
                while not self._waiting:
                    if self.stopped or self.ended:
                        return None
                    await self._change()
        except TimeoutError:
            raise unavailable("idle", f"no message for {self._idle_s:g} s") from None
        return self.next()

    def peek(self) -> Message | None:
        """Return the message that `next` returns; None where none is waiting."""
        return self._waiting[0] if self._waiting else None

    def next(self) -> Message:
        """Remove and return a message that is waiting."""
        message = self._waiting.popleft()
        self._num_bytes -= self._size_of(message)
        self._changed.set()
        return message

    def stop(self) -> None:
        """End the stream after the messages that were received, as if its client did."""
        self.stopped = True
        self._changed.set()

    def end(self) -> None:
        """Accept that the client sends nothing more."""
        self.ended = True
        self._changed.set()

    async def until_ended(self) -> None:
        """Return once the client sends nothing more."""
        while not self.ended:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
