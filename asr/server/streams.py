"""Recognize streams of many clients: the windows of sound that wait for the model share its batches.

with service.streams.open(rate_hz=8000) as stream:
    update = await stream.feed([message])    # update.segments have ended, update.text is open
    segments = await stream.finish()

A stream is exact where the model depends on a bounded stretch of sound; else each stretch of speech between
two pauses is a clip of its own. `exact` says which.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from asr.audio.recording import Resampler, Waveform, pad_waveforms
from asr.base.text.wording import counted
from asr.ctc.posteriors import log_softmax
from asr.ctc.search import LogProbs
from asr.server.batching import Batcher, JobKind
from asr.server.metrics import Metrics
from asr.server.requests.limits import Limits
from asr.server.requests.received_audio import pcm_waveform, refuse_too_long
from asr.server.requests.request_errors import unavailable
from asr.transcription.decoder import Decoder
from asr.transcription.recognizer import Recognizer
from asr.transcription.streaming.stream import Stream, Update
from asr.transcription.streaming.stream_logits import StreamingRunner
from asr.transcription.transcript import Segment

KIND = "stream"
POLL_S = 0.02
MAX_JOINED_S = 4.0  # of sound at most that a lagging stream is fed in one call


class Streams:
    """The open streams of a server, up to a limit.

    Args:
        recognizer: the model and its decoder.
        limits: of the server.
        metrics: in which seconds of audio are counted.
    """

    def __init__(self, recognizer: Recognizer, limits: Limits, metrics: Metrics) -> None:
        self._recognizer, self._limits, self._metrics = recognizer, limits, metrics
        self._runner = StreamingRunner(recognizer.runner, len(recognizer.vocabulary), self._run_clip)
        self._logits = recognizer.runner.compiled(lambda logits: logits)
        self._pool = ThreadPoolExecutor(limits.max_streams, KIND)
        self._stops: list[Callable[[], None]] = []  # of open streams; used in the event loop only
        self.batcher: Batcher | None = None  # is set when it exists, since it runs what is made here

    @property
    def exact(self) -> bool:
        """Return whether the result of a stream is that of the whole recording."""
        return self._recognizer.runner.model.receptive_field() is not None

    def kind(self, max_samples: int) -> JobKind:
        """Return the kind of the batcher's jobs that streams submit."""
        return JobKind(KIND, self._run_clips, lambda clip: len(clip[0]), max_samples)

    @contextlib.contextmanager
    def slot(self, stop: Callable[[], None]) -> Iterator[None]:
        """Count a stream for the time of the block.

        Args:
            stop: ends the stream early; `stop_all` calls it.

        Raises:
            RefusalError: as many are open as are admitted.
        """
        if self.num_open >= self._limits.max_streams:
            raise unavailable("busy", f"open: {counted(self.num_open, 'stream')}, as many as are admitted")
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)

    @property
    def num_open(self) -> int:
        """Return the number of streams that are open."""
        return len(self._stops)

    async def stop_all(self, limit_s: float) -> None:
        """End all streams early, and return once their clients have the last answers, or after a time."""
        for stop in self._stops:
            stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._stops:
                    await asyncio.sleep(POLL_S)

    def open(self, rate_hz: int, decoder: Decoder | None = None) -> LiveStream:
        """Return a stream that is open.

        Args:
            rate_hz: of its samples.
            decoder: in place of the recognizer's.
        """
        stream = Stream(self._runner, decoder or self._recognizer.decoder)
        return LiveStream(stream, rate_hz, self._pool, self._limits.max_audio_s, self._metrics)

    def close(self) -> None:
        """End the threads of streams."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run_clip(self, padded: Waveform, num_samples: int) -> LogProbs:
        """Run the model on one clip, together with those of other streams."""
        assert self.batcher is not None
        log_probs: LogProbs = self.batcher.submit(KIND, (padded, num_samples)).result()
        return log_probs

    def _run_clips(self, clips: list[tuple[Waveform, int]]) -> list[LogProbs]:
        # neighbours of similar length share a part of the batch, where the runtime divides it
        order = np.argsort([num_samples for _, num_samples in clips])
        audio, _ = pad_waveforms([clips[index][0] for index in order])
        logits = self._logits(audio, np.array([clips[index][1] for index in order], np.int32))
        values, num_frames = np.asarray(logits.values), np.asarray(logits.num_frames)
        rows = [row[:length] for row, length in zip(values, num_frames, strict=True)]
        log_probs = log_softmax(np.concatenate(rows))  # once, since each call costs
        parts = np.split(log_probs, np.cumsum(num_frames)[:-1])
        return [parts[index] for index in np.argsort(order)]


class LiveStream:
    """One stream; call one method at a time.

    Args:
        stream: to feed.
        rate_hz: of its samples.
        pool: of threads.
        max_audio_s: longest stream.
        metrics: in which its seconds are counted.
    """

    def __init__(
        self, stream: Stream, rate_hz: int, pool: ThreadPoolExecutor, max_audio_s: float, metrics: Metrics
    ) -> None:
        self._stream, self._resampler, self._pool = stream, Resampler(rate_hz), pool
        self._rate_hz, self._max_audio_s, self._metrics = rate_hz, max_audio_s, metrics
        self._began_s = time.monotonic()
        self._half_sample = b""  # at the end of what was fed

    @property
    def duration_s(self) -> float:
        """Return the seconds of sound that were fed."""
        return self._stream.duration_s

    @property
    def samples_behind(self) -> int:
        """Return how many samples it is behind one that is spoken since this was opened, up to a limit."""
        behind_s = time.monotonic() - self._began_s - self.duration_s
        return round(self._rate_hz * min(max(0.0, behind_s), MAX_JOINED_S))

    async def feed(self, messages: Sequence[bytes]) -> Update:
        """Accept messages of plain samples, and return what they changed.

        Args:
            messages: int16 samples, little-endian; a message may end within a sample, as parts of a pipe do.

        Raises:
            RefusalError: the stream is too long.
        """
        data = b"".join([self._half_sample, *messages])
        samples = pcm_waveform(data)
        self._half_sample = data[samples.nbytes :]
        seconds = len(samples) / self._rate_hz
        refuse_too_long(self.duration_s + seconds, self._max_audio_s)
        update: Update = await self._run(lambda: self._stream.feed(self._resampler.feed(samples)))
        self._metrics.recognized(seconds)
        return update

    async def finish(self) -> tuple[Segment, ...]:
        """End the stream, and return the segments that had not ended."""
        segments: tuple[Segment, ...] = await self._run(self._finish)
        return segments

    async def _run(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def _finish(self) -> tuple[Segment, ...]:
        update = self._stream.feed(self._resampler.finish())
        return (*update.segments, *self._stream.finish())
