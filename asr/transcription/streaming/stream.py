"""Transcribes a stream while the sound is still coming in, segment by segment.

from asr import Recognizer

stream = Recognizer.load("runs/demo").stream()
for samples in microphone:                       # (n,) int16 at 16 kHz, any n
    update = stream.feed(samples)                # update.segments have ended, update.text is of the open one
segments = stream.finish()

The model sees the stream as a whole; only decoding begins again after a pause, at a blank. Memory is bounded
however long the stream is.

A model whose logits depend on a bounded stretch of sound (`AcousticModel.receptive_field`) gives the same
logits for a stream as for the whole recording, and a token is final when its stretch is complete; by greedy
decoding, the segments have the tokens of the whole recording.

Other models, those that normalise their features over the clip (as the default configuration does) or have
gates, receive each stretch of speech between two pauses as a clip of its own, and its tokens are final when
a pause follows or the stretch has grown to 25 s.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.base.errors import UserError
from asr.base.vocabulary import BLANK_ID
from asr.ctc.search import LogProbs
from asr.transcription.decoder import Decoder
from asr.transcription.streaming.stream_logits import STEP_SAMPLES, StreamingRunner
from asr.transcription.transcript import Segment

PAUSE_S = 0.7  # without a token, ends a segment
LONG_S = 30.0  # a segment of this length ends at its next blank, one of twice this length anyway


class Update(NamedTuple):
    """A stream after new samples.

    Attributes:
        segments: that have ended since the last update.
        text: of the open segment, which may still change.
        tokens: of the open segment.
        num_final: how many of these tokens no further sound can change.
    """

    segments: tuple[Segment, ...] = ()
    text: str = ""
    tokens: tuple[str, ...] = ()
    num_final: int = 0


class Stream:
    """The transcription of one stream: feed it samples as they come in, then finish it.

    Args:
        runner: the model.
        decoder: of its logits.
    """

    def __init__(self, runner: StreamingRunner, decoder: Decoder) -> None:
        self._decoder, self._search = decoder, decoder.search
        self._open_writer = decoder.writer.without_itn  # what was shown cannot become a number
        self._frame_s = runner.model.frame_s
        self._logits = runner.stream()
        self._state = self._search.start()
        self._first_frame = self._num_frames = 0  # of the segment, and settled in all
        self._last_token_frame: int | None = None  # settled, of the open segment
        self._waiting: list[Waveform] = []  # not yet recognized
        self._num_samples = self._num_waiting = 0
        self._open = Update()
        self._finished = False

    @property
    def duration_s(self) -> float:
        """Return the seconds of sound that were fed."""
        return self._num_samples / SAMPLE_RATE_HZ

    def feed(self, samples: Waveform) -> Update:
        """Accept new samples; the transcript is updated every 0.32 s.

        Args:
            samples: (n,) int16 at 16 kHz, of any length.

        Raises:
            UserError: the samples have another type or shape.
        """
        assert not self._finished, "a finished stream accepts no samples"
        if samples.dtype != np.int16 or samples.ndim != 1:
            raise UserError(
                "`samples`: expected int16 samples of shape (n,) at 16,000 Hz, received "
                f"{samples.dtype} of shape {samples.shape}; convert them"
            )
        self._waiting.append(samples.copy())
        self._num_samples += len(samples)
        self._num_waiting += len(samples)
        if self._num_waiting < STEP_SAMPLES:
            return self._open
        segments = self._settle(self._logits.feed(self._take_waiting()))
        ahead = self._logits.ahead()
        if self._is_over(ahead):
            segments += self._end_segment()
        self._open = self._open_segment(ahead)
        return self._open._replace(segments=tuple(segments))

    def finish(self) -> tuple[Segment, ...]:
        """End the stream and return the segments that had not ended."""
        assert not self._finished, "a stream can be finished only once"
        self._finished = True
        segments = self._settle(self._logits.feed(self._take_waiting()))
        segments += self._settle(self._logits.finish())
        return (*segments, *self._end_segment())

    def _open_segment(self, ahead: LogProbs) -> Update:
        """Return the open segment, if (T, V) log probabilities that may still change follow."""
        supposed = copy.deepcopy(self._state)
        self._search.feed(supposed, ahead)
        (tokens, _), (_, num_final) = self._search.partial(supposed), self._search.partial(self._state)
        text = self._open.text if tokens == self._open.tokens else self._open_writer.text(tokens)
        return Update((), text, tokens, num_final)

    def _take_waiting(self) -> Waveform:
        samples = np.concatenate([np.zeros(0, np.int16), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        return samples

    def _settle(self, parts: Iterable[LogProbs]) -> list[Segment]:
        """Decode settled frames; return the segments that end within them."""
        segments: list[Segment] = []
        for log_probs in parts:
            for part, pause_follows in self._between_pauses(log_probs):
                self._search.feed(self._state, part)
                self._num_frames += len(part)
                if pause_follows:
                    segments += self._end_segment()
            segment_s = (self._num_frames - self._first_frame) * self._frame_s
            if segment_s > (LONG_S if self._logits.ends_in_blank else 2 * LONG_S):
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

    def _is_over(self, ahead: LogProbs) -> bool:
        """Return whether a pause follows the last token."""
        if self._last_token_frame is None or not self._logits.ends_in_blank:
            return False
        if len(ahead) and np.any(np.argmax(ahead, axis=-1) != BLANK_ID):
            return False
        return self.duration_s - (self._last_token_frame + 1) * self._frame_s >= PAUSE_S

    def _end_segment(self) -> list[Segment]:
        start_s = self._first_frame * self._frame_s
        end_s = min(self._num_frames * self._frame_s, self.duration_s)  # the last frame may reach beyond it
        hypotheses = self._search.finish(self._state)
        self._state = self._search.start()
        self._first_frame, self._last_token_frame = self._num_frames, None
        segment = self._decoder.writer.segment(hypotheses, round(start_s, 3), round(end_s, 3))
        return [segment] if segment.words else []
