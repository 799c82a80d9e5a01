"""Cuts a stream into segments at its pauses while the sound is still coming in.

stream = SegmentedStream(StreamingRecognizer(recognizer))
for samples in microphone:                       # (n,) int16 at 16 kHz
    update = stream.feed(samples)                # update.segments have ended, update.partial is still open
segments = stream.finish()

The model sees the stream as a whole; only decoding begins again after a pause, at a blank. Memory is bounded
however long the stream is, and the segments of a `StreamingRecognizer` that is exact have the tokens of the
whole recording by greedy decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.base.types import Hypothesis
from asr.base.vocabulary import BLANK_ID
from asr.model.listening import LogProbs
from asr.transcription.long_audio import Segment, shifted
from asr.transcription.streaming import NOTHING, PARTIAL_SAMPLES, Partial, StreamingRecognizer, next_partial

PAUSE_S = 0.7  # without a token, ends a segment
LONG_S = 30.0  # a segment of this length ends at its next blank, one of twice this length anyway


class Update(NamedTuple):
    """A stream after new samples.

    Attributes:
        segments: that have ended since the last update.
        partial: transcript of the open segment.
    """

    segments: tuple[Segment, ...]
    partial: Partial


class SegmentedStream:
    """Transcribes one stream segment by segment.

    Args:
        recognizer: provides the model and the decoder.
    """

    def __init__(self, recognizer: StreamingRecognizer) -> None:
        self._decoder, self._frame_s = recognizer.decoder, recognizer.model.frame_s
        self._logits = recognizer.listener.stream()
        self._state = self._decoder.start()
        self._first_frame = self._num_frames = 0  # of the segment, and settled in all
        self._last_token_frame: int | None = None  # settled, of the open segment
        self._waiting: list[Waveform] = []  # not yet recognized
        self._num_samples = self._num_waiting = 0
        self._partial = NOTHING

    @property
    def duration_s(self) -> float:
        """Return the seconds of sound that were fed."""
        return self._num_samples / SAMPLE_RATE_HZ

    def feed(self, samples: Waveform) -> Update:
        """Accept new samples, (n,) int16 at 16 kHz; the transcript is updated every 0.32 s."""
        self._waiting.append(samples.copy())
        self._num_samples += len(samples)
        self._num_waiting += len(samples)
        if self._num_waiting < PARTIAL_SAMPLES:
            return Update((), self._partial)
        segments = self._settle(self._logits.feed(self._take_waiting()))
        ahead = self._logits.ahead()
        if self._is_over(ahead):
            segments += self._end_segment()
        self._partial = next_partial(self._decoder, self._state, ahead, self._partial)
        return Update(tuple(segments), self._partial)

    def finish(self) -> tuple[Segment, ...]:
        """End the stream and return the segments that had not ended."""
        segments = self._settle(self._logits.feed(self._take_waiting()))
        segments += self._settle(self._logits.finish())
        self._partial = NOTHING
        return (*segments, *self._end_segment())

    def _take_waiting(self) -> Waveform:
        samples = np.concatenate([np.zeros(0, np.int16), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        return samples

    def _settle(self, parts: Iterable[LogProbs]) -> list[Segment]:
        """Decode settled frames; return the segments that end within them."""
        segments: list[Segment] = []
        for log_probs in parts:
            for part, pause_follows in self._between_pauses(log_probs):
                self._decoder.feed(self._state, part)
                self._num_frames += len(part)
                if pause_follows:
                    segments += self._end_segment()
            if self._segment_s > (LONG_S if self._logits.ends_in_blank else 2 * LONG_S):
                segments += self._end_segment()
        return segments

    def _between_pauses(self, log_probs: LogProbs) -> Iterator[tuple[LogProbs, bool]]:
        """Yield frames up to the end of each pause within them, and whether it is one."""
        begin = 0
        for frame in np.flatnonzero(np.argmax(log_probs, axis=-1) != BLANK_ID).tolist():
            number = self._num_frames + frame - begin
            last = self._last_token_frame
            if last is not None and (number - last - 1) * self._frame_s >= PAUSE_S:
                yield log_probs[begin:frame], True
                begin = frame
            self._last_token_frame = number
        if begin < len(log_probs):
            yield log_probs[begin:], False

    @property
    def _segment_s(self) -> float:
        return (self._num_frames - self._first_frame) * self._frame_s

    def _is_over(self, ahead: LogProbs) -> bool:
        """Return whether a pause follows the last token."""
        if self._last_token_frame is None or not self._logits.ends_in_blank:
            return False
        if len(ahead) and np.any(np.argmax(ahead, axis=-1) != BLANK_ID):
            return False
        return self.duration_s - (self._last_token_frame + 1) * self._frame_s >= PAUSE_S

    def _end_segment(self) -> list[Segment]:
        start_s, end_s = self._first_frame * self._frame_s, self._num_frames * self._frame_s
        hypothesis: Hypothesis = self._decoder.finish(self._state, "-")
        self._state = self._decoder.start()
        self._first_frame, self._last_token_frame = self._num_frames, None
        if not hypothesis.tokens:
            return []
        return [Segment(round(start_s, 3), round(end_s, 3), shifted(hypothesis, start_s))]
