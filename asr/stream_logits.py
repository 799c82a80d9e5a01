"""Sound that comes in bit by bit -> log probabilities, those that are settled and those that may change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from asr.audio import SAMPLE_RATE_HZ, Waveform
from asr.features import ReceptiveField
from asr.voice_activity import BLOCK_S, FRAME_SAMPLES, Cutter, Piece, speech_frames
from asr.vocabulary import BLANK_ID

BULK_S = 8.0  # of what comes at once, so much is heard at a time
STEP_SAMPLES = 32 * FRAME_SAMPLES  # 0.32 s; whether somebody speaks is judged after each
CONTEXT_SAMPLES = round(BLOCK_S * SAMPLE_RATE_HZ)
NEVER = -1e4  # natural logarithm

LogProbs = npt.NDArray[np.float32]  # (T, V) natural logarithms
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
        self._ahead: LogProbs | None = None

    def feed(self, samples: Waveform) -> Iterator[LogProbs]:
        """What becomes settled by further samples."""
        self._held = np.concatenate([self._held, samples])
        window = sum(self._field) + round(BULK_S * SAMPLE_RATE_HZ)
        while len(self._held) > window:
            yield self._settle(window)
        yield self._settle(len(self._held))

    def ahead(self) -> LogProbs:
        """What would follow, were this the end."""
        assert self._ahead is not None, "nothing was fed"
        return self._ahead

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
        self._context = np.zeros(0, np.int16)  # what was heard last, to tell speech from noise
        self._num_settled = 0  # frames, from the beginning

    def feed(self, samples: Waveform) -> Iterator[LogProbs]:
        """What becomes settled by further samples."""
        self._waiting = np.concatenate([self._waiting, samples])
        while len(self._waiting) >= STEP_SAMPLES:
            step, self._waiting = self._waiting[:STEP_SAMPLES], self._waiting[STEP_SAMPLES:]
            yield from map(self._settle, self._cutter.feed(step, self._speech_of(step)))

    def ahead(self) -> LogProbs:
        """What would follow, were this the end."""
        ahead = copy.deepcopy
