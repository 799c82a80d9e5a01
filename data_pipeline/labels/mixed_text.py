"""Separate the Latin words of a Mandarin sentence from its hanzi, and join the labels of both again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from asr.base.text.hanzi_text import ONE_HANZI
from asr.base.text.latin import WORD, LatinReadings, each_said
from data_pipeline.labels.readings.tones import PAUSE

LATIN_RUN = re.compile(f"{WORD.pattern}(?:[ '-]+{WORD.pattern})*")


class LatinPart(NamedTuple):
    """Latin words in a row.

    Attributes:
        num_before: number of the sentence's hanzi before them.
        words: as written, each with its tokens: letters, or a whole word that is spoken, `▁iphone`.
    """

    num_before: int
    words: tuple[tuple[str, tuple[str, ...]], ...]


class SeparatedText(NamedTuple):
    """A sentence in two scripts.

    Attributes:
        others: the sentence with a pause in place of each Latin part: words of hanzi and changes of tone do
            not extend across it.
        latin: the Latin parts.
    """

    others: str
    latin: tuple[LatinPart, ...]


def separated(spoken: str, readings: LatinReadings | None) -> SeparatedText:
    """Separate the Latin words of what is spoken.

    Args:
        spoken: a normalized sentence.
        readings: the user's table of Latin words; None for none.
    """
    latin = tuple(
        LatinPart(
            len(ONE_HANZI.findall(spoken[: run.start()])),
            tuple(each_said(WORD.findall(run[0]), readings)),
        )
        for run in LATIN_RUN.finditer(spoken)
    )
    return SeparatedText(LATIN_RUN.sub(PAUSE, spoken), latin)


def together(syllables: Sequence[str], latin: Iterable[LatinPart]) -> tuple[str, ...]:
    """Return the labels of a sentence in order, with whole Latin words."""
    tokens: list[str] = []
    done = 0
    for part in latin:
        tokens += syllables[done : part.num_before]
        for _, said in part.words:
            tokens += said
        done = part.num_before
    return (*tokens, *syllables[done:])
