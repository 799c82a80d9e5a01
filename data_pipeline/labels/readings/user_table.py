"""Read a user's own table of readings, which wins over the dictionary, the rules and the context.

# a word and its syllables in each line; a comment begins with #
单田芳	shan4 tian2 fang1
朝阳门	cháo yáng mén
app	A P P
ofo	ofo

Latin words, which mixed labels have, are spelt by capital letters, spoken in small ones, or have syllables.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.text.encodings import file_lines
from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.latin import WORD, LatinReadings, latin_reading
from asr.base.text.pinyin import known_syllables, syllables_in
from asr.base.text.wording import counted
from data_pipeline.labels.readings.tones import PAUSE
from data_pipeline.labels.readings.traditional import simplified

COMMENT = "#"
FORM = (
    "expected a word in hanzi and a toned syllable for each hanzi, such as `银行 yin2 hang2`, or a Latin "
    "word and its letters or how it is spoken, such as `app A P P`"
)


@dataclass(frozen=True)
class UserTable:
    """A user's readings.

    Attributes:
        readings: word as written, and in simplified hanzi -> a toned syllable for each hanzi.
        latin: Latin word in small letters -> what is said, see `asr.base.text.latin`.
    """

    readings: Mapping[str, tuple[str, ...]]
    latin: LatinReadings = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> UserTable:
        """Read a file with a word and its syllables in each line.

        Raises:
            UserError: the file is missing or unreadable, has no readings, or a line is broken.
        """
        readings: dict[str, tuple[str, ...]] = {}
        line_of: dict[str, int] = {}
        for number, line in enumerate(file_lines(path, "table of readings"), start=1):
            written = line.partition(COMMENT)[0].split()
            if not written:
                continue
            try:
                words, syllables = _entry(written)
            except (ValueError, UserError) as error:
                raise UserError(
                    f"{path}, line {number}: {FORM}, received {line.strip()!r}: {error}"
                ) from None
            for word in words:
                if readings.setdefault(word, syllables) != syllables:
                    raise UserError(
                        f"{path}, line {number}: {word} is read {' '.join(syllables)} here and "
                        f"{' '.join(readings[word])} in line {line_of[word]}; remove one of the lines"
                    )
                line_of.setdefault(word, number)
        if not readings:
            raise UserError(f"{path}: no readings; {FORM} in each line")
        return cls(
            {word: syllables for word, syllables in readings.items() if is_hanzi(word)},
            {word: tokens for word, tokens in readings.items() if not is_hanzi(word)},
        )

    def find(self, text: str, written: str) -> dict[int, str]:
        """Return the readings of the table's words in a text, by the place among its hanzi; longer words win.

        Args:
            text: simplified hanzi; words do not contain line ends, and other white space is ignored.
            written: the same before it was simplified, where 看著 may be a word of the table.
        """
        found: dict[int, str] = {}
        index = 0
        for phrases in zip(written.split(PAUSE), text.split(PAUSE), strict=True):
            forms = ["".join(phrase.split()) for phrase in phrases]
            num_hanzi, begin = len(forms[0]), 0
            while begin < num_hanzi:
                ends = range(min(num_hanzi, begin + self._longest), begin, -1)
                words = (form[begin:end] for end in ends for form in forms)
                word = next(filter(self.readings.__contains__, words), "")
                found.update(enumerate(self.readings.get(word, ()), start=index + begin))
                begin += len(word) or 1
            index += num_hanzi
        return found

    @functools.cached_property
    def _longest(self) -> int:
        return max(map(len, self.readings), default=0)


def _entry(written: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a line's word in its forms, and its syllables; raise ValueError or UserError if it is wrong."""
    if WORD.fullmatch(written[0]):
        return (written[0].lower(),), latin_reading(written[1:])
    word, syllables = simplified(written[0]), tuple(syllables_in(" ".join(written[1:])))
    if not is_hanzi(word):
        raise ValueError(f"{written[0]!r} is neither hanzi nor Latin letters")
    if len(syllables) != len(word):
        raise ValueError(f"{len(word)} hanzi, {counted(len(syllables), 'syllable')}")
    if unknown := [syllable for syllable in syllables if syllable not in known_syllables()]:
        raise ValueError(f"{unknown[0]!r} is not a toned syllable of Mandarin")
    return (word, written[0]), syllables
