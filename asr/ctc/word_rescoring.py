"""Chooses the hypothesis of a search over syllables with the language model of words.

Each syllable of the best hypothesis is weighed against the others that may be said in its place, or against
none. Of 14 syllables, each of which may be one of five, there are six billion sentences; a beam holds a few
of them, the search for words finds the best of all. Such alternatives in a row are a confusion network
(Mangu et al., 2000, arXiv:cs/0010012).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asr.base.compiled import compiled
from asr.base.text.mixed import mixed_words
from asr.base.vocabulary import BLANK_ID
from asr.ctc.forced_alignment import Float32, Ids, align_tokens, sum_of_alignments
from asr.language.hanzi.lattice import EPSILON, Edge, Lattice, lattice_from_nbest

if TYPE_CHECKING:
    from asr.ctc.beam_search import BeamSearch, Candidate
    from asr.language.hanzi.converter import Converter

MOST_ALTERNATIVES = 16  # syllables for one place
# natural logarithms: how much less probable than the best of its place a syllable may be, and none. Words are
# improbable where there are many: with more freedom, they would leave out names that are said clearly.
LEAST_PROBABLE, LEAST_SILENT = 8.0, 1.0


class WordChoice:
    """Chooses by words among what a search over syllables found.

    Args:
        search: whose settings have the weight of the words.
        converter: of syllables to words.

    Attributes:
        weighs_alternatives: whether words choose among the alternatives of each place, not only among the
            candidates of the search. They do not where some are Latin, or where the search has a language
            model whose text they do not know; a folder of `asr lm train` has words of the same text.
    """

    def __init__(self, search: BeamSearch, converter: Converter) -> None:
        settings, own = search.settings, converter.own
        knows_text = search.language_model is None or (
            own is not None and own.folder.resolve() == Path(settings.language_model).resolve()
        )
        self.search, self.converter, self.weight = search, converter, settings.hanzi_weight
        self.weighs_alternatives = knows_text and search.vocabulary.unit != "mixed" and self.weight > 0

    def best_first(self, candidates: Sequence[Candidate], log_probs: Float32) -> Sequence[Candidate]:
        """Return the candidates after the best one by score plus weighted log probability of the words.

        That is one of them, or one that has the best of the alternatives at each place. What the search took
        for a hot word is left as it is. A weight of 0 keeps the order.

        Args:
            candidates: of one clip, best first.
            log_probs: (T, V) of the clip.
        """
        if not self.weight or not candidates[0].ids:
            return candidates
        if self.weighs_alternatives:
            first = self._of_alternatives(candidates, log_probs)
        else:
            first = self._of_candidates(candidates)
        return [first, *(candidate for candidate in candidates if candidate.ids != first.ids)]

    def _of_candidates(self, candidates: Sequence[Candidate]) -> Candidate:
        vocabulary = self.search.vocabulary
        by_tokens: dict[tuple[str, ...], Candidate] = {}
        for one in candidates:
            tokens = vocabulary.decode(one.ids)
            if vocabulary.unit == "mixed":  # the model of words has whole Latin words
                tokens = tuple(word.name for word in mixed_words(tokens))
            by_tokens.setdefault(tokens, one)
        lattice = lattice_from_nbest([(tokens, one.score / self.weight) for tokens, one in by_tokens.items()])
        return by_tokens[self.converter.convert_lattice(lattice).syllables]

    def _of_alternatives(self, candidates: Sequence[Candidate], log_probs: Float32) -> Candidate:
        search, best = self.search, candidates[0]
        favours = search.settings.hot_word_boost > 0
        is_fixed = search.hot_words.are_in(best.ids) if favours else [False] * len(best.ids)
        edges: list[Edge] = []
        for place, (ids, scores) in enumerate(alternatives(best.ids, log_probs)):
            if is_fixed[place]:
                ids, scores = best.ids[place : place + 1], (0.0,)
            for token, score in zip(ids, scores, strict=True):
                syllable = EPSILON if token == BLANK_ID else search.vocabulary.tokens[token]
                edges.append(Edge(place, place + 1, syllable, score / self.weight))
        lattice = Lattice(tuple(edges), len(best.ids) + 1)
        chosen = tuple(search.vocabulary.encode(self.converter.convert_lattice(lattice).syllables))
        for candidate in candidates:
            if candidate.ids == chosen:
                return candidate
        acoustic = float(compiled(sum_of_alignments)(log_probs, np.array(chosen, np.int32)))
        if acoustic == -np.inf:  # equal neighbours may need a blank that has no frame
            return best
        return search.beside(best, chosen, acoustic)


def alternatives(ids: Ids, log_probs: Float32) -> Iterator[tuple[Sequence[int], Sequence[float]]]:
    """Yield the tokens that may be said in place of each one, the blank for none, and their scores.

    A score is the natural logarithm of the summed probability of all alignments within the frames of a
    place, which end in the middle between two tokens.

    Args:
        ids: (U,) of the tokens, which the frames can say.
        log_probs: (T, V) natural logarithms.
    """
    aligned = align_tokens(log_probs, ids)
    middles = ((aligned.ends[:-1] + aligned.starts[1:] + 1) // 2).tolist()
    for begin, end in itertools.pairwise([0, *middles, len(log_probs)]):
        frames = log_probs[begin:end].astype(np.float64)
        highest = frames.max(axis=0)
        highest[BLANK_ID] = -np.inf
        tokens = np.argsort(-highest, kind="stable")[: min(MOST_ALTERNATIVES, len(highest) - 1)]
        silence = np.concatenate([[0.0], np.cumsum(frames[:, BLANK_ID])])  # before each frame, and of all
        said, after = np.full((2, len(tokens)), -np.inf)  # of all paths to each token, and to blanks after it
        for frame, before in zip(frames, silence[:-1], strict=True):
            after = np.logaddexp(after, said) + frame[BLANK_ID]
            said = np.logaddexp(said, before) + frame[tokens]
        scores = np.append(np.logaddexp(after, said), silence[-1])
        possible = scores >= scores.max() - np.append(np.full(len(tokens), LEAST_PROBABLE), LEAST_SILENT)
        yield np.append(tokens, BLANK_ID)[possible].tolist(), scores[possible].tolist()
