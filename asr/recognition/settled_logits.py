"""Sound that comes in bit by bit -> log probabilities, those that are settled and those that may change.

stream = StreamListener(model, num_outputs).stream()
for samples in microphone:
    settled = stream.feed(samples)       # (T, V) each; what follows may change: stream.ahead()
settled = stream.finish()
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform
from asr.audio.voice_activity import FRAME_SAMPLES, Cutter, Piece, SpeechDetector
from asr.base.vocabulary import BLANK_ID
from asr.model.acoustic_model import AcousticModel
from asr.model.features import ReceptiveField
from asr.model.listener import CLIP_SIGNATURE, Listener, log_probs_of

BULK_S = 8.0  # of what comes at once, so much is heard at a time
STEP_SAMPLES = 32 * FRAME_SAMPLES  # 0.32 s; whether somebody speaks is judged after each
SHAPE_SAMPLES = 2 * SAMPLE_RATE_HZ
NEVER = -1e4  # natural logarithm

LogProbs: TypeAlias = npt.NDArray[np.float32]  # (T, V), natural logarithms
Hear: TypeAlias = Callable[[Waveform], LogProbs]  # of a clip, as if it were a whole recording


class StreamListener:
    """Runs an acoustic model over streams, one after the other or at the same time.

    Args:
        model: audio -> logits.
        num_outputs: V.
    """

    def __init__(self, model: AcousticModel, num_outputs: int) -> None:
        self.model, self._num_outputs = model, num_outputs
        # one clip at a time: a single device's work
        self._compiled_log_probs = Listener(model).compiled(log_probs_of, CLIP_SIGNATURE)

    def stream(self) -> FieldLogits | PieceLogits:
        """Return what the sound of a new stream is fed to."""
        field, frame_samples = self.model.receptive_field(), self.model.frame_samples
        if field is None:
            return PieceLogits(self._log_probs, self._num_outputs, frame_samples)
        return FieldLogits(self._log_probs, field, frame_samples)

    def _log_probs(self, waveform: Waveform) -> LogProbs:
        """Return (T, V) of a clip; padding changes nothing, and leaves few shapes to make room for."""
        if len(waveform) < WINDOW_SAMPLES:
            return np.zeros((0, self._num_outputs), np.float32)
        padded = np.pad(waveform, (0, -len(waveform) % SHAPE_SAMPLES))
        values, num_frames = self._compiled_log_probs(padded[None], np.array([len(waveform)], np.int32))
        log_probs: LogProbs = values.numpy()[0, : int(num_frames[0])]
        return log_probs


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
