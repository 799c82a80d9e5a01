"""Change the tones of a sentence as they change in speech: third tones, 一 and 不.

The rules are those of Chao (A Grammar of Spoken Chinese, 1968, 1.3.4):

- 不 is `bu2` before a fourth tone.
- 一 is `yi2` before a fourth tone and `yi4` before the others, except where it counts or ends a word: 第一,
  十一, 一九九八, 星期一, 统一.
- A third tone before another is a second tone. In a longer row the words decide. Inside a word the syllables
  change from left to right (展览馆 `zhan2 lan2 guan3`), but what is joined more closely changes first (小老虎
  `xiao3 lao2 hu3`); then a word's last syllable changes before the next word, from right to left (我很好 `wo3
  hen2 hao3`).

Nothing changes across a pause.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

Tones: TypeAlias = Literal["citation", "spoken"]

PAUSE = "\n"
DIGITS = "零〇一二三四五六七八九十百千万亿两"
# 一 keeps its tone as a digit and as an ordinal
KEEPS_TONE = re.compile(
    rf"(?<=[第初{DIGITS}])一(?![个些点下起样直定切边面般会旦百千])"
    r"|一(?=[二三四五六七八九零〇一])|(?<=月)一(?=日)|一(?=[月号楼](?!个)|等奖)"
    r"|(?<![等坐上下这那每另])一(?=[班等级](?!个))|一$"
)
# and at the end of these words, if no other word begins with it: 统一, 周一, but 每周|一次, 不|一定
ENDS_WORD = re.compile(
    "(?<=[统唯专单万之其周逐合划归惟])一|(?<=星期|礼拜)一|(?<=同)一(?![个天首])|(?<=不)一(?!会)"
)
FOURTH_IN_DICTIONARY = "个下会"  # 一 is `yi2` before these, though they are often neutral
CHANGED_YI, CHANGED_BU = "yi2", "bu2"


def spoken_tones(text: str, syllables: Sequence[str], fixed: Collection[int] = ()) -> list[str]:
    """Return syllables with the tones of fluent speech.

    Args:
        text: simplified hanzi; a line end is a pause, and other white space separates words.
        syllables: one for each hanzi, with the tones of the dictionary.
        fixed: indices of syllables that stay as they are.
    """
    import rjieba

    spoken: list[str] = []
    for phrase in text.split(PAUSE):
        words = [word for part in phrase.split() for word in rjieba.cut(part, False)]
        end = len(spoken) + sum(map(len, words))
        spoken += _in_phrase(words, list(syllables[len(spoken) : end]))
    return [syllables[index] if index in fixed else syllable for index, syllable in enumerate(spoken)]


def _in_phrase(words: Sequence[str], syllables: list[str]) -> list[str]:
    text = "".join(words)
    begins = itertools.accumulate(map(len, words), initial=0)
    begun = {begin for begin, word in zip(begins, words, strict=False) if len(word) > 1}
    kept = {match.start() for match in ENDS_WORD.finditer(text)} - begun
    kept |= {match.start() for match in KEEPS_TONE.finditer(text)}
    for index, (char, following) in enumerate(zip(text[:-1], syllables[1:], strict=True)):
        is_before_fourth = following[-1] == "4"
        if char == "不" and syllables[index] == "bu4" and is_before_fourth:
            syllables[index] = CHANGED_BU
        elif char == "一" and syllables[index] == "yi1" and index not in kept:
            is_before_fourth |= text[index + 1] in FOURTH_IN_DICTIONARY
            syllables[index] = CHANGED_YI if is_before_fourth else "yi4"
    _change_third_tones(words, syllables)
    return syllables


def _change_third_tones(words: Sequence[str], syllables: list[str]) -> None:
    begin = 0
    ends = []
    for word in words:
        inside = range(begin, begin + len(word) - 1)
        for index in reversed(inside) if _is_one_and_two(word) else inside:
            _raise(syllables, index)
        begin += len(word)
        ends.append(begin - 1)
    for index in reversed(ends[:-1]):
        _raise(syllables, index)


@functools.cache
def _is_one_and_two(word: str) -> bool:
    """Return whether the last two of three hanzi are a word (小|老虎), and the first two are not."""
    import rjieba

    return len(word) == 3 and len(rjieba.cut(word[1:], False)) == 1 < len(rjieba.cut(word[:2], False))


def _raise(syllables: list[str], index: int) -> None:
    """Turn a third tone before another into a second tone."""
    if syllables[index][-1] == syllables[index + 1][-1] == "3":
        syllables[index] = f"{syllables[index][:-1]}2"
