"""CTC prefix beam search: the most probable token sequences, each the sum over all of its alignments.

Graves et al. (2006), "Connectionist Temporal Classification"; Hannun et al. (2014), arXiv:1408.2873. An
n-gram language model and hot words take part in the search.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asr.base.decoder_settings import DecoderSettings
from asr.base.types import UserError
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.language.ngram.model import SENTENCE_END, NGramModel, Tables
from asr.recognition.decoding.beam_kernel import Beam, Pruning, read_beam, search
from asr.recognition.decoding.hot_words import HotWords
from asr.recognition.decoding.prefixes import NONE, ROOT, Fusion, Nodes, compact, tokens_of

NODES_AT_FIRST = 1024


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token sequence that may have been said. Logarithms are natural.

    Attributes:
        ids: of its tokens.
        score: what candidates are ranked by: `acoustic`, `lm_weight` times `language`, the token bonus for
            each token and the boosts of hot words.
        acoustic: log of the probability of all its alignments.
        language: log probability by the language model; 0 without one.
    """

    ids: tuple[int, ...]
    score: float
    acoustic: float
    language: float


class BeamState:
    """Where a search stands; `BeamSearch` alone changes it.

    Its memory grows with the tokens of the prefixes in the beam, not with the frames.

    Attributes:
        nodes: the prefixes.
        beam: those kept.
        num_frames: read so far.
    """

    def __init__(self, nodes: Nodes, beam: Beam) -> None:
        self.nodes, self.beam = nodes, beam
        self.num_frames = 0

    def make_room(self) -> None:
        """Forget the prefixes that nothing in the beam begins with, and get more memory if those are few."""
        compact(self.nodes, self.beam.node[: self.beam.size[0]])
        room = len(self.nodes.parent)
        if self.nodes.size[0] + len(self.beam.node) > room // 2:
            size = self.nodes.size
            twice = [np.concatenate([array, np.empty_like(array)]) for array in self.nodes]
            self.nodes = Nodes(*twice)._replace(size=size)


class BeamSearch:
    """Searches with the same settings, one after the other or at the same time.

    Args:
        vocabulary: of the log probabilities.
        settings: of the search: beam, weights, pruning.
        language_model: over tokens of this vocabulary, as `fusion_model` sees to; None for none.
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
        self.language_model = language_model
        self._pruning = Pruning(settings.min_token_log_prob, settings.beam_width)
        hot_words = hot_words or HotWords({})
        self._fusion = Fusion(
            language_model is not None,
            _read_only(language_model.tables if language_model else NO_TABLES),
            language_model.ids_of(vocabulary.tokens) if language_model else np.zeros(1, np.int32),
            settings.lm_weight if language_model else 0.0,
            settings.token_bonus if language_model else 0.0,
            hot_words.tables(settings.hot_word_boost),
        )
        self._sentence_end = language_model.ids[SENTENCE_END] if language_model else 0

    def decode(
        self, log_probs: npt.NDArray[np.float32], num_frames: npt.NDArray[np.integer]
    ) -> list[list[Candidate]]:
        """The candidates in the beam at the end of each clip, best first.

        Args:
            log_probs: (B, T, V) natural logarithms, as of a log softmax.
            num_frames: (B,) the rest is padding and not read.

        Raises:
            UserError: a clip has a frame that holds no log probabilities.
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
        """A search before its first frame."""
        model, beam = self.language_model, self.settings.beam
        room = max(NODES_AT_FIRST, 2 * beam + 2)
        nodes = _make_nodes(room, model.order - 1 if model else 0)
        if model:
            context = model.begin_context()
            nodes.context_words[ROOT], nodes.context_backoffs[ROOT] = context.words, context.backoffs
            nodes.context_length[ROOT] = context.length
        kept = Beam(np.zeros(beam, np.int32), np.empty(beam), np.empty(beam), np.ones(1, np.int32))
        kept.blank[0], kept.token[0] = 0.0, -np.inf
        return BeamState(nodes, kept)

    def feed(self, state: BeamState, log_probs: npt.NDArray[np.float32]) -> None:
        """Search through further frames: however a clip is cut, the candidates are the same.

        Args:
            state: changed.
            log_probs: (T, V) natural logarithms.

        Raises:
            UserError: a frame holds no log probabilities; the search cannot go on.
        """
        assert log_probs.ndim == 2, log_probs.shape
        assert log_probs.shape[1] == len(self.vocabulary), (log_probs.shape, len(self.vocabulary))
        rest = np.require(log_probs, np.float32, ["C", "W"])  # one kind of array: one compilation
        while len(rest):
            done = search(rest, self._fusion, self._pruning, state.nodes, state.beam)
            if done < 0:
                raise _no_log_probs(rest[-1 - done], state.num_frames - 1 - done)
            state.num_frames += done
            rest = rest[done:]
            if len(rest):
                state.make_room()

    def candidates(self, state: BeamState, finished: bool, at_most: int | None = None) -> list[Candidate]:
        """The candidates in the beam, best first.

        Args:
            state: of the search.
            finished: whether the utterance ends here: the language model's `</s>` then counts, and a hot word
                that is only begun does not.
            at_most: how many; None for all.
        """
        scores, acoustic, language = read_beam(
            self._fusion, self._sentence_end, finished, state.nodes, state.beam
        )
        places = np.argsort(-scores, kind="stable")[:at_most]
        return [
            Candidate(
                tuple(tokens_of(state.nodes, state.beam.node[place]).tolist()),
                float(scores[place]),
                float(acoustic[place]),
                float(language[place]),
            )
            for place in places
        ]


NO_TABLES = Tables(
    np.zeros(2, np.uint32), np.zeros(2, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)
)


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
        place=ints(),
        language=floats(),
        hot_state=ints(),
        added=floats(),
        context_words=ints(room, num_context_words),
        context_backoffs=np.zeros((room, num_context_words), np.float32),
        context_length=ints(),
        size=np.ones(1, np.int32),
    )
    nodes.token[ROOT], nodes.first_child[ROOT], nodes.next_sibling[ROOT] = BLANK_ID, NONE, NONE
    return nodes


def _read_only(tables: Tables) -> Tables:
    """Tables of one kind, whether mapped from a file or made here: one compilation serves both."""
    views = Tables(
        tables.memory.view(np.ndarray), tables.floats.view(np.ndarray), tables.begins[:], tables.buckets[:]
    )
    for view in views:
        view.flags.writeable = False
    return views


def _no_log_probs(row: npt.NDArray[np.float32], frame: int) -> UserError:
    received = "probability 0 for everything" if np.all(row == -np.inf) else f"{row.max()}"
    return UserError(
        f"frame {frame}: expected log probabilities from the acoustic model, received {received}; "
        "its weights have diverged: take an earlier checkpoint, or train at a lower learning rate"
    )
