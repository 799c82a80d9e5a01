"""Convert text to units of the vocabulary: syllables, characters or words.

The policy is the same for every corpus:

- Full-width letters and digits become ordinary ones, compatibility characters their equivalents (Unicode
  NFKC). White space, punctuation, emoji and the signs of chats (～, ^_^) are not spoken and are dropped.
- What is spoken but not written as it sounds cannot be labelled and is rejected with a reason: digits (2019
  has three readings) and Latin letters among syllables, signs such as % and + and the points in 3.14 and
  12:30 with every unit.
- Syllables are toned pinyin: each word with its own reading (银行 `yin2 hang2`, 长大 `zhang3 da4`) by
  pypinyin's dictionary, corrected by the context (data_pipeline/readings); ü is written v. Tones are
  lexical: 一 is always `yi1`, 不 is always `bu4`, and the neutral tone, 5, is used where the dictionary has
  it. The particles 地 and 得 are `de5`. 儿 is a syllable of its own: `er5` as a suffix (花儿 `hua1 er5`),
  `er2` as a word (女儿) and in names. Traditional hanzi are read as their simplified forms (睡覺 `shui4
  jiao4`), and stay in the text as they are.
- Characters are lower-cased; `▁` separates words of Latin script that white space separates.
- Words are separated by white space; longer texts of hanzi without any are rejected, because their word
  boundaries are ambiguous.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from asr.base.hanzi_text import HANZI, HANZI_RUN, SPACES_BETWEEN_HANZI
from asr.base.units import Unit
from asr.base.vocabulary import WORD_BOUNDARY
from data_pipeline.readings.reading import read_hanzi
from data_pipeline.readings.tones import PAUSE, Tones, spoken_tones
from data_pipeline.readings.traditional import simplified
from data_pipeline.readings.user_table import UserTable
from data_pipeline.signs import DECORATION, is_read_aloud, read_with_number, without_emoticons
from data_pipeline.unlabelled import UnlabelledError

LABELS_VERSION = 2  # 2: polyphones by context; counted up when the same text gets other labels

BETWEEN_HANZI = re.compile(rf"(?<=[{HANZI}])\s+|\s+(?=[{HANZI}])")
IN_WORDS = "'-"  # don't, twenty-one
WITHOUT_MARKS = dict.fromkeys(map(ord, IN_WORDS), " ")
INSIDE_NUMBERS = re.compile(r"\d[^\w\s]\d")
SPACE = " "  # replaces white space; PAUSE replaces punctuation
DIGITS = "expected only hanzi, found digits; write them out as spoken"
SIGN_IN_NUMBER = "number with a sign in it; write it out"
SIGN = "sign that is read aloud; write it out"
CAN_BE_NORMALIZED = (DIGITS, SIGN_IN_NUMBER, SIGN)  # reasons
LONGEST_WORD = 4  # hanzi: a longer text without white space is not taken for one word
CURLY = str.maketrans("’‘ʼ‐‑", "'''--")


@dataclass(frozen=True)
class ReadingPolicy:
    """Says how hanzi become syllables.

    Attributes:
        tones: "citation" for the tones of the dictionary; "spoken" for those of fluent speech, in which third
            tones, 一 and 不 change before others.
        table: the user's readings, which win over everything; None for none.
    """

    tones: Tones = "citation"
    table: UserTable | None = None


USUAL = ReadingPolicy()


def label(text: str, unit: Unit, policy: ReadingPolicy = USUAL) -> tuple[str, ...]:
    """Return the tokens of a text.

    Args:
        text: as written.
        unit: of the tokens.
        policy: how hanzi become syllables.

    Raises:
        UnlabelledError: the text holds what the policy above rejects, or has no tokens.
    """
    spoken = _spoken(text)
    tokens = _syllables(spoken, policy) if unit == "syllables" else _LABELLERS[unit](spoken)
    if not tokens:
        raise UnlabelledError("no spoken text", repr(text))
    return tokens


def pinyin_of(text: str) -> tuple[str, ...]:
    """Return the toned syllables of a text, each word with its own reading: 银行 -> (`yin2`, `hang2`).

    Raises:
        UnlabelledError: the text holds anything spoken other than hanzi, or has no hanzi.
    """
    return label(text, "syllables")


def _spoken(text: str) -> str:
    """Remove what is not spoken from a text; words stay separate."""
    text = without_emoticons(unicodedata.normalize("NFKC", text).translate(CURLY))
    inside = INSIDE_NUMBERS.search(text)
    if sign := inside[0] if inside else read_with_number(text):
        raise UnlabelledError(SIGN_IN_NUMBER, f"{sign!r} in {text!r}")
    kept = []
    for char in text:
        kind = unicodedata.category(char)
        if is_read_aloud(char):
            raise UnlabelledError(SIGN, f"{char!r} in {text!r}")
        if char.isspace():
            kept.append(SPACE)
        elif (kind[0] == "P" and char not in IN_WORDS) or char in DECORATION:
            kept.append(PAUSE)
        elif kind[0] in "LNM" or char in IN_WORDS:
            kept.append(char)
        # else a silent symbol, a control character or a byte order mark
    return "".join(kept)


def _syllables(text: str, policy: ReadingPolicy) -> tuple[str, ...]:
    hanzi = "".join(char for char in text if not char.isspace() and char not in IN_WORDS)
    if other := re.search(f"[^{HANZI}]", hanzi):
        char = other[0]
        what = "Latin letters" if char.isascii() else "other scripts"
        reason = (
            DIGITS if char.isnumeric() else f"expected only hanzi, found {what}; write them out as spoken"
        )
        raise UnlabelledError(reason, repr(text.strip()))
    text = simplified(text.translate(WITHOUT_MARKS))
    syllables = read_hanzi(text)
    by_user = policy.table.find(text) if policy.table else {}
    for place, syllable in by_user.items():
        syllables[place] = syllable
    if policy.tones == "spoken":
        syllables = spoken_tones(text, syllables, by_user)
    return tuple(syllables)


def _characters(text: str) -> tuple[str, ...]:
    spaced = BETWEEN_HANZI.sub("", text.strip()).lower()
    words = (word.strip(IN_WORDS) for word in spaced.split())
    return tuple(WORD_BOUNDARY.join(word for word in words if word))


def _words(text: str) -> tuple[str, ...]:
    parts = [part.strip(IN_WORDS).lower() for part in text.split()]
    longest = max((len(run) for run in HANZI_RUN.findall(text)), default=0)
    if longest > LONGEST_WORD and not SPACES_BETWEEN_HANZI.search(text):
        raise UnlabelledError("hanzi without spaces between words; add spaces", repr(text.strip()))
    return tuple(part for part in parts if part)


_LABELLERS: dict[Unit, Callable[[str], tuple[str, ...]]] = {
    "characters": _characters,
    "words": _words,
}
