"""Syllables as corpora write them -> as this project does: `zhong1`, neutral tone 5, ü written v."""

from __future__ import annotations

import functools
import re
import unicodedata

from asr.base.types import UserError
from asr.base.vocabulary import SPELLED_OTHERWISE, is_syllable, mandarin_syllables

WRITTEN = re.compile(r"([a-zv]+)([0-5]?)")
UMLAUT = re.compile("u:|ü")
ER = "er5"


def syllables_of(written: str) -> tuple[str, ...]:
    """The syllables of a line of pinyin, in this project's spelling.

    `lue4` and `lüe4` become `lve4`, `jv2` becomes `ju2`; a missing tone and tone 0 become 5; an r that
    stands at the end or on its own becomes a syllable: `dianr3` is `dian3 er5`.

    Raises:
        UserError: one of them is no syllable of Mandarin.
    """
    return tuple(syllable for part in written.split() for syllable in _spelled(part))


def _spelled(written: str) -> tuple[str, ...]:
    plain = UMLAUT.sub("v", unicodedata.normalize("NFKC", written).lower())
    match = WRITTEN.fullmatch(plain)
    if not match:
        raise UserError(f"{written!r}: expected a syllable such as zhong1")
    base = re.sub("^([jqxy])v", r"\1u", re.sub("^([ln])ue$", r"\1ve", match[1]))
    base = SPELLED_OTHERWISE.get(base, base)
    tone = match[2].replace("0", "") or "5"
    if base in _bases():
        return (base + tone,)
    if base == "r":
        return (ER,)
    if base.endswith("r") and base[:-1] in _bases():
        return base[:-1] + tone, ER
    raise UserError(f"{written!r}: no syllable of Mandarin")


@functools.cache
def _bases() -> frozenset[str]:
    return frozenset(syllable[:-1] for syllable in mandarin_syllables() if is_syllable(syllable))
