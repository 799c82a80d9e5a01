"""Recognize the recordings of many clients with one model.

service = RecognitionService(recognizer, "demo", Limits())
with service.admission.ticket() as ticket:
    read = functools.partial(received_waveform, body, max_audio_s, ticket.reserve_samples)
    transcript = await service.recognize(ticket, read)

What `asr transcribe` recognizes as a whole is a clip, and shares batches with other clips. The pieces of a
longer recording are recognized in order, in batches of their own, which take turns with the others.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.audio.opening import LongRecording, Opened, opened
from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform
from asr.base.errors import UserError
from asr.base.types import Logits
from asr.ctc.hot_words import HotWords, LabelOf
from asr.language.hanzi.converter import Converter
from asr.model.runner import ModelRunner, Reduce, WrappedRunner
from asr.server.batching import Batcher, JobKind
from asr.server.metrics import Metrics
from asr.server.padding import PaddedRunner
from asr.server.requests.admission import Admission, Ticket
from asr.server.requests.hot_words import refuse_too_many
from asr.server.requests.limits import Limits
from asr.server.streams import Streams
from asr.transcription.clips import ClipRecognizer
from asr.transcription.decoder import Decoder
from asr.transcription.long_audio import LongAudioRecognizer
from asr.transcription.recognizer import Recognizer
from asr.transcription.transcript import Segment, Transcript

DECODING_THREADS = 2  # threads that decode recordings, for short bodies and for long ones
LONG_BODY_BYTES = 1 << 20  # half a minute of plain samples, some minutes of compressed ones
NO_READING = "-"  # a syllable of no word, for which all characters are searched
LONG_AT_ONCE = 16  # threads of long recordings, which wait most of the time
CLIPS_AT_ONCE = 4  # threads of clips with a decoder of their own

OnSegment = Callable[[Segment], None]


class RecognitionService:
    """The recognition of recordings; methods that are not `async` may be called from any thread.

    Args:
        recognizer: the model and its decoder.
        name: of the model.
        limits: of the server.
        label_of: returns the tokens of text, for hot words; None where they are tokens.
    """

    def __init__(
        self, recognizer: Recognizer, name: str, limits: Limits, label_of: LabelOf | None = None
    ) -> None:
        runner = PaddedRunner(recognizer.runner)
        self.recognizer = Recognizer(runner, recognizer.vocabulary, recognizer.decoder)
        self.name, self.limits, self._label_of = name, limits, label_of
        self.admission, self.metrics = Admission(limits), Metrics()
        batch_samples = round(limits.batch_s * SAMPLE_RATE_HZ)
        self._batch_samples = batch_samples * runner.num_devices
        clips = ClipRecognizer(runner, self.recognizer.decoder)
        self._logits = runner.compiled(lambda logits: logits)
        self.streams = Streams(self.recognizer, limits, self.metrics)
        kinds = [
            JobKind("clip", clips.segments, len, self._batch_samples),
            self.streams.kind(self._batch_samples),
            JobKind(
                "pieces",
                lambda batches: [self._logits(*batch) for batch in batches],
                lambda batch: batch[0].size,
                1,
            ),
        ]
        self.batcher = self.streams.batcher = Batcher(kinds, self.metrics.ran)
        self._readers = ThreadPoolExecutor(DECODING_THREADS, "reader")
        self._long_readers = ThreadPoolExecutor(DECODING_THREADS, "long-reader")
        self._hot_words = ThreadPoolExecutor(1, "hot-words")  # a list of them may take seconds
        self._long = ThreadPoolExecutor(LONG_AT_ONCE, "long")
        self._clips = ThreadPoolExecutor(CLIPS_AT_ONCE, "clips")
        self._watch()

    def _watch(self) -> None:
        admission, watch = self.admission, self.metrics.watch
        watch("asr_requests_in_progress", "Requests admitted", lambda: admission.num_requests)
        watch("asr_pending_bytes", "Memory of their bodies and samples", lambda: admission.num_bytes)
        watch("asr_open_streams", "Streams that are open", lambda: self.streams.num_open)
        for kind in ("clip", "stream", "pieces"):
            about = f"Jobs of kind {kind} that wait for the model"
            watch(f"asr_waiting_{kind}", about, functools.partial(self.batcher.num_waiting, kind))

    @functools.cached_property
    def converter(self) -> Converter:
        """Return what converts syllables to hanzi: the decoder's own, or the general model."""
        return self.recognizer.decoder.writer.converter or Converter.load()

    def converted(self, syllables: Sequence[str]) -> str:
        """Return the hanzi of toned syllables."""
        return self.converter.convert(syllables).text if syllables else ""

    def warm_up(self) -> None:
        """Run the model once, since the first batch takes longer, and compile the search for hanzi."""
        self.batcher.submit("clip", np.zeros(SAMPLE_RATE_HZ, np.int16)).result()
        if self.recognizer.decoder.writer.converter is not None:
            self.recognizer.decoder.writer.converter.compile()

    def load_ahead(self) -> None:
        """Load in a thread what the first text would load, which takes a second."""
        if self.recognizer.decoder.writer.converter is not None:
            self._readers.submit(self.converted, [NO_READING])

    @property
    def status(self) -> dict[str, Any]:
        """Return what operators are shown of a server that is ready."""
        return {"model": self.name, "exact_streams": self.streams.exact}

    async def stop(self, within_s: float) -> None:
        """Let streams in progress end within some seconds; no other begins."""
        await self.streams.stop_all(within_s)

    def close(self) -> None:
        """End all threads; what waits is cancelled."""
        self.batcher.close()
        self.streams.close()
        for pool in (self._readers, self._long_readers, self._hot_words, self._long, self._clips):
            pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function that computes for a while in one of the threads that read short recordings."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def decoder_favouring(
        self, weights: Mapping[str, float], n_best: int = 1, *, is_spoken: bool = False
    ) -> Decoder | None:
        """Return a decoder of a client's own; None for the usual one. Cancelling drops the work.

        Args:
            weights: of the words that it favours; 1 is usual. Words that the model has no tokens for are left
                out.
            n_best: hypotheses that it returns, at least.
            is_spoken: whether it writes numbers as they are spoken.

        Raises:
            RefusalError: there are too many words, or one is too long.
        """
        refuse_too_many(weights, self.limits)
        usual, stopped = self.recognizer.decoder, threading.Event()
        work = functools.partial(self._decoder_favouring, weights, n_best, stopped)
        decoder: Decoder = usual
        if weights or n_best > 1:
            try:
                decoder = await asyncio.get_running_loop().run_in_executor(self._hot_words, work)
            finally:
                stopped.set()
        decoder = decoder.without_itn if is_spoken else decoder
        return None if decoder == usual else decoder

    def _decoder_favouring(
        self, weights: Mapping[str, float], n_best: int, stopped: threading.Event
    ) -> Decoder:
        def lines() -> Iterator[str]:
            for word, weight in weights.items():
                if stopped.is_set():
                    raise CancelledError
                yield f"{' '.join(word.split())}\t{weight}"

        usual = self.recognizer.decoder
        try:
            hot_words = HotWords.of(lines(), self.recognizer.vocabulary, self._label_of)
        except UserError:  # the model has tokens for none of them
            return usual.with_(n_best=n_best) if n_best > 1 else usual
        return usual.with_(hot_words, n_best)

    async def recognize(
        self,
        ticket: Ticket,
        read: Callable[[], Waveform],
        on_segment: OnSegment = lambda _: None,
        decoder: Decoder | None = None,
    ) -> Transcript:
        """Recognize a recording of any length.

        Args:
            ticket: of the request.
            read: returns the recording, (S,) int16 at 16 kHz; it is called in another thread.
            on_segment: receives each segment once it is recognized, in the event loop.
            decoder: in place of the recognizer's, from `decoder_favouring`.

        Raises:
            RefusalError: by `read`, or all requests together would hold too much memory.
        """
        pool = self._long_readers if ticket.num_bytes > LONG_BODY_BYTES else self._readers
        loop = asyncio.get_running_loop()
        recording: Opened = await loop.run_in_executor(pool, self._read_and_open, read, ticket)
        if isinstance(recording, LongRecording):
            assert isinstance(recording.source, np.ndarray)
            transcript = await self._recognize_long(recording.source, on_segment, decoder)
        else:
            transcript = await self._recognize_clip(recording, on_segment, decoder)
        self.metrics.recognized(transcript.duration_s)
        return transcript

    async def _recognize_clip(
        self, waveform: Waveform, on_segment: OnSegment, decoder: Decoder | None
    ) -> Transcript:
        if len(waveform) < WINDOW_SAMPLES:
            return self._transcript([], waveform)
        if decoder is None:
            segment: Segment = await asyncio.wrap_future(self.batcher.submit("clip", waveform))
        else:
            segment = await self._decoded_by(decoder, waveform)
        transcript = self._transcript([segment], waveform)
        for spoken in transcript.segments:
            on_segment(spoken)
        return transcript

    def _transcript(self, segments: Sequence[Segment], waveform: Waveform) -> Transcript:
        return Transcript.of(segments, len(waveform) / SAMPLE_RATE_HZ, self.recognizer.vocabulary.unit)

    async def _decoded_by(self, decoder: Decoder, waveform: Waveform) -> Segment:
        """Recognize a clip as a whole, as `asr transcribe` does, with a decoder of the client's own."""

        def work(runner: ModelRunner) -> Segment:
            (segment,) = ClipRecognizer(runner, decoder).segments([waveform])
            return segment

        segment: Segment = await self._in_turns(self._clips, work)
        return segment

    async def _recognize_long(
        self, waveform: Waveform, on_segment: OnSegment, decoder: Decoder | None
    ) -> Transcript:
        loop = asyncio.get_running_loop()

        def work(runner: ModelRunner) -> list[Segment]:
            decoding = decoder or self.recognizer.decoder
            segments = []
            for segment in LongAudioRecognizer(runner, decoding, self._batch_samples).segments(waveform):
                segments.append(segment)
                loop.call_soon_threadsafe(on_segment, segment)
            return segments

        return self._transcript(await self._in_turns(self._long, work), waveform)

    async def _in_turns(self, pool: ThreadPoolExecutor, work: Callable[[ModelRunner], Any]) -> Any:
        """Run work in a thread, with a runner whose batches take turns with others; cancelling drops it."""
        stopped = threading.Event()
        runner = _BatchedRunner(self.recognizer.runner, self.batcher, stopped)
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, runner)
        finally:
            stopped.set()

    def _read_and_open(self, read: Callable[[], Waveform], ticket: Ticket) -> Opened:
        waveform = read()
        ticket.reserve_samples(waveform.nbytes)
        return opened(waveform, pauses_matter=not self.recognizer.runner.model.ignores_silence)


class _BatchedRunner(WrappedRunner):
    """A runner for one recording, which takes turns with other clients, batch by batch.

    Args:
        runner: of the model.
        batcher: runs batches of the kind "pieces".
        stopped: set when nobody waits for the recording any more.
    """

    def __init__(self, runner: ModelRunner, batcher: Batcher, stopped: threading.Event) -> None:
        super().__init__(runner)
        self._batcher, self._stopped = batcher, stopped
        self.num_devices = 1  # the size of a batch is that of all devices

    @override
    def compiled(self, reduce: Reduce) -> Callable[..., Any]:
        def run(audio: Waveform, num_samples: npt.NDArray[np.int32]) -> Any:
            if self._stopped.is_set():
                raise CancelledError
            future: Future[Logits] = self._batcher.submit("pieces", (audio, num_samples))
            return reduce(future.result())

        return run
