"""Convert syllables as corpora write them to this project's spelling: `zhong1`, neutral tone 5, ü as v."""

from __future__ import annotations

import functools

from asr.base.errors import UserError
from asr.base.text.pinyin import NEUTRAL, is_syllable, mandarin_syllables, read_syllable

ER = "er5"


def syllables_of(written: str) -> tuple[str, ...]:
    """Return the syllables of a line of pinyin, in this project's spelling.

    It accepts every spelling that `read_syllable` does. A missing tone is neutral. An r at the end or alone
    becomes a syllable: `dianr3` is `dian3 er5`.

    Raises:
        UserError: a part of the line is not a Mandarin syllable.
    """
    return tuple(syllable for part in written.split() for syllable in _spelled(part))


def _spelled(written: str) -> tuple[str, ...]:
    read = read_syllable(written)
    if not read:
        raise UserError(f"{written!r}: expected a syllable such as zhong1")
    base, tone = read[0], read[1] or NEUTRAL
    if base in _bases():
        return (base + tone,)
    if base == "r":
        return (ER,)
    if base.endswith("r") and base[:-1] in _bases():
        return base[:-1] + tone, ER
    raise UserError(f"{written!r}: not a Mandarin syllable")


@functools.cache
def _bases() -> frozenset[str]:
    return frozenset(syllable[:-1] for syllable in mandarin_syllables() if is_syllable(syllable))
