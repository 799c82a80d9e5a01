"""Searches for the tokens of logits: greedily, or by beam search for the N best hypotheses.

search = make_search(vocabulary, frame_s=0.08, settings=DecoderSettings(beam=16))
reduced = search.reduce(logits)              # in a tf.function, on the device
hypotheses = search.hypotheses(reduced)      # on the host: the N best of each clip

state = search.start()                       # a stream, with the same result
search.feed(state, log_probs)                # (T, V), any T
tokens, num_final = search.partial(state)
hypotheses = search.finish(state)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import Hypothesis, Logits, Tensor
from asr.base.vocabulary import Vocabulary
from asr.base.work import OnProgress, ignore_progress
from asr.ctc.greedy import BestPath, best_path, collapse, hypotheses_of, seconds
from asr.ctc.posteriors import log_posteriors
from asr.ctc.word_rescoring import WordChoice

if TYPE_CHECKING:
    from asr.ctc.beam_search import BeamSearch, BeamState, Candidate
    from asr.ctc.hot_words import HotWords
    from asr.language.hanzi.converter import Converter

Reduced: TypeAlias = tuple[Tensor, ...]  # tensors of B rows each
LogProbs: TypeAlias = npt.NDArray[np.float32]  # (T, V), natural logarithms


class Search(Protocol):
    """A search for the hypotheses of logits.

    The state of a stream can be copied by `copy.deepcopy`.

    Attributes:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
    """

    vocabulary: Vocabulary
    frame_s: float

    def reduce(self, logits: Logits) -> Reduced:
        """Return the tensors that `hypotheses` needs from a batch of logits; runs in the graph."""

    def hypotheses(self, reduced: Reduced) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row of what `reduce` returned, best first, at least one."""

    def start(self) -> Any:
        """Return the state of a stream before its first frame."""

    def feed(self, state: Any, log_probs: LogProbs) -> None:
        """Update a state with further frames."""

    def partial(self, state: Any) -> tuple[tuple[str, ...], int]:
        """Return the best tokens so far, and how many of them no further frame can change."""

    def finish(self, state: Any) -> list[Hypothesis]:
        """Return the hypotheses at the end of a stream, best first."""


