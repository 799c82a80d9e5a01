"""Sound that comes in bit by bit -> log probabilities, those that are settled and those that may change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.audio.voice_activity import FRAME_SAMPLES, Cutter, Piece, SpeechDetector
from asr.base.vocabulary import BLANK_ID
from asr.model.features import ReceptiveField
from asr.recognition.decoding.incremental import LogProbs

BULK_S = 8.0  # of what comes at once, so much is heard at a time
STEP_SAMPLES = 32 * FRAME_SAMPLES  # 0.32 s; whether somebody speaks is judged after each
NEVER = -1e4  # natural logarithm

Hear = Callable[[Waveform], LogProbs]  # of a clip, as if it were a whole recording


class FieldLogits:
    """Of a model whose logits depend on a bounded field: what it would say of the whole recording.

    It hears the field around what is new; of each window, the frames whose field is complete are settled.

    Args:
        hear: of the model.
        field: around sample `frame_samples` t of frame t.
        frame_samples: from one frame to the next.
    """

    def __init__(self, hear: Hear, field: ReceptiveField, frame_samples: int) -> None:
        self._hear, self._field, self._frame_samples = hear, field, frame_samples
        self._held = np.zeros(0, np.int16)
        self._begin = 0  # of what is held, in samples; a multiple of a frame
        self._num_settled = 0  # frames
        self._ahead = hear(self._held)

    def feed(self, samples: Waveform) -> Iterator[LogProbs]:
        """What becomes settled by further samples."""
        self._held = np.concatenate([self._held, samples])
        window = sum(self._field) + round(BULK_S * SAMPLE_RATE_HZ)
        while len(self._held) > window:
            yield self._settle(window)
        yield self._settle(len(self._held))

    def ahead(self) -> LogProbs:
        """What would follow, were this the end."""
        return self._ahead

    def finish(self) -> Iterator[LogProbs]:
        """What follows, this being the end."""
        yield self._ahead

    def _settle(self, window: int) -> LogProbs:
        log_probs = self._hear(self._held[:window])[self._num_settled - self._begin // self._frame_samples :]
        # the others heard padding where sound goes on
        num_complete = (self._begin + window - 1 - self._field.after) // self._frame_samples + 1
        num_new = min(max(0, num_complete - self._num_settled), len(log_probs))
        self._num_settled += num_new
        self._ahead = log_probs[num_new:]
        needed_from = self._num_settled * self._frame_samples - self._field.before
        drop = max(0, needed_from // self._frame_samples * self._frame_samples - self._begin)
        self._held, self._begin = self._held[drop:].copy(), self._begin + drop
        return log_probs[:num_new]


class PieceLogits:
    """Of a model that depends on the whole clip: it hears each stretch of speech between two pauses as one.

    A stretch is settled when the pause after it has come, or when it grows too long for one piece. Pauses
    are blanks.

    Args:
        hear: of the model.
        num_outputs: V.
        frame_samples: from one frame to the next.
    """

    def __init__(self, hear: Hear, num_outputs: int, frame_samples: int) -> None:
        self._hear, self._num_outputs, self._frame_samples = hear, num_outputs, frame_samples
        self._cutter = Cutter(grid=frame_samples)
        self._waiting = np.zeros(0, np.int16)  # not yet a step
        self._detector = SpeechDetector()
        self._num_settled = 0  # frames, from the beginning

    def feed(self, samples: Waveform) -> Iterator[LogProbs]:
        """What becomes settled by further samples."""
        self._waiting = np.concatenate([self._waiting, samples])
        while len(self._waiting) >= STEP_SAMPLES:
            step, self._waiting = self._waiting[:STEP_SAMPLES], self._waiting[STEP_SAMPLES:]
            yield from map(self._settle, self._cutter.feed(step, self._detector.feed(step)))

    def ahead(self) -> LogProbs:
        """What would follow, were this the end."""
        piece = self._cutter.open_piece()
        return self._no_frames() if piece is None else self._new_frames(piece)

    def finish(self) -> Iterator[LogProbs]:
        """What follows, this being the end."""
        rest, self._waiting = self._waiting, self._waiting[:0]
        pieces = itertools.chain(self._cutter.feed(rest, self._detector.feed(rest)), self._cutter.finish())
        yield from map(self._settle, pieces)

    def _settle(self, piece: Piece) -> LogProbs:
        log_probs = self._new_frames(piece)
        if piece.shared_behind:
            num_shared = piece.shared_behind // self._frame_samples
            log_probs = log_probs[: len(log_probs) - num_shared + seam(log_probs[-num_shared:])]
        self._num_settled += len(log_probs)
        return log_probs

    def _new_frames(self, piece: Piece) -> LogProbs:
        """The frames of a piece that are not settled, behind blanks since those that are."""
        log_probs = self._hear(piece.waveform)
        first = (piece.begin + self._frame_samples // 2) // self._frame_samples
        if piece.overlap:
            return log_probs[self._num_settled - first :]
        # one blank at least: a token may end one piece and begin the next
        num_blanks = max(first - self._num_settled, min(1, self._num_settled))
        blanks = np.full((num_blanks, self._num_outputs), NEVER, np.float32)
        blanks[:, BLANK_ID] = 0.0
        return np.concatenate([blanks, log_probs])

    def _no_frames(self) -> LogProbs:
        return np.zeros((0, self._num_outputs), np.float32)


def seam(*heard: LogProbs) -> int:
    """The frame at which to go over from one clip to the next, where both heard the same.

    In the middle half, where a blank is most probable in the frame and in its neighbours; in the middle, if
    it is all the same.

    Args:
        heard: (T, V) of the shared stretch, by one of them or by both.
    """
    size = min(map(len, heard))
    blank = np.sum([log_probs[:size, BLANK_ID] for log_probs in heard], axis=0)
    around = np.convolve(np.pad(blank, 1, mode="edge"), np.ones(3), "valid")
    places = np.arange(size // 4, max(size // 4 + 1, size - size // 4))
    return int(places[np.argmax(around[places] - 1e-3 * np.abs(places - size // 2) / size)])
