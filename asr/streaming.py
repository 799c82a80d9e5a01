"""Recognition of sound that is still coming in.

recognizer = StreamingRecognizer(Recognizer.load("runs/demo"))
stream = recognizer.stream()
for samples in microphone:                       # (n,) int16 at 16 kHz, any n
    print(stream.feed(samples).text)
print(stream.finish().text)

A model whose logits depend on a bounded stretch of sound (`AcousticModel.receptive_field`) hears in a stream
exactly what it hears in the whole recording: the result is the same, and a token is final as soon as its
stretch is complete. A model that normalises its features over the clip, or has gates, is given the last
`WINDOW_S` seconds instead of the clip, and its tokens are final after `DELAY_S`. Up to then its results are
those of the recording so far; in longer streams they may differ from those of the whole recording.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from asr.audio import SAMPLE_RATE_HZ, WINDOW_SAMPLES, Waveform
from asr.types import Hypothesis, Tensor, UserError
from asr.vocabulary import BLANK_ID, Vocabulary

if TYPE_CHECKING:
    from asr.acoustic import AcousticModel
    from asr.recognizer import Recognizer

PARTIAL_S = 0.32  # the network runs when so much is new
BULK_S = 8.0  # of what comes at once, a model with a bounded field hears so much at a time
WINDOW_S = 20.0
DELAY_S = 4.0
COMMIT_S = 2.0  # how often an unbounded model's tokens become final
SHAPE_SAMPLES = 2 * SAMPLE_RATE_HZ  # windows are padded to a multiple: few shapes in all

LogProbs = npt.NDArray[np.float32]  # (T, V) natural logarithms


class StreamDecoder(Protocol):
    """Log probabilities, bit by bit -> a hypothesis. A state can be copied by `copy.deepcopy`."""

    def start(self) -> Any:
        """The state before the first frame."""

    def feed(self, state: Any, log_probs: LogProbs) -> None:
        """Take further frames into a state."""

    def partial(self, state: Any) -> tuple[tuple[str, ...], int]:
        """The best tokens so far, and how many of them no further frame can change."""

    def finish(self, state: Any, utterance_id: str) -> Hypothesis:
        """The result, no further frame coming."""


@dataclass(frozen=True)
class Partial:
    """What is heard of a stream so far.

    Attributes:
        final: tokens that will not change.
        provisional: tokens after them that may.
        text: all of them as one string.
    """

    final: tuple[str, ...]
    provisional: tuple[str, ...]
    text: str


class StreamingRecognizer:
    """Transcribes streams, one after the other or at the same time.

    Args:
        recognizer: whose model and vocabulary to use.
        decoder: of log probabilities; None for greedy decoding.
    """

    def __init__(self, recognizer: Recognizer, decoder: StreamDecoder | None = None) -> None:
        self.model, self.vocabulary = recognizer.model, recognizer.vocabulary
        self.decoder = decoder or GreedyStream(self.vocabulary, self.model.frame_s)
        signature = [tf.TensorSpec((1, None), tf.int16), tf.TensorSpec((1,), tf.int32)]
        self._log_probs = tf.function(self._hear, input_signature=signature)

    @property
    def exact(self) -> bool:
        """Whether results equal those of whole recordings of any length."""
        return self.model.receptive_field() is not None

    def stream(self, name: str = "-") -> Stream:
        """A new stream.

        Args:
            name: for `Hypothesis.utterance_id`.
        """
        return Stream(self, name)

    def log_probs(self, waveform: Waveform) -> LogProbs:
        """(T, V) of a clip of few lengths: it is padded, which changes nothing."""
        if len(waveform) < WINDOW_SAMPLES:
            return np.zeros((0, len(self.vocabulary)), np.float32)
        padded = np.pad(waveform, (0, -len(waveform) % SHAPE_SAMPLES))
        values, num_frames = self._log_probs(padded[None], np.array([len(waveform)], np.int32))
        log_probs: LogProbs = values.numpy()[0, : int(num_frames[0])]
        return log_probs

    def _hear(self, audio: Tensor, num_samples: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model(audio, num_samples)
        return tf.nn.log_softmax(logits.values), logits.num_frames


class Stream:
    """One stream: feed it what comes in, then finish it.

    Args:
        recognizer: that made it.
        name: of the stream.
    """

    def __init__(self, recognizer: StreamingRecognizer, name: str) -> None:
        self._recognizer, self._name = recognizer, name
        self._windows = _windows_of(recognizer.model)
        self._state = recognizer.decoder.start()
        self._held = np.zeros(0, np.int16)
        self._begin = 0  # of what is held, in samples of the stream; a multiple of a frame
        self._num_final = 0  # frames
        self._num_heard = 0  # samples, when the network ran last
        self._finished = False
        self._partial = Partial((), (), "")

    def feed(self, samples: Waveform) -> Partial:
        """Take in what is new.

        Args:
            samples: (n,) int16 at 16 kHz, n as you like.

        Raises:
            UserError: they are something else.
        """
        assert not self._finished, "a finished stream takes nothing more"
        samples = np.asarray(samples)
        if samples.dtype != np.int16 or samples.ndim != 1:
            raise UserError(
                f"{self._name}: expected samples as int16 of shape (n,), 16,000 a second, received "
                f"{samples.dtype} of shape {samples.shape}; convert them"
            )
        self._held = np.concatenate([self._held, samples])
        if self._end - self._num_heard >= PARTIAL_S * SAMPLE_RATE_HZ:
            self._partial = self._run()
        return self._partial

    def finish(self) -> Hypothesis:
        """The result, no more sound coming."""
        assert not self._finished, "a stream is finished once"
        log_probs = self._run_to_last_window()
        decoder = self._recognizer.decoder
        decoder.feed(self._state, log_probs)
        self._finished = True
        self._held = self._held[:0]
        return decoder.finish(self._state, self._name)

    @property
    def _end(self) -> int:
        return self._begin + len(self._held)

    def _run(self) -> Partial:
        decoder = self._recognizer.decoder
        provisional = self._run_to_last_window()
        if self._windows.commits_always:
            provisional = self._commit(provisional, self._end)
        _, num_final = decoder.partial(self._state)
        ahead = copy.deepcopy(self._state)
        decoder.feed(ahead, provisional)
        tokens, _ = decoder.partial(ahead)
        self._num_heard = self._end
        return Partial(tokens[:num_final], tokens[num_final:], self._recognizer.vocabulary.join(tokens))

    def _run_to_last_window(self) -> LogProbs:
        """Commit what earlier windows settle; the frames of the last one that are not yet committed."""
        while (end := self._windows.next_end(self._begin, self._num_heard)) <= self._end:
            self._commit(self._log_probs(end), end)
            self._num_heard = end
        return self._log_probs(self._end)

    def _log_probs(self, end: int) -> LogProbs:
        """Of the frames that are not yet final, heard up to a sample."""
        log_probs = self._recognizer.log_probs(self._held[: end - self._begin])
        return log_probs[self._num_final - self._begin // self._windows.frame_samples :]

    def _commit(self, log_probs: LogProbs, end: int) -> LogProbs:
        """Make final what is settled; returns the rest.

        Args:
            log_probs: of the frames that are not yet final.
            end: of the sound they come from.
        """
        num_settled = self._windows.num_settled(log_probs, self._num_final, end)
        self._recognizer.decoder.feed(self._state, log_probs[:num_settled])
        self._num_final += num_settled
        begin = max(self._begin, self._windows.needed_from(self._num_final, end))
        self._held, self._begin = self._held[begin - self._begin :].copy(), begin
        return log_probs[num_settled:]


def _windows_of(model: AcousticModel) -> _FieldWindows | _LongWindows:
    field = model.receptive_field()
    if field is None:
        return _LongWindows(model.frame_samples)
    return _FieldWindows(model.frame_samples, field.before, field.after)


@dataclass(frozen=True)
class _FieldWindows:
    """What a model with a bounded field hears at a time: that field around what is new."""

    frame_samples: int
    before: int
    after: int
    commits_always = True

    def next_end(self, begin: int, num_heard: int) -> int:
        """Where the next window ends, if so much is there."""
        return begin + self.before + self.after + round(BULK_S * SAMPLE_RATE_HZ)

    def num_settled(self, log_probs: LogProbs, num_final: int, end: int) -> int:
        """How many frames have their whole field before the end: the others heard padding."""
        num_complete = (end - 1 - self.after) // self.frame_samples + 1
        return min(max(0, num_complete - num_final), len(log_probs))

    def needed_from(self, num_final: int, end: int) -> int:
        """The first sample that further frames depend on, or a little before."""
        return (num_final * self.frame_samples - self.before) // self.frame_samples * self.frame_samples


@dataclass(frozen=True)
class _LongWindows:
    """What a model hears at a time that hears all there is: the last seconds, up to the same marks always."""

    frame_samples: int
    commits_always = False

    def next_end(self, begin: int, num_heard: int) -> int:
        """Where the next window ends, if so much is there."""
        step = round(COMMIT_S * SAMPLE_RATE_HZ)
        return (num_heard // step + 1) * step

    def num_settled(self, log_probs: LogProbs, num_final: int, end: int) -> int:
        """How many frames are old enough, up to where a blank is most probable: no token is cut there."""
        latest = (end - round(DELAY_S * SAMPLE_RATE_HZ)) // self.frame_samples - num_final
        latest = min(latest, len(log_probs) - 1)
        earliest = max(0, latest - round(COMMIT_S * SAMPLE_RATE_HZ / 2) // self.frame_samples)
        if latest <= 0:
            return 0
        return earliest + int(np.argmax(log_probs[earliest : latest + 1, BLANK_ID]))

    def needed_from(self, num_final: int, end: int) -> int:
        """The first sample of the next window."""
        oldest = max(0, end - round((WINDOW_S - COMMIT_S) * SAMPLE_RATE_HZ))
        return oldest // self.frame_samples * self.frame_samples


class GreedyStream:
    """The best label of every frame; repeats are merged across the borders of what was fed.

    Args:
        vocabulary: of the log probabilities.
        frame_s: seconds from one frame to the next.
    """

    def __init__(self, vocabulary: Vocabulary, frame_s: float) -> None:
        self.vocabulary, self.frame_s = vocabulary, frame_s

    def start(self) -> GreedyState:
        """See `StreamDecoder`."""
        return GreedyState([], [])

    def feed(self, state: GreedyState, log_probs: LogProbs) -> None:
        """See `StreamDecoder`."""
        if not len(log_probs):
            return
        frame_ids = np.argmax(log_probs, axis=-1)
        before = np.concatenate([[state.last_id], frame_ids[:-1]])
        starts = np.flatnonzero((frame_ids != BLANK_ID) & (frame_ids != before))
        state.ids += frame_ids[starts].tolist()
        state.starts += (starts + state.num_frames).tolist()
        state.score += float(np.max(log_probs, axis=-1).sum(dtype=np.float64))
        state.num_frames += len(log_probs)
        state.last_id = int(frame_ids[-1])

    def partial(self, state: GreedyState) -> tuple[tuple[str, ...], int]:
        """See `StreamDecoder`: what is fed is settled."""
        return self.vocabulary.decode(state.ids), len(state.ids)

    def finish(self, state: GreedyState, utterance_id: str) -> Hypothesis:
        """See `StreamDecoder`."""
        tokens = self.vocabulary.decode(state.ids)
        times_s = tuple(round(start * self.frame_s, 3) for start in state.starts)
        return Hypothesis(utterance_id, tokens, self.vocabulary.join(tokens), state.score, times_s)


@dataclass
class GreedyState:
    """Where greedy decoding stands; `GreedyStream` alone changes it."""

    ids: list[int]
    starts: list[int]  # frames
    score: float = 0.0
    num_frames: int = 0
    last_id: int = BLANK_ID
