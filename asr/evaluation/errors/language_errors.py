"""Separates the errors of mixed speech by language, and at the switch from one to the other.

The units are syllables of Mandarin and Latin words; letters that are spelt in a row are one word.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from asr.base.text.mixed import mixed_words
from asr.base.text.units import WORD_BOUNDARY
from asr.base.types import EditCounts

if TYPE_CHECKING:
    from asr.evaluation.errors.metrics import AlignedPair


class LanguageErrors(NamedTuple):
    """The edits of an utterance.

    Attributes:
        mandarin: of syllables; an inserted one belongs to its own language.
        latin: of Latin words.
        switch: of the words next to a change of language in the reference, in both languages; words inserted
            between two of them count.
    """

    mandarin: EditCounts
    latin: EditCounts
    switch: EditCounts


def names_in(tokens: Sequence[str]) -> list[str]:
    """Return the syllables and Latin words of mixed labels: `kan4`, `▁CCTV`."""
    return [word.name for word in mixed_words(tokens)]


def language_errors(pairs: Sequence[AlignedPair]) -> LanguageErrors:
    """Count the edits of aligned syllables and Latin words, from `names_in`, by language."""
    at_switch = _next_to_change([pair.reference for pair in pairs if pair.reference])
    edits: dict[str, Counter[str]] = {"mandarin": Counter(), "latin": Counter(), "switch": Counter()}
    num_before = 0  # words of the reference
    for pair in pairs:
        is_latin = (pair.reference or pair.hypothesis).startswith(WORD_BOUNDARY)
        edits["latin" if is_latin else "mandarin"][pair.edit] += 1
        if pair.reference:
            edits["switch"][pair.edit] += at_switch[num_before]
            num_before += 1
        elif 0 < num_before < len(at_switch) and at_switch[num_before - 1] and at_switch[num_before]:
            edits["switch"][pair.edit] += 1
    return LanguageErrors(*map(_counts, edits.values()))


def _next_to_change(names: Sequence[str]) -> list[bool]:
    """Return which words are next to one of the other language."""
    are_latin = [name.startswith(WORD_BOUNDARY) for name in names]
    changes = [False, *(one != other for one, other in itertools.pairwise(are_latin)), False]
    return [before or behind for before, behind in itertools.pairwise(changes)]


def _counts(edits: Counter[str]) -> EditCounts:
    said = edits["equal"] + edits["substitution"] + edits["deletion"]
    return EditCounts(edits["substitution"], edits["insertion"], edits["deletion"], said)
