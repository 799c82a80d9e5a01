"""Separates the errors of mixed speech by language, and at the switch from one to the other.

The units are syllables of Mandarin and Latin words; letters that are spelt in a row are one word.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from asr.base.text.mixed import mixed_words
from asr.base.text.units import WORD_BOUNDARY
from asr.base.types import EditCounts


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


def language_errors(pairs: Sequence[tuple[str, str, str]]) -> LanguageErrors:
    """Count edits by language.

    Args:
        pairs: aligned syllables and Latin words from `names_in`, as `asr.evaluation.errors.metrics.align`
            returns them.
    """
    are_latin = [reference.startswith(WORD_BOUNDARY) for _, reference, _ in pairs if reference]
    # whether the language changes before each word; false before the first and after the last
    changes = [False, *(one != other for one, other in itertools.pairwise(are_latin)), False]
    edits: dict[str, Counter[str]] = {"mandarin": Counter(), "latin": Counter(), "switch": Counter()}
    index = 0  # in the reference
    for edit, reference, hypothesis in pairs:
        is_latin = (reference or hypothesis).startswith(WORD_BOUNDARY)
        edits["latin" if is_latin else "mandarin"][edit] += 1
        edits["switch"][edit] += changes[index] or (bool(reference) and changes[index + 1])
        index += bool(reference)
    return LanguageErrors(*map(_counts, edits.values()))


def _counts(edits: Counter[str]) -> EditCounts:
    said = edits["equal"] + edits["substitution"] + edits["deletion"]
    return EditCounts(edits["substitution"], edits["insertion"], edits["deletion"], said)
