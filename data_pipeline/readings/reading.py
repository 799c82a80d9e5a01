"""Read the hanzi of a sentence: words by the dictionary, rules for some hanzi, then the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from data_pipeline.readings.context import context_model
from data_pipeline.readings.dictionary import cut, syllables_of_word
from data_pipeline.readings.rules import particle_of, readings_by_context, suffixes
from data_pipeline.unlabelled import UnlabelledError


class Draft(NamedTuple):
    """Holds the readings of a sentence's hanzi before the context is asked.

    Attributes:
        syllables: toned, one for each hanzi.
        in_words: for each hanzi, whether it is part of a longer word of the dictionary.
        decided: places of hanzi whose readings rules decided.
    """

    syllables: list[str]
    in_words: list[bool]
    decided: set[int]


def read_hanzi(text: str) -> list[str]:
    """Return a toned syllable for each hanzi of a text.

    Args:
        text: simplified hanzi; white space separates words, line ends are pauses.

    Raises:
        UnlabelledError: the dictionary has no reading of a hanzi.
    """
    draft = read_by_dictionary(text)
    if len(draft.syllables) == 1:  # no context
        return draft.syllables
    for place, syllable in context_model().corrections(text, draft.syllables, draft.in_words, draft.decided):
        draft.syllables[place] = syllable
    return draft.syllables


def read_by_dictionary(text: str) -> Draft:
    """Return the readings by dictionary and rules alone; arguments and errors are those of `read_hanzi`."""
    words = [
        word for part in text.split() for word in cut(part)
    ]  # white space separates words in some corpora
    hanzi = "".join(words)
    syllables = [syllable for word in words for syllable in syllables_of_word(word) or _refused(word)]
    in_words = [len(word) > 1 for word in words for _ in word]
    decided = _decided(words, hanzi, in_words)
    suffixed = suffixes(hanzi)
    for here, char in enumerate(hanzi):
        syllables[here] = decided.get(here) or _lexical(char, syllables[here], here in suffixed)
    return Draft(syllables, in_words, set(decided))


def _decided(words: Sequence[str], hanzi: str, in_words: Sequence[bool]) -> dict[int, str]:
    """Return the readings by rules, by place."""
    decided = readings_by_context(words)
    for here, char in enumerate(hanzi):
        if char in "地得" and here not in decided and not in_words[here]:
            particle = particle_of(hanzi, here)
            if particle:
                decided[here] = particle
    return decided


def _refused(word: str) -> tuple[str, ...]:
    unknown = "".join(char for char in word if not syllables_of_word(char))
    raise UnlabelledError("hanzi without a reading in the dictionary", unknown or word)


def _lexical(char: str, syllable: str, is_suffix: bool) -> str:
    if char == "一":
        return "yi1"
    if char == "不":
        return "bu4"
    if char == "儿" and syllable in ("er2", "er5"):
        return "er5" if is_suffix else "er2"
    return syllable
