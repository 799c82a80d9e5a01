"""Recognizes speech while the sound is still coming in.

from asr import Recognizer, StreamingRecognizer

recognizer = StreamingRecognizer(Recognizer.load("runs/demo"))
stream = recognizer.stream()
for samples in microphone:                       # (n,) int16 at 16 kHz, any n
    print(stream.feed(samples).text)
print(stream.finish().text)

A model whose logits depend on a bounded stretch of sound (`AcousticModel.receptive_field`) gives the same
result for a stream as for the whole recording, and a token is final when its stretch is complete.

Other models, those that normalise their features over the clip (as the default configuration does) or have
gates, receive each stretch of speech between two pauses as a clip of its own, and its tokens are final when
a pause follows or the stretch has grown to 25 s. A stream without pauses, except short ones at its ends,
gives the result of the whole recording.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asr.audio.recording import Waveform
from asr.base.errors import UserError
from asr.base.types import Hypothesis
from asr.transcription.stream_decoders import StreamDecoder, stream_decoder
from asr.transcription.stream_logits import StreamListener

if TYPE_CHECKING:
    from asr.model.listening import LogProbs, RunClip
    from asr.transcription.recognizer import Recognizer

PARTIAL_SAMPLES = 5120  # 0.32 s


@dataclass(frozen=True)
class Partial:
    """The partial transcript of a stream.

    Attributes:
        final: tokens that will not change.
        provisional: the tokens after them, which may still change.
        text: all of them as one string.
    """

    final: tuple[str, ...]
    provisional: tuple[str, ...]
    text: str


NOTHING = Partial((), (), "")


def next_partial(decoder: StreamDecoder, state: Any, ahead: LogProbs, before: Partial) -> Partial:
    """Return the partial transcript of a stream.

    Args:
        decoder: of the stream.
        state: of the decoder, which stays as it is.
        ahead: (T, V) log probabilities that may still change.
        before: the previous partial transcript, whose text is kept where the tokens are the same.
    """
    supposed = copy.deepcopy(state)
    decoder.feed(supposed, ahead)
    (tokens, _), (_, num_final) = decoder.partial(supposed), decoder.partial(state)
    is_same = tokens == before.final + before.provisional
    text = before.text if is_same else decoder.text_of(tokens)
    return Partial(tokens[:num_final], tokens[num_final:], text)


class StreamingRecognizer:
    """Transcribes streams, one after the other or at the same time.

    Args:
        recognizer: provides the model and the decoder.
        run_clip: runs the model in place of the recognizer, as for a server that runs many streams together.
    """

    def __init__(self, recognizer: Recognizer, run_clip: RunClip | None = None) -> None:
        self.model, self.vocabulary = recognizer.listener.model, recognizer.vocabulary
        self.listener = StreamListener(recognizer.listener, len(recognizer.vocabulary), run_clip)
        self.decoder = stream_decoder(recognizer.decoder)

    @property
    def exact(self) -> bool:
        """Return whether results equal those of whole recordings of any length."""
        return self.model.receptive_field() is not None

    def stream(self, name: str = "-") -> Stream:
        """Start a new stream.

        Args:
            name: for `Hypothesis.utterance_id`.
        """
        return Stream(self, name)


class Stream:
    """Transcribes one stream: feed it samples as they come in, then finish it.

    Args:
        recognizer: that started it.
        name: of the stream.
    """

    def __init__(self, recognizer: StreamingRecognizer, name: str) -> None:
        self._decoder, self._name = recognizer.decoder, name
        self._logits = recognizer.listener.stream()
        self._state = self._decoder.start()
        self._waiting: list[Waveform] = []  # not yet recognized
        self._num_waiting = 0  # samples
        self._partial = NOTHING
        self._finished = False

    def feed(self, samples: Waveform) -> Partial:
        """Accept new samples, and return the partial transcript, which is updated every 0.32 s.

        Args:
            samples: (n,) int16 at 16 kHz, of any length.

        Raises:
            UserError: the samples have another type or shape.
        """
        assert not self._finished, "a finished stream accepts no samples"
        if samples.dtype != np.int16 or samples.ndim != 1:
            raise UserError(
                f"{self._name}: expected int16 samples of shape (n,) at 16,000 Hz, received "
                f"{samples.dtype} of shape {samples.shape}; convert them"
            )
        self._waiting.append(samples.copy())
        self._num_waiting += len(samples)
        if self._num_waiting >= PARTIAL_SAMPLES:
            self._process_waiting()
            self._partial = next_partial(self._decoder, self._state, self._logits.ahead(), self._partial)
        return self._partial

    def finish(self) -> Hypothesis:
        """End the stream and return its transcript."""
        assert not self._finished, "a stream can be finished only once"
        self._finished = True
        self._process_waiting()
        for log_probs in self._logits.finish():
            self._decoder.feed(self._state, log_probs)
        return self._decoder.finish(self._state, self._name)

    def _process_waiting(self) -> None:
        samples = np.concatenate([np.zeros(0, np.int16), *self._waiting])
        self._waiting, self._num_waiting = [], 0
        for log_probs in self._logits.feed(samples):
            self._decoder.feed(self._state, log_probs)
