"""Turns a stream of sound into log probabilities: settled ones, which are final, and those that may change.

stream = StreamingRunner(runner, num_outputs).stream()
for samples in microphone:
    settled = stream.feed(samples)       # (T, V) each; stream.ahead() holds the frames that may change
settled = stream.finish()
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from asr.audio.recording import FRAME_SAMPLES, SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform
from asr.audio.voice_activity import BRIEF, Cutter, Pauses, Piece, SpeechDetector, pauses_for
from asr.base.vocabulary import BLANK_ID
from asr.ctc.search import LogProbs
from asr.model.runner import ModelRunner, ReceptiveField, RunClip

BULK_S = 8.0  # sound that arrives at once goes through the model in windows of this length
STEP_SAMPLES = 32 * FRAME_SAMPLES  # 0.32 s; voice activity is detected step by step
SHAPE_SAMPLES = 2 * SAMPLE_RATE_HZ
IMPOSSIBLE = -1e4  # natural logarithm of a probability of 0

Infer: TypeAlias = Callable[[Waveform], LogProbs]  # runs the model on a clip as on a whole recording


class StreamingRunner:
    """A runner of an acoustic model for streams, one after the other or at the same time.

    Args:
        runner: runs the model.
        num_outputs: V.
        run_clip: runs it in place of the runner; None for the runner.
    """

    def __init__(self, runner: ModelRunner, num_outputs: int, run_clip: RunClip | None = None) -> None:
        self.model, self._num_outputs = runner.model, num_outputs
        self._run_clip = run_clip or runner.clip_runner()

    def stream(self) -> FieldLogits | PieceLogits:
        """Start a new stream, and return the object to feed its sound to."""
        field, frame_samples = self.model.receptive_field(), self.model.frame_samples
        if field is None:
            pauses = pauses_for(self.model.ignores_silence)
            return PieceLogits(self._log_probs, self._num_outputs, frame_samples, pauses)
        return FieldLogits(self._log_probs, field, frame_samples)

    def _log_probs(self, waveform: Waveform) -> LogProbs:
        """Return the (T, V) log probabilities of a clip, which is padded so that few shapes are compiled."""
        if len(waveform) < WINDOW_SAMPLES:
            return np.zeros((0, self._num_outputs), np.float32)
        padded = np.pad(waveform, (0, -len(waveform) % SHAPE_SAMPLES))
        return self._run_clip(padded, len(waveform))


class FieldLogits:
    """A stream's logits by a model with a bounded receptive field, equal to those of the whole recording.

    The model runs on the new samples and the field around them. Frames whose field is complete are settled.

    Args:
        infer: runs the model.
        field: samples before and after sample `frame_samples` t that frame t depends on, or its chunk.
        frame_samples: from one frame to the next.

    Attributes:
        ends_in_blank: whether a blank is at the end of what is settled.
    """

    def __init__(self, infer: Infer, field: ReceptiveField, frame_samples: int) -> None:
        self.ends_in_blank = True
        self._infer, self._field, self._frame_samples = infer, field, frame_samples
        self._held = np.zeros(0, np.int16)
        self._begin = 0  # of the samples held, in samples; a multiple of a chunk
        self._chunk_samples = field.chunk * frame_samples
        self._num_settled = 0  # frames
        self._ahead = infer(self._held)

    def feed(self, samples: Waveform) -> Iterator[LogProbs]:
        """Yield the log probabilities that further samples settle."""
        self._held = np.concatenate([self._held, samples])
        # the samples held may begin up to a chunk before what the next one needs
        bulk = max(round(BULK_S * SAMPLE_RATE_HZ), 2 * self._chunk_samples)
        window = self._field.before + self._field.after + bulk
        while len(self._held) > window:
            yield self._settle(window)
        yield self._settle(len(self._held))

    def ahead(self) -> LogProbs:
        """Return the log probabilities that would follow if the stream ended now."""
        return self._ahead

    def finish(self) -> Iterator[LogProbs]:
        """Yield the remaining log probabilities at the end of the stream."""
        yield self._ahead

    def _settle(self, window: int) -> LogProbs:
        log_probs = self._infer(self._held[:window])[self._num_settled - self._begin // self._frame_samples :]
        # the field of the other frames reaches into padding where more sound may come
        num_complete = (self._begin + window - 1 - self._field.after) // self._frame_samples + 1
        num_complete -= num_complete % self._field.chunk
        num_new = min(max(0, num_complete - self._num_settled), len(log_probs))
        self._num_settled += num_new
        if num_new:
            self.ends_in_blank = _is_blank(log_probs[num_new - 1])
        self._ahead = log_probs[num_new:]
        needed_from = self._num_settled * self._frame_samples - self._field.before
        drop = max(0, needed_from // self._chunk_samples * self._chunk_samples - self._begin)
        self._held, self._begin = self._held[drop:].copy(), self._begin + drop
        return log_probs[:num_new]


class PieceLogits:
    """A stream's logits by a model that depends on the whole clip: speech between two pauses is a clip.

    A stretch is settled when a pause follows it, or when it grows too long for one piece. Pauses become
    blanks.

    Args:
        infer: runs the model.
        num_outputs: V.
        frame_samples: from one frame to the next.

    Attributes:
        ends_in_blank: whether a blank is at the end of what is settled, or begins what follows.
    """

    def __init__(self, infer: Infer, num_outputs: int, frame_samples: int, pauses: Pauses = BRIEF) -> None:
        self.ends_in_blank = True
        self._infer, self._num_outputs, self._frame_samples = infer, num_outputs, frame_samples
        self._cutter = Cutter(frame_samples, pauses=pauses)
        self._waiting = np.zeros(0, np.int16)  # less than a step
        self._detector = SpeechDetector()
        self._num_settled = 0  # frames, from the beginning

    def feed(self, samples: Waveform) -> Iterator[LogProbs]:
        """Yield the log probabilities that further samples settle."""
        self._waiting = np.concatenate([self._waiting, samples])
        while len(self._waiting) >= STEP_SAMPLES:
            step, self._waiting = self._waiting[:STEP_SAMPLES], self._waiting[STEP_SAMPLES:]
            yield from map(self._settle, self._cutter.feed(step, self._detector.feed(step)))

    def ahead(self) -> LogProbs:
        """Return the log probabilities that would follow if the stream ended now."""
        piece = self._cutter.open_piece()
        return np.zeros((0, self._num_outputs), np.float32) if piece is None else self._new_frames(piece)

    def finish(self) -> Iterator[LogProbs]:
        """Yield the remaining log probabilities at the end of the stream."""
        rest, self._waiting = self._waiting, self._waiting[:0]
        pieces = itertools.chain(self._cutter.feed(rest, self._detector.feed(rest)), self._cutter.finish())
        yield from map(self._settle, pieces)

    def _settle(self, piece: Piece) -> LogProbs:
        log_probs = self._new_frames(piece)
        if piece.shared_behind:
            num_shared = piece.shared_behind // self._frame_samples
            log_probs = log_probs[: len(log_probs) - num_shared + seam(log_probs[-num_shared:])]
        self._num_settled += len(log_probs)
        self.ends_in_blank = not piece.shared_behind or not len(log_probs) or _is_blank(log_probs[-1])
        return log_probs

    def _new_frames(self, piece: Piece) -> LogProbs:
        """Return the unsettled frames of a piece, preceded by blanks since the last settled frame."""
        log_probs = self._infer(piece.waveform)
        first = (piece.begin + self._frame_samples // 2) // self._frame_samples
        if piece.overlap:
            return log_probs[self._num_settled - first :]
        # one blank at least: the same token may end one piece and begin the next
        num_blanks = max(first - self._num_settled, min(1, self._num_settled))
        blanks = np.full((num_blanks, self._num_outputs), IMPOSSIBLE, np.float32)
        blanks[:, BLANK_ID] = 0.0
        return np.concatenate([blanks, log_probs])


def _is_blank(frame: LogProbs) -> bool:
    return bool(np.argmax(frame) == BLANK_ID)


def seam(*overlaps: LogProbs) -> int:
    """Return the frame at which to switch from one clip to the next, inside the stretch that both contain.

    It is the frame of the middle half where a blank is most probable, neighbouring frames included; ties go
    to the frame nearest to the middle.

    Args:
        overlaps: (T, V) log probabilities of the shared stretch, from one clip or from both.
    """
    size = min(map(len, overlaps))
    blank = np.sum([log_probs[:size, BLANK_ID] for log_probs in overlaps], axis=0)
    around = np.convolve(np.pad(blank, 1, mode="edge"), np.ones(3), "valid")
    indices = np.arange(size // 4, max(size // 4 + 1, size - size // 4))
    return int(indices[np.argmax(around[indices] - 1e-3 * np.abs(indices - size // 2) / size)])
