"""Look up the readings of words in pypinyin's dictionary of phrases, and find its phrases in a text."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from asr.base.text.hanzi_text import HANZI_RUN
from asr.base.text.pinyin import standard_spelling
from data_pipeline.labels.readings.words import NOT_WORDS, WORDS


@functools.cache
def syllables_of_word(word: str) -> tuple[str, ...]:
    """Return the toned syllables of a word on its own, as `WORDS` or else pypinyin's dictionary has them.

    Returns:
        a syllable for each hanzi; empty if the dictionary has no reading.
    """
    from pypinyin import Style, lazy_pinyin

    if word in WORDS:
        return tuple(WORDS[word].split())
    found = lazy_pinyin([word], style=Style.TONE3, v_to_u=False, neutral_tone_with_five=True)
    syllables = tuple(map(standard_spelling, found))
    return syllables if len(syllables) == len(word) and all(map(str.isascii, syllables)) else ()


def cut(text: str) -> Iterator[str]:
    """Cut a text into the longest phrases of the dictionary, from left to right, and single hanzi between.

    What is not hanzi is left out.
    """
    phrases, beginnings = _phrases()
    for run in HANZI_RUN.findall(text):
        begin = 0
        while begin < len(run):
            end = longest = begin + 1
            while end <= len(run) and run[begin:end] in beginnings:
                if run[begin:end] in phrases:
                    longest = end
                end += 1
            yield run[begin:longest]
            begin = longest


@functools.cache
def _phrases() -> tuple[frozenset[str], frozenset[str]]:
    """Return the phrases of the dictionary, and all their beginnings."""
    from pypinyin.phrases_dict import phrases_dict

    phrases = (phrases_dict.keys() | WORDS.keys()) - NOT_WORDS
    beginnings = {phrase[:end] for phrase in phrases for end in range(1, len(phrase) + 1)}
    return frozenset(phrases), frozenset(beginnings)
