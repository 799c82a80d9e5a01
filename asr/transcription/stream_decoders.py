"""Decodes streams: log probabilities are fed as they come in.

stream = stream_decoder(decoder)
state = stream.start()
stream.feed(state, log_probs)          # (T, V), any T
tokens, num_final = stream.partial(state)
hypothesis = stream.finish(state, "a")
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.base.types import Hypothesis
from asr.ctc.greedy import BestPath, collapse, hypotheses_of
from asr.model.listening import LogProbs
from asr.transcription.decoder import BeamDecoder, Decoder, GreedyDecoder, HanziDecoder, spoken

if TYPE_CHECKING:
    from asr.ctc.beam_search import BeamState
    from asr.language.hanzi.converter import Converter


class StreamDecoder(Protocol):
    """Turns successive log probabilities into a hypothesis. A state can be copied by `copy.deepcopy`."""

    def start(self) -> Any:
        """Return the state before the first frame."""

    def feed(self, state: Any, log_probs: LogProbs) -> None:
        """Update a state with further frames."""

    def partial(self, state: Any) -> tuple[tuple[str, ...], int]:
        """Return the best tokens so far, and how many of them no further frame can change."""

    def text_of(self, tokens: Sequence[str]) -> str:
        """Return tokens as readable text; numbers are written as they are spoken, until the end is known."""

    def finish(self, state: Any, utterance_id: str) -> Hypothesis:
        """Return the hypothesis at the end of the stream."""


def stream_decoder(decoder: Decoder) -> StreamDecoder:
    """Return the stream decoder that gives the same results as a decoder of whole clips."""
    if isinstance(decoder, BeamDecoder):
        return BeamStream(decoder)
    if isinstance(decoder, HanziDecoder):
        return HanziStream(GreedyStream(decoder.decoder), decoder.converter)
    assert isinstance(decoder, GreedyDecoder), decoder
    return GreedyStream(decoder)


class GreedyStream(StreamDecoder):
    """Decodes a stream greedily; it keeps 8 bytes a frame.

    Args:
        decoder: the decoder of whole clips.
    """

    def __init__(self, decoder: GreedyDecoder) -> None:
        self.vocabulary, self.frame_s = decoder.vocabulary, decoder.frame_s

    @override
    def start(self) -> GreedyState:
        return GreedyState(np.zeros(0, np.int32), np.zeros(0, np.float32))

    @override
    def feed(self, state: GreedyState, log_probs: LogProbs) -> None:
        state.frame_ids = np.concatenate([state.frame_ids, np.argmax(log_probs, axis=-1).astype(np.int32)])
        state.frame_scores = np.concatenate([state.frame_scores, np.max(log_probs, axis=-1)])

    @override
    def partial(self, state: GreedyState) -> tuple[tuple[str, ...], int]:
        # frames that were fed never change
        ids, _ = collapse(state.frame_ids)
        return self.vocabulary.decode(ids.tolist()), len(ids)

    @override
    def text_of(self, tokens: Sequence[str]) -> str:
        return self.vocabulary.join(tokens)

    @override
    def finish(self, state: GreedyState, utterance_id: str) -> Hypothesis:
        num_frames = np.array([len(state.frame_ids)])
        path = BestPath(state.frame_ids[None], num_frames, state.frame_scores[None])
        return hypotheses_of(path, [utterance_id], self.vocabulary, self.frame_s)[0]


@dataclass
class GreedyState:
    """The best path so far; only `GreedyStream` changes it."""

    frame_ids: npt.NDArray[np.int32]  # (T,)
    frame_scores: npt.NDArray[np.float32]  # (T,) natural logarithms

    def __deepcopy__(self, memo: dict[int, Any]) -> GreedyState:
        return GreedyState(self.frame_ids, self.frame_scores)  # never written to


class HanziStream(GreedyStream):
    """Decodes a stream greedily and writes the text in hanzi.

    Args:
        greedy: of syllables.
        converter: of syllables to hanzi.
    """

    def __init__(self, greedy: GreedyStream, converter: Converter) -> None:
        self.vocabulary, self.frame_s, self.converter = greedy.vocabulary, greedy.frame_s, converter

    @override
    def text_of(self, tokens: Sequence[str]) -> str:
        return self.converter.spoken.convert(tokens).text

    @override
    def finish(self, state: GreedyState, utterance_id: str) -> Hypothesis:
        hypothesis = super().finish(state, utterance_id)
        return dataclasses.replace(hypothesis, text=self.converter.convert(hypothesis.tokens).text)


class BeamStream(StreamDecoder):
    """Decodes a stream by beam search; it keeps all log probabilities for times and confidences.

    Args:
        decoder: the decoder of whole clips.
    """

    def __init__(self, decoder: BeamDecoder) -> None:
        self.decoder, self.search = decoder, decoder.search
        self._spoken: Any = spoken(decoder)

    @override
    def start(self) -> BeamStreamState:
        return BeamStreamState(self.search.start(), ())

    @override
    def feed(self, state: BeamStreamState, log_probs: LogProbs) -> None:
        self.search.feed(state.search, log_probs)
        state.log_probs = (*state.log_probs, log_probs)

    @override
    def partial(self, state: BeamStreamState) -> tuple[tuple[str, ...], int]:
        # a prefix that all hypotheses in the beam share is final
        beam = [candidate.ids for candidate in self.search.candidates(state.search, finished=False)]
        first, last = min(beam), max(beam)  # a prefix that these two share, all between them share
        differing = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
        num_final = next(differing, min(len(first), len(last)))
        return self.decoder.vocabulary.decode(beam[0]), num_final

    @override
    def text_of(self, tokens: Sequence[str]) -> str:
        text: str = self._spoken.text_of(tokens)
        return text

    @override
    def finish(self, state: BeamStreamState, utterance_id: str) -> Hypothesis:
        nothing = np.zeros((0, len(self.decoder.vocabulary)), np.float32)
        candidates = self.search.candidates(state.search, finished=True)
        return self.decoder.hypothesis(utterance_id, np.concatenate([nothing, *state.log_probs]), candidates)


@dataclass
class BeamStreamState:
    """A search and the log probabilities fed to it; only `BeamStream` changes it."""

    search: BeamState
    log_probs: tuple[LogProbs, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> BeamStreamState:
        return BeamStreamState(copy.deepcopy(self.search, memo), self.log_probs)  # never written to
