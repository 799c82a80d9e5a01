"""Read the hanzi of a sentence: words by the dictionary, rules for some hanzi, then the context."""

from __future__ import annotations

from collections.abc import Sequence

from data_pipeline.labels.errors import UnlabelledError
from data_pipeline.labels.readings.context import Draft, context_model
from data_pipeline.labels.readings.dictionary import cut, syllables_of_word
from data_pipeline.labels.readings.rules import readings_by_rules, suffixes
from data_pipeline.labels.readings.words import WORDS

LEXICAL = "一不儿"  # their readings follow from the policy of the labels


def read_hanzi(text: str) -> list[str]:
    """Return a toned syllable for each hanzi of a text.

    Args:
        text: simplified hanzi; white space separates words, line ends are pauses.

    Raises:
        UnlabelledError: the dictionary has no reading of a hanzi.
    """
    (syllables,) = in_context([text], [read_by_dictionary(text)])
    return syllables


def in_context(texts: Sequence[str], drafts: Sequence[Draft]) -> list[list[str]]:
    """Return the syllables of each text as the context corrects the dictionary's; many texts are faster.

    Args:
        texts: as for `read_hanzi`.
        drafts: of the texts by `read_by_dictionary`.
    """
    readings = [list(draft.syllables) for draft in drafts]
    for index, place, syllable in context_model().corrections(texts, drafts):
        if len(readings[index]) > 1:  # one hanzi has no context
            readings[index][place] = syllable
    return readings


def read_by_dictionary(text: str) -> Draft:
    """Return the readings by dictionary and rules only; arguments and errors are those of `read_hanzi`."""
    words = [
        word for part in text.split() for word in cut(part)
    ]  # white space separates words in some corpora
    hanzi = "".join(words)
    syllables = [syllable for word in words for syllable in syllables_of_word(word) or _refused(word)]
    in_words = [len(word) > 1 for word in words for _ in word]
    decided = _decided(words)
    suffixed = suffixes(hanzi) if "儿" in hanzi else set()
    for here, char in enumerate(hanzi):
        if here in decided:
            syllables[here] = decided[here]
        elif char in LEXICAL:
            syllables[here] = _lexical(char, syllables[here], here in suffixed)
    return Draft(syllables, in_words, set(decided))


def _decided(words: Sequence[str]) -> dict[int, str]:
    """Return the readings by rules and by the project's own words, by place."""
    decided: dict[int, str] = {}
    begin = 0
    for word in words:
        if len(word) > 1 and word in WORDS:
            decided.update(enumerate(syllables_of_word(word), begin))
        begin += len(word)
    return decided | readings_by_rules(words)


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
