"""Answer the recording page for several speakers: who asks, work in threads, and news for those who wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from starlette.requests import Request

from asr.server.metrics import Metrics
from asr.server.requests.admission import Admission
from asr.server.requests.gate import sent_token
from asr.server.requests.limits import Limits

THREADS = 4  # that judge takes and write them
NEWS_S = 20.0  # after which a request for news is answered without any

Object = dict[str, Any]  # for JSON


class Collection(Protocol):
    """What people record: see `SpeechCollection` of data_pipeline, which this room cannot import.

    Its methods return None for what does not exist, and raise a UserError for what cannot be written.
    """

    def warm_up(self) -> None:
        """Load what the first take would wait for."""

    def session(self, speaker: str) -> Object:
        """Return what a speaker has recorded, and what remains."""

    def record(
        self, speaker: str, prompt_id: str, samples: npt.NDArray[np.int16], rate_hz: int, *, keep: bool
    ) -> Object | None:
        """Judge a take, and store it if nothing is wrong with it or it is to be kept in any case."""

    def recording(self, speaker: str, prompt_id: str) -> bytes | None:
        """Return the FLAC file of a take."""

    def drop(self, speaker: str, prompt_id: str) -> Object | None:
        """Remove a take."""

    def accept(self, speaker: str, prompt_id: str) -> Object | None:
        """Keep a take that was in doubt."""

    def checked(self, speaker: str, after: int) -> Object:
        """Return the results of the check that a speaker has not seen."""

    def finish(self) -> Object:
        """Write the manifests."""


class RecordingService:
    """The answers to the requests of speakers.

    Args:
        collection: what they record.
        speakers: the name of each by the key of the link; of a single one without a key, by "".
        limits: of the server.
    """

    def __init__(self, collection: Collection, speakers: Mapping[str, str], limits: Limits) -> None:
        self.collection, self.limits, self._speakers = collection, limits, speakers
        self.admission, self.metrics = Admission(limits), Metrics()
        self._threads = ThreadPoolExecutor(THREADS, "takes")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        self._is_stopping = False

    @property
    def keys(self) -> list[str]:
        """Return the keys of all links; empty if none is needed."""
        return [key for key in self._speakers if key]

    @property
    def status(self) -> Object:
        """Return what operators are shown of a server that is ready."""
        return {"speakers": len(self._speakers)}

    def speaker_of(self, request: Request) -> str:
        """Return who sent a request that the gate has let pass."""
        return self._speakers[sent_token(request.scope) if self.keys else ""]

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def checked(self, speaker: str, after: int) -> Object:
        """Return new results of the check for a speaker; if there are none for a while, none."""
        self._loop = asyncio.get_running_loop()
        changed, found = asyncio.Event(), {"last": after, "results": []}
        self._waiting.add(changed)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWS_S):
                    # the collection may be writing to a slow disk
                    while not (found := await self.run(self.collection.checked, speaker, after))["results"]:
                        if self._is_stopping:
                            break
                        await changed.wait()
                        changed.clear()
            return found
        finally:
            self._waiting.discard(changed)

    def on_checked(self) -> None:
        """Wake the requests that wait for results of the check; called from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for changed in self._waiting:
            changed.set()

    def load_ahead(self) -> None:
        """Judge silence in a thread, since the first judgement takes longer."""
        self._threads.submit(self.collection.warm_up)

    async def stop(self, within_s: float) -> None:
        """Answer those who wait for news."""
        self._is_stopping = True
        self._wake()

    def close(self) -> None:
        """End all threads; takes that have arrived are stored."""
        self._threads.shutdown()
