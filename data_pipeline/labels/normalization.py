"""Write out digits and signs as they are spoken, by WeTextProcessing's rules: 2019年 becomes 二零一九年.

The rules are those of the package `wetext` (Apache-2.0), which runs them without a compiler of grammars. What
they get wrong is changed before: ranges, thousands, the second of a month. A number whose sign they leave, or
take for a minus where it may be a range or a score, is refused.
"""

from __future__ import annotations

import collections
import copy
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.text.hanzi_text import ONE_HANZI, is_hanzi
from data_pipeline.labels.english_text import are_english, english_as_spoken, has_abbreviations, is_english
from data_pipeline.labels.errors import SIGN_IN_NUMBER, UnlabelledError

REMEDY = "pip install 'polyphone[normalize]'"
ROMAN = "ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻ"
COMPATIBLE = ("<wide>", "<fraction>", "<circle>")
BEFORE = (  # their mends
    (re.compile(r"(?<=[\d%])[\u301c\u2013\u2014](?=\d)"), "~"),  # 5〜6, 5–6
    (re.compile(r"(?<=\d)(%?)-(?=\d+(?:\.\d+)?(?:[%‰次点折成倍级]|年级))"), r"\1~"),
    (re.compile(r"(?<![\d.,])(\d{1,3}),(\d{3})(?:,(\d{3}))?(?:,(\d{3}))?(?![\d,])"), r"\1\2\3\4"),
    (re.compile(r"(?<=\d),(?=\d)"), "、"),  # 3,4个
    (re.compile(r"¥(?=\d+(?:\.\d+)?[千万亿]*元)"), ""),
)
LIST = re.compile("(?<=[0-9０-９])，(?=[0-9０-９])")  # 3，4个, where an ASCII comma may separate thousands
INSIDE = re.compile(r"(?<=\d)[-.*/×÷+~:^&·′″](?=\d)")  # a sign within a number
MINUS, SUMS = "减", re.compile(r"[=+]|等于|(?<=\d)减(?=\d)")
FRACTION = re.compile("[¼-¾⅐-⅞]")
MIXED = re.compile(rf"(?<=\d)(?={FRACTION.pattern})")  # 3½
ESCAPED = re.compile(r'\\(["\\])')  # by the rules


class NormalizedText(NamedTuple):
    """A text that was changed.

    Attributes:
        what: path of the recording.
        written: before.
        spoken: after.
    """

    what: str
    written: str
    spoken: str


class Normalizer:
    """A rewriter of text as it is spoken: English if it has Latin letters and no hanzi, else Mandarin.

    Raises:
        UserError: the package that does it is not installed.
    """

    def __init__(self) -> None:
        try:
            from wetext import Normalizer as Rules
        except ImportError:
            raise UserError(f"`normalize` needs the package wetext; {REMEDY}") from None
        self._rules = Rules(lang="zh", operator="tn")
        self._english = Rules(lang="en", operator="tn")

        self._in_english = False

    def in_language_of(self, texts: Iterable[str]) -> Normalizer:
        """Return one that reads numbers alone in English if these texts, of the same corpus, are English."""
        other = copy.copy(self)
        other._in_english = are_english(texts)
        return other

    def __call__(self, text: str) -> str:
        """Return the text as it is spoken; what the rules do not know stays as it is.

        Raises:
            UnlabelledError: how a sign within a number is read is not known.
        """
        if is_english(text) or (self._in_english and not ONE_HANZI.search(text)):
            text = "".join(map(_plain, MIXED.sub(" ", text)))
            spoken = english_as_spoken(text, self._read_english)
        else:
            text = FRACTION.sub(lambda found: self._read(_plain(found[0])), MIXED.sub("又", text))
            text = "".join(map(_plain, LIST.sub("、", text)))
            for pattern, mended in BEFORE:
                text = pattern.sub(mended, text)
            spoken = self._read(text).replace("月两日", "月二日")
        if sign := _unread_sign(text, spoken):
            raise UnlabelledError(SIGN_IN_NUMBER, f"{sign!r} in {text!r}")
        return spoken

    def if_known(self, text: str) -> str:
        """Return the text as it is spoken; where that is not known, as it is written, which has no label."""
        try:
            return self(text)
        except UnlabelledError:
            return text

    def _read(self, text: str) -> str:
        return ESCAPED.sub(r"\1", self._rules.normalize(text))

    def _read_english(self, text: str) -> str:
        try:
            return ESCAPED.sub(r"\1", self._english.normalize(text)) or text
        except AssertionError:  # the package's own, where none of its rules knows a character
            return text


def has_short_forms(text: str) -> bool:
    """Return whether a text has numbers or abbreviations, which are not written as they are read."""
    return has_numbers(text) or has_abbreviations(text)


def has_numbers(text: str) -> bool:
    """Return whether a text has digits or other numbers that are not hanzi: 5, ５, ½, Ⅳ, ①."""
    return any(char.isnumeric() and not is_hanzi(char) for char in text)


def _unread_sign(text: str, spoken: str) -> str:
    """Return a sign within a number that was not read, or may not be the minus that it was read as."""
    inside = collections.Counter(INSIDE.findall(text))
    if "-" in inside and MINUS in spoken and not SUMS.search(text):
        return "-"
    left = (sign for sign, number in inside.items() if spoken.count(sign) > text.count(sign) - number)
    return next(left, "")


def _plain(char: str) -> str:
    """Return wide characters, fractions, circled and Roman numbers as the rules expect them."""
    if char in ROMAN:
        return f"{unicodedata.numeric(char):.0f}"
    if unicodedata.decomposition(char).startswith(COMPATIBLE):
        return unicodedata.normalize("NFKC", char).replace("\u2044", "/")
    return char


def write_normalized(path: Path, changed: Sequence[NormalizedText]) -> None:
    """Write a list with a line for each text: recording, as written, as spoken; no file if there is none."""
    path.unlink(missing_ok=True)
    if changed:
        with whole_file(path, "list") as file:
            for row in changed:
                line = "\t".join(" ".join(cell.split()) for cell in row)
                file.write(f"{line}\n".encode(errors="backslashreplace"))