def make_search(
    vocabulary: Vocabulary,
    frame_s: float,
    settings: DecoderSettings,
    hot_words: HotWords | None = None,
    converter: Converter | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Search:
    """Return the search that the settings ask for.

    Args:
        vocabulary: of the logits.
        frame_s: seconds from one frame to the next.
        settings: greedy, or beam search with or without a language model.
        hot_words: favoured by beam search.
        converter: rescores syllables by the words that they may be.
        on_progress: receives how much of a language model has been read.

    Raises:
        UserError: the language model cannot be read, or its units are not those of the vocabulary.
    """
    if settings.beam == 1:
        return GreedySearch(vocabulary, frame_s)
    from asr.ctc.beam_search import BeamSearch
    from asr.language.ngram.folder import fusion_model

    path = settings.language_model
    model = fusion_model(Path(path), vocabulary, on_progress) if path else None
    return NBestSearch(BeamSearch(vocabulary, settings, model, hot_words), frame_s, converter)


class GreedySearch(Search):
    """The best label of every frame; a stream keeps 8 bytes a frame."""

    def __init__(self, vocabulary: Vocabulary, frame_s: float) -> None:
        self.vocabulary, self.frame_s = vocabulary, frame_s

    @override
    def reduce(self, logits: Logits) -> Reduced:
        return best_path(logits)

    @override
    def hypotheses(self, reduced: Reduced) -> list[list[Hypothesis]]:
        return [[one] for one in hypotheses_of(BestPath(*reduced), self.vocabulary, self.frame_s)]

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
    def finish(self, state: GreedyState) -> list[Hypothesis]:
        num_frames = np.array([len(state.frame_ids)])
        path = BestPath(state.frame_ids[None], num_frames, state.frame_scores[None])
        return hypotheses_of(path, self.vocabulary, self.frame_s)


@dataclass
class GreedyState:
    """The best path so far; only `GreedySearch` changes it."""

    frame_ids: npt.NDArray[np.int32]  # (T,)
    frame_scores: npt.NDArray[np.float32]  # (T,) natural logarithms

    def __deepcopy__(self, memo: dict[int, Any]) -> GreedyState:
        return GreedyState(self.frame_ids, self.frame_scores)  # never written to


class NBestSearch(Search):
    """The N best hypotheses of a beam search; times and confidences come from their forced alignment.

    A stream keeps all log probabilities for that.

    Args:
        beam: the search.
        frame_s: seconds from one frame to the next.
        converter: rescores syllables by the words that they may be; None for no rescoring.
        n_best: number of hypotheses of a clip; None for that of the settings.
    """

    def __init__(
        self, beam: BeamSearch, frame_s: float, converter: Converter | None = None, n_best: int | None = None
    ) -> None:
        self.beam, self.frame_s, self.converter = beam, frame_s, converter
        self.words = None if converter is None else WordChoice(beam, converter)
        self._weighs_alternatives = self.words is not None and self.words.weighs_alternatives
        self.vocabulary, self.n_best = beam.vocabulary, n_best or beam.settings.n_best

    @override
    def reduce(self, logits: Logits) -> Reduced:
        return log_posteriors(logits)

    @override
    def hypotheses(self, reduced: Reduced) -> list[list[Hypothesis]]:
        log_probs, num_frames = (np.asarray(part) for part in reduced)
        found = self.beam.decode(log_probs, num_frames)
        rows = zip(log_probs, num_frames, found, strict=True)
        return [self._best(row[:length], candidates) for row, length, candidates in rows]

    @override
    def start(self) -> NBestState:
        return NBestState(self.beam.start(), ())

    @override
    def feed(self, state: NBestState, log_probs: LogProbs) -> None:
        self.beam.feed(state.beam, log_probs)
        state.log_probs = (*state.log_probs, log_probs)

    @override
    def partial(self, state: NBestState) -> tuple[tuple[str, ...], int]:
        # a prefix that all hypotheses in the beam share is final
        beam = [candidate.ids for candidate in self.beam.candidates(state.beam, finished=False)]
        first, last = min(beam), max(beam)  # a prefix that these two share, all between them share
        differing = (index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
        num_final = next(differing, min(len(first), len(last)))
        if self._weighs_alternatives:
            num_final = 0  # words may choose others at the end
        return self.vocabulary.decode(beam[0]), num_final

    @override
    def finish(self, state: NBestState) -> list[Hypothesis]:
        nothing = np.zeros((0, len(self.vocabulary)), np.float32)
        candidates = self.beam.candidates(state.beam, finished=True)
        return self._best(np.concatenate([nothing, *state.log_probs]), candidates)

    def _best(self, log_probs: LogProbs, candidates: Sequence[Candidate]) -> list[Hypothesis]:
        """Return the best of the candidates in the beam at the end of a clip, which are best first."""
        from asr.ctc.confidence import token_confidences
        from asr.ctc.forced_alignment import align_tokens

        if self.words is not None:
            candidates = self.words.best_first(candidates, log_probs)
        hypotheses: list[Hypothesis] = []
        for candidate in candidates[: self.n_best]:
            alignment = align_tokens(log_probs, candidate.ids)
            hypothesis = Hypothesis(
                self.vocabulary.decode(candidate.ids),
                seconds(alignment.starts, self.frame_s),
                candidate.score,
                candidate.acoustic,
                () if hypotheses else token_confidences(candidates, alignment, self._weighs_alternatives),
            )
            hypotheses.append(hypothesis)
        return hypotheses


@dataclass
class NBestState:
    """A search and the log probabilities fed to it; only `NBestSearch` changes it."""

    beam: BeamState
    log_probs: tuple[LogProbs, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> NBestState:
        return NBestState(copy.deepcopy(self.beam, memo), self.log_probs)  # never written to
