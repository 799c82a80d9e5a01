"""How words are read, and how probable each reading is: what turns syllables back into words."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asr.base.pinyin import syllable_of_reading
from data_pipeline.running_text import Reading, SpokenWord

PHRASES_SHARE = 0.02  # of a hanzi's readings is told by phrases that hold it, the rest by the text itself
LEAST_IN_PHRASES = 0.02  # of the phrases with a hanzi: rarer readings are no readings of it as a word
AS_LABELLED = {"一": "yi1", "不": "bu4"}  # wherever they stand; dictionaries of phrases tell their sandhi


_toned = functools.cache(syllable_of_reading)


class Pronunciation(NamedTuple):
    """One way to read a word."""

    word: str
    reading: Reading
    log_prob: float  # natural logarithm, given the word


def pronunciations(
    occurrences: Mapping[SpokenWord, int], usual: Mapping[str, Reading]
) -> list[Pronunciation]:
    """All readings of words, sorted.

    A word of one hanzi is also read as in phrases of pypinyin's dictionary, though seldom: the text's own
    readings are guesses from the neighbours.

    Args:
        occurrences: how often each word occurs, by reading.
        usual: each word as it is read by itself.
    """
    told: dict[str, Counter[Reading]] = defaultdict(Counter)
    for (word, reading), count in occurrences.items():
        told[word][reading or usual[word]] += count
    in_phrases = readings_in_phrases({word for word in told if len(word) == 1})
    found: list[Pronunciation] = []
    for word, counts in told.items():
        shares = _shares(counts, 1.0)
        if others := in_phrases.get(word):
            shares = _shares(counts, 1 - PHRASES_SHARE)
            for reading, share in _shares(others, PHRASES_SHARE).items():
                shares[reading] = shares.get(reading, 0.0) + share
        found.extend(Pronunciation(word, reading, math.log(share)) for reading, share in shares.items())
    return sorted(found)


def readings_in_phrases(hanzi: Iterable[str]) -> dict[str, Counter[Reading]]:
    """How many phrases of pypinyin's dictionary read each hanzi how, rare readings left aside."""
    from pypinyin.phrases_dict import phrases_dict

    counts: dict[str, Counter[Reading]] = {char: Counter() for char in hanzi}
    for phrase, columns in phrases_dict.items():
        for char, column in zip(phrase, columns, strict=False):
            if char in counts:
                counts[char][(AS_LABELLED.get(char) or _toned(column[0]),)] += 1
    return {
        char: Counter({r: n for r, n in table.items() if n >= LEAST_IN_PHRASES * table.total()})
        for char, table in counts.items()
        if table
    }


def _shares(counts: Mapping[Reading, int], total: float) -> dict[Reading, float]:
    everything = sum(counts.values())
    return {reading: total * count / everything for reading, count in counts.items()}
