"""Rescores the hypotheses of a search over syllables with the language model of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asr.base.text.mixed import mixed_words
from asr.base.vocabulary import Vocabulary

if TYPE_CHECKING:
    from asr.ctc.beam_search import Candidate
    from asr.language.hanzi.converter import Converter

MAX_RESCORED = 16  # hypotheses of a clip


def rescore_by_words(
    candidates: Sequence[Candidate], vocabulary: Vocabulary, converter: Converter, weight: float
) -> Sequence[Candidate]:
    """Move the candidate to the front whose score plus weighted log probability of its words is the highest.

    Args:
        candidates: of one clip, best first.
        vocabulary: of their syllables, and of pieces of Latin words.
        converter: of syllables to words.
        weight: of the words; 0 keeps the order.
    """
    if not weight or len(candidates) == 1:
        return candidates
    from asr.language.hanzi.lattice import lattice_from_nbest

    by_tokens: dict[tuple[str, ...], Candidate] = {}
    for one in candidates[:MAX_RESCORED]:
        tokens = vocabulary.decode(one.ids)
        if vocabulary.unit == "mixed":  # the model of words has whole Latin words
            tokens = tuple(word.name for word in mixed_words(tokens))
        by_tokens.setdefault(tokens, one)
    lattice = lattice_from_nbest([(tokens, one.score / weight) for tokens, one in by_tokens.items()])
    best = by_tokens[converter.convert_lattice(lattice).syllables]
    return [best, *(candidate for candidate in candidates if candidate is not best)]
