"""The language model of words has its say on the hypotheses of a search over syllables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asr.base.vocabulary import Vocabulary

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter
    from asr.recognition.decoding.beam import Candidate

CONVERTED_TOGETHER = 16  # hypotheses of a clip


def best_by_words(
    candidates: Sequence[Candidate], vocabulary: Vocabulary, converter: Converter, weight: float
) -> Sequence[Candidate]:
    """The candidates, that first whose score and whose words' log probability, weighted, are the most.

    Args:
        candidates: of one clip, best first.
        vocabulary: of their syllables.
        converter: of syllables to words.
        weight: of the words; 0 leaves the order as it is.
    """
    if not weight or len(candidates) == 1:
        return candidates
    from asr.language.hanzi.lattice import lattice_of

    by_tokens = {vocabulary.decode(one.ids): one for one in candidates[:CONVERTED_TOGETHER]}
    lattice = lattice_of([(tokens, one.score / weight) for tokens, one in by_tokens.items()])
    best = by_tokens[converter.convert_lattice(lattice).syllables]
    return [best, *(candidate for candidate in candidates if candidate is not best)]
