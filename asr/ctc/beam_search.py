"""Searches for the most probable token sequences by CTC prefix beam search, summing over alignments.

Graves et al. (2006), "Connectionist Temporal Classification"; Hannun et al. (2014), arXiv:1408.2873. An
n-gram language model and hot words are fused into the search.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asr.base.compiled import compiled
from asr.base.decoder_settings import DecoderSettings
from asr.base.errors import UserError
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.ctc.beam_kernel import Beam, Pruning, read_beam, search
from asr.ctc.hot_words import HotWords
from asr.ctc.prefixes import NONE, ROOT, Fusion, Nodes, compact, tokens_of
from asr.ctc.spelling import NO_SPELLING, make_spelling
from asr.language.ngram.folder import is_over_words
from asr.language.ngram.model import SENTENCE_END, NGramModel, tables_of

INITIAL_NODES = 1024
# Number of tokens tried in a frame, the most probable ones: at least this many, and this many times the beam.
# Without a language model, the beam would do; benchmarks/peers/beam_search.py shows that these do with one.
MIN_TOKENS, TOKENS_PER_PREFIX = 64, 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token sequence of the beam and its scores. Logarithms are natural.

    Attributes:
        ids: of its tokens.
        score: by which candidates are ranked: `acoustic`, `lm_weight` times `language`, the token bonus for
            each token, or each word of a language model over words, and the boosts of hot words.
        acoustic: log of the summed probability of all alignments.
        language: log probability by the language model, with the penalties of unknown words; 0 without one.
    """

    ids: tuple[int, ...]
    score: float
    acoustic: float
    language: float


class BeamState:
    """The state of a search; only `BeamSearch` changes it.

    Its memory grows with the tokens of the prefixes in the beam, not with the frames.

    Attributes:
        nodes: the prefixes.
        beam: the prefixes that the search keeps.
        num_frames: processed so far.
    """

    def __init__(self, nodes: Nodes, beam: Beam) -> None:
        self.nodes, self.beam = nodes, beam
        self.num_frames = 0

    def make_room(self) -> None:
        """Drop the prefixes that no prefix in the beam extends, and double the memory if few are."""
        compiled(compact)(self.nodes, self.beam.node[: self.beam.size[0]])
        room = len(self.nodes.parent)
        if self.nodes.size[0] + len(self.beam.node) > room // 2:
            size = self.nodes.size
            twice = [np.concatenate([array, np.empty_like(array)]) for array in self.nodes]
            self.nodes = Nodes(*twice)._replace(size=size)


