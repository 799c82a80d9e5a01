"""Find characters for syllables that are not the reading of any word of a dictionary."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from asr.base.text.pinyin import TONES, syllable_of_reading

COMMON_ROWS = range(0xB0, 0xD8)  # first level of GB 2312: the characters in daily use


@functools.cache
def rare_characters() -> Mapping[str, str]:
    """Return the most common character that pypinyin has for each syllable, toned and toneless."""
    from pypinyin import pinyin_dict

    spelled = functools.cache(syllable_of_reading)

    best: dict[str, tuple[int, int, int]] = {}
    for code_point, readings in pinyin_dict.pinyin_dict.items():
        for index, reading in enumerate(readings.split(",")):
            usual = (index, _level(chr(code_point)), code_point)
            syllable = spelled(reading)
            for key in (syllable, syllable.rstrip(TONES)):
                best[key] = min(usual, best.get(key, usual))
    return {syllable: chr(code_point) for syllable, (_, _, code_point) in best.items()}


def _level(char: str) -> int:
    """Return 0 for characters in daily use, 1 for the others of GB 2312, 2 for the rest."""
    encoded = char.encode("gb2312", errors="ignore")
    return 2 if not encoded else 0 if encoded[0] in COMMON_ROWS else 1
