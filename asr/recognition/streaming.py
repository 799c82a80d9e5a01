"""Recognition of sound that is still coming in.

from asr import Recognizer, StreamingRecognizer

recognizer = StreamingRecognizer(Recognizer.load("runs/demo"))
stream = recognizer.stream()
for samples in microphone:                       # (n,) int16 at 16 kHz, any n
    print(stream.feed(samples).text)
print(stream.finish().text)

A model whose logits depend on a bounded stretch of sound (`AcousticModel.receptive_field`) hears in a stream
what it hears in the whole recording: the result is the same, and a token is final when its stretch is
complete.

Other models, those that normalise their features over the clip (as the default configuration does) or have
gates, are given each stretch of speech between two pauses as a clip of its own, and its tokens are final when
the pause has come or the stretch has grown to 25 s. A stream without pauses, but for short ones at its ends,
gives what the whole recording gives; one with pauses usually gives better results than that, as silence
upsets normalisation.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from asr.audio.recording import Waveform
from asr.base.types import Hypothesis, UserError
from asr.recognition.decoding.stream_decoders import stream_decoder
from asr.recognition.settled_logits import StreamListener

if TYPE_CHECKING:
    from asr.recognition.recognizer import Recognizer

PARTIAL_SAMPLES = 5120  # 0.32 s


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
        recognizer: whose model and decoder to use.
    """

    def __init__(self, recognizer: Recognizer) -> None:
        self.model, self.vocabulary = recognizer.model, recognizer.vocabulary
        self.listener = StreamListener(recognizer.model, len(recognizer.vocabulary))
        self.decoder = stream_decoder(recognizer.decoder)

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


class Stream:
    """One stream: feed it what comes in, then finish it.

    Args:
        recognizer: that made it.
        name: of the stream.
    """

    def __init__(self, recognizer: StreamingRecognizer, name: str) -> None:
        self._decoder, self._name = recognizer.decoder, name
        self._logits = recognizer.listener.stream()
        self._state = self._decoder.start()
        self._waiting: list[Waveform] = []  # not yet heard
        self._num_waiting = 0  # samples
        self._partial = Partial((), (), "")
        self._finished = False

    def feed(self, samples: Waveform) -> Partial:
        """Take in what is new; what is said so far is told anew every 0.32 s.

        Args:
            samples: (n,) int16 at 16 kHz, n as you like.

        Raises:
            UserError: they are something else.
        """
        assert not self._finished, "a finished stream takes nothing more"
        if samples.dtype != np.int16 or samples.ndim != 1:
            raise UserError(
                f"{self._name}: expected int16 samples of shape (n,), 16,000 a second, received "
                f"{samples.dtype} of shape {samples.shape}; convert them"
            )
        self._waiting.append(samples.copy())
        self._num_waiting += len(samples)
        if self._num_waiting >= PARTIAL_SAMPLES:
            self._hear()
            self._partial = self._what_is_said()
        return self._partial

    def finish(self) -> Hypothesis:
        """The result, no more sound coming."""
        assert not self._finished, "a stream is finished once"
        self._finished = True
        self._hear()
        for log_probs in self._logits.finish():
            self._decoder.feed(self._state, log_probs)
        return self._decoder.finish(self._state, self._name)

    def _hear(self) -> None:
        samples = np.concatenate([np.zeros(0, np.int16), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        for log_probs in self._logits.feed(samples):
            self._decoder.feed(self._state, log_probs)

    def _what_is_said(self) -> Partial:
        ahead = copy.deepcopy(self._state)
        self._decoder.feed(ahead, self._logits.ahead())
        (tokens, _), (_, num_final) = self._decoder.partial(ahead), self._decoder.partial(self._state)
        return Partial(tokens[:num_final], tokens[num_final:], self._decoder.text_of(tokens))
