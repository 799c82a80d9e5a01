"""Write numbers, dates and amounts in digits, and keep how they are read: 一百二十三 becomes 123.

converter = NumberConverter(Converter.load())
converter.convert(["yi4", "bai3", "er4", "shi2", "san1"]).text    # 123

The field calls this inverse text normalisation. The rules are WeTextProcessing's, which the package `wetext`
(Apache-2.0) runs without a compiler of grammars.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from typing_extensions import override

from asr.base.errors import UserError
from asr.language.hanzi.converter import Conversion, Converter, HanziWord
from asr.language.hanzi.lattice import Lattice

# before 十分 as a number, which else is an adverb: 考了十分, but 显得十分重要
BEFORE_POINTS = re.compile("(?:(?<![显觉变更参增])[得加]|[打扣减差考评满])[了过分]?$")
NO_SECONDS = re.compile(r"(?<=\d:\d\d):00(?=$|[ap]\.m\.)")


class Rewriting(NamedTuple):
    """A stretch of text that is written otherwise.

    Attributes:
        begin: of the stretch, in characters.
        end: of the stretch.
        text: in its place.
    """

    begin: int
    end: int
    text: str


Rules = Callable[[str], Sequence[Rewriting]]
"""Returns what is written otherwise in a text, in order and without overlaps."""


class NumberConverter(Converter):
    """A converter that writes the numbers of another converter in digits.

    Args:
        spoken: the other converter.

    Raises:
        UserError: the package with the rules is not installed.
    """

    def __init__(self, spoken: Converter) -> None:
        soft_tones = spoken.tone_cost if spoken.tone_cost < math.inf else None
        super().__init__(spoken.model, spoken.dictionary, soft_tones, spoken.beam, spoken.margin, spoken.own)
        self._spoken, self._rules = spoken, number_rules()

    @property
    @override
    def without_itn(self) -> Converter:
        return self._spoken

    @override
    def convert_lattice(self, lattice: Lattice) -> Conversion:
        return rewritten(super().convert_lattice(lattice), self._rules)


@functools.cache
def number_rules() -> Rules:
    """Return the rules for Mandarin, which are loaded once.

    Raises:
        UserError: the package with the rules is not installed.
    """
    try:
        from wetext import Normalizer
    except ImportError:
        raise UserError(
            "`itn` needs the package wetext, which is not installed; pip install 'polyphone[normalize]'"
        ) from None
    rules, lock = Normalizer(lang="zh", operator="itn"), threading.Lock()

    def rewritings(text: str) -> list[Rewriting]:
        with lock:
            found = rules.normalize_with_mapping(text).mappings
        return [Rewriting(one.input_start, one.input_end, one.output_text) for one in found]

    return rewritings


def rewritten(conversion: Conversion, rules: Rules) -> Conversion:
    """Return a conversion with each rewritten stretch as one word, which has the syllables of the stretch.

    A word that is only in part within a stretch is cut where it has one character for each syllable; else it
    belongs to the stretch as a whole.
    """
    found = (_mended(one, conversion.text) for one in rules(conversion.text))
    rewritings = [one for one in found if not _is_misread(one, conversion.text)]
    if not rewritings:
        return conversion
    edges = {edge for one in rewritings for edge in (one.begin, one.end)}
    pieces = list(_pieces(conversion.words, edges))
    starts = list(itertools.accumulate((len(piece.text) for piece in pieces), initial=0))
    words: list[HanziWord] = []
    index = 0
    for rewriting in rewritings:
        while starts[index + 1] <= rewriting.begin:
            words.append(pieces[index])
            index += 1
        first = index
        while index < len(pieces) and starts[index] < rewriting.end:
            index += 1
        before = conversion.text[starts[first] : rewriting.begin]
        behind = conversion.text[rewriting.end : starts[index]]
        words.append(_joined(pieces[first:index], before + rewriting.text + behind))
    words += pieces[index:]
    return dataclasses.replace(conversion, text="".join(word.text for word in words), words=tuple(words))


def _mended(one: Rewriting, text: str) -> Rewriting:
    """Return a rewriting without seconds that nobody said, and with minutes as they are said."""
    said = text[one.begin : one.end]
    has_seconds = "秒" in said or text.startswith("零秒", one.end)
    written = one.text if has_seconds else NO_SECONDS.sub("", one.text)
    return one._replace(text=f"{written.removesuffix('min')}分钟" if said.endswith("分钟") else written)


def _is_misread(one: Rewriting, text: str) -> bool:
    """Return whether a stretch is not a number (十分感谢), or written as another (一米七八, 三点一刻)."""
    if text[one.begin : one.end] == "十分":
        return not BEFORE_POINTS.search(text[: one.begin])
    return one.text.endswith("刻") or ("~" in one.text and text[: one.begin].endswith("米"))


def _pieces(words: Sequence[HanziWord], edges: set[int]) -> Iterator[HanziWord]:
    """Yield words, cut at these places of the text where they can be."""
    begin = 0
    for word in words:
        size = len(word.text)
        if size == len(word.syllables):
            cuts = [0, *(index for index in range(1, size) if begin + index in edges), size]
            for first, last in itertools.pairwise(cuts):
                syllables = word.syllables[first:last]
                yield HanziWord(word.text[first:last], syllables, word.start + first, word.is_known)
        else:
            yield word
        begin += size


def _joined(words: Sequence[HanziWord], text: str) -> HanziWord:
    syllables = tuple(itertools.chain.from_iterable(word.syllables for word in words))
    return HanziWord(text, syllables, words[0].start, all(word.is_known for word in words))
