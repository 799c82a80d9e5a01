"""Decoders of streams: they are fed log probabilities as these come in.

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
from asr.recognition.decoding.decoder import BeamDecoder, Decoder, GreedyDecoder, HanziDecoder
from asr.recognition.decoding.greedy import BestPath, collapse, hypotheses_of
from asr.recognition.settled_logits import LogProbs

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter
    from asr.recognition.decoding.beam import BeamState


class StreamDecoder(Protocol):
    """Log probabilities, bit by bit -> a hypothesis. A state can be copied by `copy.deepcopy`."""

    def start(self) -> Any:
        """The state before the first frame."""

    def feed(self, state: Any, log_probs: LogProbs) -> None:
        """Take further frames into a state."""

    def partial(self, state: Any) -> tuple[tuple[str, ...], int]:
        """The best tokens so far, and how many of them no further frame can change."""

    def text_of(self, tokens: Sequence[str]) -> str:
        """Tokens as a person reads them."""

    def finish(self, state: Any, utterance_id: str) -> Hypothesis:
        """The result, no further frame coming."""


def stream_decoder(decoder: Decoder) -> StreamDecoder:
    """The one that gives of a stream what another gives of the whole."""
    if isinstance(decoder, HanziDecoder):
        return HanziStream(GreedyStream(decoder.decoder), decoder.converter)
    if isinstance(decoder, BeamDecoder):
        return BeamStream(decoder)
    assert isinstance(decoder, GreedyDecoder), decoder
    return GreedyStream(decoder)


class GreedyStream(StreamDecoder):
    """The best label of every frame. Keeps 8 bytes a frame.

    Args:
        decoder: of the whole.
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
        # what is fed is settled
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
    """The best path so far; `GreedyStream` alone changes it."""

    frame_ids: npt.NDArray[np.int32]  # (T,)
    frame_scores: npt.NDArray[np.float32]  # (T,) natural logarithms


class HanziStream(GreedyStream):
    """Greedy decoding, with its text in hanzi.

    Args:
        greedy: of syllables.
        converter: of syllables to hanzi.
    """

    def __init__(self, greedy: GreedyStream, converter: Converter) -> None:
        self.vocabulary, self.frame_s, self.converter = greedy.vocabulary, greedy.frame_s, converter

    @override
    def text_of(self, tokens: Sequence[str]) -> str:
        return self.converter.convert(tokens).text

    @override
    def finish(self, state: GreedyState, utterance_id: str) -> Hypothesis:
        hypothesis = super().finish(state, utterance_id)
        return dataclasses.replace(hypothesis, text=self.text_of(hypothesis.tokens))


class BeamStream(StreamDecoder):
    """Beam search. Keeps all log probabilities, for the times and confidences of the result.

    Args:
        decoder: of the whole.
    """

    def __init__(self, decoder: BeamDecoder) -> None:
        self.decoder, self.search = decoder, decoder.search

    @override
    def start(self) -> BeamStreamState:
        return BeamStreamState(self.search.start(), ())

    @override
    def feed(self, state: BeamStreamState, log_probs: LogProbs) -> None:
        self.search.feed(state.search, log_probs)
        state.heard = (*state.heard, log_probs)

    @override
    def partial(self, state: BeamStreamState) -> tuple[tuple[str, ...], int]:
        # what all hypotheses in the beam begin with is settled
        beam = [candidate.ids for candidate in self.search.candidates(state.search, finished=False)]
        first, last = min(beam), max(beam)  # what they share, all between them share
        differing = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
        num_final = next(differing, min(len(first), len(last)))
        return self.decoder.vocabulary.decode(beam[0]), num_final

    @override
    def text_of(self, tokens: Sequence[str]) -> str:
        return self.decoder.text_of(tokens)

    @override
    def finish(self, state: BeamStreamState, utterance_id: str) -> Hypothesis:
        nothing = np.zeros((0, len(self.decoder.vocabulary)), np.float32)
        candidates = self.search.candidates(state.search, finished=True)
        return self.decoder.hypothesis(utterance_id, np.concatenate([nothing, *state.heard]), candidates)


@dataclass
class BeamStreamState:
    """A search and what it has heard; `BeamStream` alone changes it."""

    search: BeamState
    heard: tuple[LogProbs, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> BeamStreamState:
        return BeamStreamState(copy.deepcopy(self.search, memo), self.heard)  # which no one writes to