class BeamSearch:
    """A beam search of clips and streams, one by one or concurrently.

    Args:
        vocabulary: of the log probabilities.
        settings: of the search: beam, weights, pruning.
        language_model: over tokens of this vocabulary, or the words that they spell, as `fusion_model`
            ensures; None for none.
        hot_words: of this vocabulary; None for none.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: DecoderSettings,
        language_model: NGramModel | None = None,
        hot_words: HotWords | None = None,
    ) -> None:
        self.vocabulary, self.settings = vocabulary, settings
        self.language_model, self.hot_words = language_model, hot_words or HotWords({})
        max_tokens = max(MIN_TOKENS, TOKENS_PER_PREFIX * settings.beam)
        self._pruning = Pruning(settings.beam, settings.min_token_log_prob, settings.beam_width, max_tokens)
        # three rankings, see `Offers`
        self._room = settings.beam * (3 if self.hot_words.weights else 1)
        spelling = NO_SPELLING
        if language_model is not None and is_over_words(language_model, vocabulary):
            spelling = make_spelling(vocabulary, language_model, settings, self.hot_words.weights)
        self._fusion = Fusion(
            language_model is not None,
            language_model.tables if language_model else NO_TABLES,
            language_model.ids_of(vocabulary.tokens).astype(np.int64)
            if language_model
            else np.zeros(1, np.int64),
            settings.lm_weight if language_model else 0.0,
            settings.token_bonus if language_model else 0.0,
            self.hot_words.tables(settings.hot_word_boost),
            spelling,
        )
        self._sentence_end = language_model.ids[SENTENCE_END] if language_model else 0

    def decode(
        self, log_probs: npt.NDArray[np.float32], num_frames: npt.NDArray[np.integer]
    ) -> list[list[Candidate]]:
        """Return the candidates in the beam at the end of each clip, best first.

        Args:
            log_probs: (B, T, V) natural logarithms, as of a log softmax.
            num_frames: (B,) of each clip; the rest is padding and ignored.

        Raises:
            UserError: a clip has a frame of values that are not log probabilities.
        """

        def decode_clip(row: int) -> list[Candidate]:
            state = self.start()
            try:
                self.feed(state, log_probs[row, : num_frames[row]])
            except UserError as error:
                raise UserError(f"clip {row + 1} of {len(log_probs)}: {error}") from None
            return self.candidates(state, finished=True)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(decode_clip, range(len(log_probs))))

    def start(self) -> BeamState:
        """Return the state of a search before its first frame."""
        model, beam = self.language_model, self._room
        room = max(INITIAL_NODES, 2 * beam + 2)
        nodes = _make_nodes(room, model.order - 1 if model else 0)
        if model:
            context = model.begin_context()
            nodes.context_words[ROOT], nodes.context_backoffs[ROOT] = context.words, context.backoffs
            nodes.context_length[ROOT] = context.length
        kept = Beam(np.zeros(beam, np.int32), np.empty(beam), np.empty(beam), np.ones(1, np.int32))
        kept.blank[0], kept.token[0] = 0.0, -np.inf
        return BeamState(nodes, kept)

    def feed(self, state: BeamState, log_probs: npt.NDArray[np.float32]) -> None:
        """Process further frames; the candidates do not depend on how a clip is split.

        Args:
            state: updated in place.
            log_probs: (T, V) natural logarithms.

        Raises:
            UserError: a frame has values that are not log probabilities; the search cannot continue.
        """
        assert log_probs.ndim == 2, log_probs.shape
        assert log_probs.shape[1] == len(self.vocabulary), (log_probs.shape, len(self.vocabulary))
        rest = np.require(log_probs, np.float32, ["C", "W"])  # one type, one compilation
        while len(rest):
            done = compiled(search)(rest, self._fusion, self._pruning, state.nodes, state.beam)
            if done < 0:
                raise _no_log_probs(rest[-1 - done], state.num_frames - 1 - done)
            state.num_frames += done
            rest = rest[done:]
            if len(rest):
                state.make_room()

    def candidates(self, state: BeamState, finished: bool, at_most: int | None = None) -> list[Candidate]:
        """Return the candidates in the beam, best first.

        Args:
            state: of the search.
            finished: whether the utterance ends here: if so, the language model's `</s>` counts.
            at_most: limits their number; None for all.
        """
        scores, acoustic, language = compiled(read_beam)(
            self._fusion, self._sentence_end, finished, state.nodes, state.beam
        )
        ranks = np.argsort(-scores, kind="stable")[:at_most]
        return [
            Candidate(
                tuple(compiled(tokens_of)(state.nodes, state.beam.node[rank]).tolist()),
                float(scores[rank]),
                float(acoustic[rank]),
                float(language[rank]),
            )
            for rank in ranks
        ]

    def beside(self, other: Candidate, ids: tuple[int, ...], acoustic: float) -> Candidate:
        """Return a finished candidate that is not in the beam, with the hot words of another that is.

        Args:
            other: the candidate in the beam.
            ids: of the tokens.
            acoustic: see `Candidate`.
        """
        language = added = 0.0
        if self.language_model is not None:
            language = sum(self.language_model.log_probs(self.vocabulary.decode(ids)))
            added = self.settings.lm_weight * (language - other.language)
            added += self.settings.token_bonus * (len(ids) - len(other.ids))
        return Candidate(ids, acoustic + other.score - other.acoustic + added, acoustic, language)


NO_TABLES = tables_of(np.zeros(2, np.uint32), [], [])


def _make_nodes(room: int, num_context_words: int) -> Nodes:
    def ints(*shape: int) -> npt.NDArray[np.int32]:
        return np.zeros(shape or room, np.int32)

    def floats() -> npt.NDArray[np.float64]:
        return np.zeros(room)

    nodes = Nodes(
        parent=ints(),
        token=ints(),
        first_child=ints(),
        next_sibling=ints(),
        length=ints(),
        rank=ints(),
        language=floats(),
        word=ints(),
        hot_state=ints(),
        added=floats(),
        boost=floats(),
        context_words=ints(room, num_context_words),
        context_backoffs=np.zeros((room, num_context_words), np.float32),
        context_length=np.zeros(room, np.int64),
        size=np.ones(1, np.int32),
    )
    nodes.token[ROOT], nodes.first_child[ROOT], nodes.next_sibling[ROOT] = BLANK_ID, NONE, NONE
    return nodes


def _no_log_probs(row: npt.NDArray[np.float32], frame: int) -> UserError:
    received = "probability 0 for every token" if np.all(row == -np.inf) else f"{row.max()}"
    return UserError(
        f"frame {frame}: expected log probabilities from the acoustic model, received {received}; "
        "the weights have diverged (NaN or infinite): use an earlier checkpoint, or a lower learning rate"
    )
