"""Estimate the probability of each reading of a word, from which syllables are converted back to words."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asr.base.text.pinyin import syllable_of_reading
from data_pipeline.text.segmented_text import Reading, SpokenWord

PHRASES_SHARE = 0.02  # of a hanzi's probability comes from phrases that contain it, the rest from the text
MIN_SHARE_OF_PHRASES = 0.02  # with a hanzi: it does not have rarer readings as a word of its own
AS_LABELLED = {"一": "yi1", "不": "bu4"}  # everywhere; dictionaries of phrases give their sandhi instead


_toned = functools.cache(syllable_of_reading)


class Pronunciation(NamedTuple):
    """One reading of a word with its probability."""

    word: str
    reading: Reading
    log_prob: float  # natural logarithm, given the word


def pronunciations(
    occurrences: Mapping[SpokenWord, int], usual: Mapping[str, Reading]
) -> list[Pronunciation]:
    """Return all readings of words, sorted.

    Words of one hanzi also get its readings in phrases of pypinyin's dictionary, with a small probability,
    since their readings in the text are guesses from the neighbours.

    Args:
        occurrences: how often each word occurs, by reading.
        usual: the reading of each word on its own.
    """
    in_text: dict[str, Counter[Reading]] = defaultdict(Counter)
    for (word, reading), count in occurrences.items():
        if not count:  # in its context, the word was always read otherwise
            continue
        in_text[word][reading or usual[word]] += count
    in_phrases = readings_in_phrases({word for word in in_text if len(word) == 1})
    found: list[Pronunciation] = []
    for word, counts in in_text.items():
        shares = _shares(counts, 1.0)
        if others := in_phrases.get(word):
            shares = _shares(counts, 1 - PHRASES_SHARE)
            for reading, share in _shares(others, PHRASES_SHARE).items():
                shares[reading] = shares.get(reading, 0.0) + share
        found.extend(Pronunciation(word, reading, math.log(share)) for reading, share in shares.items())
    return sorted(found)


def readings_in_phrases(hanzi: Iterable[str]) -> dict[str, Counter[Reading]]:
    """Count the phrases of pypinyin's dictionary by the reading of each hanzi, without rare readings."""
    from pypinyin.phrases_dict import phrases_dict

    counts: dict[str, Counter[Reading]] = {char: Counter() for char in hanzi}
    for phrase, columns in phrases_dict.items():
        for char, column in zip(phrase, columns, strict=False):
            if char in counts:
                counts[char][(AS_LABELLED.get(char) or _toned(column[0]),)] += 1
    return {
        char: Counter({r: n for r, n in table.items() if n >= MIN_SHARE_OF_PHRASES * table.total()})
        for char, table in counts.items()
        if table
    }


def _shares(counts: Mapping[Reading, int], total: float) -> dict[Reading, float]:
    num_counted = sum(counts.values())
    return {reading: total * count / num_counted for reading, count in counts.items()}
