"""Convert text to units of the vocabulary: syllables, characters, words, or syllables with Latin words.

`in_pieces.py` splits words into pieces.

The policy is the same for every corpus:

- Full-width letters and digits become ordinary ones, compatibility characters their equivalents (Unicode
  NFKC). White space, punctuation, emoji and the signs of chats (～, ^_^) are not spoken and are dropped,
  and with them the marks on them; so are invisible code points, and marks on hanzi and digits.
- What is spoken but not written as it sounds cannot be labelled and is rejected with a reason: digits (2019
  has three readings) and Latin letters among syllables, signs such as % and + and the points in 3.14 and
  12:30 with every unit.
- Syllables are toned pinyin: each word with its own reading (银行 `yin2 hang2`, 长大 `zhang3 da4`) by
  pypinyin's dictionary, corrected by the context (data_pipeline/labels/readings); ü is written v. Tones are
  lexical: 一 is always `yi1`, 不 is always `bu4`, and the neutral tone, 5, is used where the dictionary has
  it. The particles 地 and 得 are `de5`. 儿 is a syllable of its own: `er5` as a suffix (花儿 `hua1 er5`),
  `er2` as a word (女儿) and in names. Traditional hanzi are read as their simplified forms (睡覺 `shui4
  jiao4`), a few by the one reading that they have (染髮 `ran3 fa4`), and stay in the text as they are.
- Mixed labels are syllables for hanzi; Latin words between them are spelt or spoken by the rules of
  asr/base/text/latin.py: `A P P`, `▁iphone`. Digits that touch Latin letters are read in Mandarin.
- Characters are lower-cased, accents that no single letter includes are dropped; vowel signs and other marks
  go with the character that they modify (नि); `▁` separates words that white space separates.
- Words are separated by white space; longer texts of hanzi without any are rejected, because their word
  boundaries are ambiguous.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from asr.base.text.hanzi_text import HANZI, HANZI_RUN, ONE_HANZI, SPACES_BETWEEN_HANZI
from asr.base.text.latin import with_spoken_digits, without_accents
from asr.base.text.units import MANDARIN_UNITS, Unit, characters_in, is_mark
from asr.base.vocabulary import WORD_BOUNDARY
from data_pipeline.labels.errors import SIGN_IN_NUMBER, UnlabelledError
from data_pipeline.labels.mixed_text import LatinPart, SeparatedText, separated, together
from data_pipeline.labels.readings.context import Draft
from data_pipeline.labels.readings.sentence import in_context, read_by_dictionary
from data_pipeline.labels.readings.tones import PAUSE, Tones, spoken_tones
from data_pipeline.labels.readings.traditional import simplified, single_readings
from data_pipeline.labels.readings.user_table import UserTable
from data_pipeline.labels.spoken_symbols import (
    GENERAL_MARKS,
    LONE_MARKS,
    CharKind,
    kind_of,
    read_with_number,
    without_emoticons,
    without_invisible,
)
from data_pipeline.types import LeftOut

# counted up when the same text gets other labels; 2: polyphones by context; 3: its second network;
# 4: marks go with the sign that they modify; 5: vowel signs do so in characters; 大夫, 漸染;
# 6: 还的, 打的电话, 解法, 逮住; 7: the spoken tones of 一 in 不一定, 每周一次; 染髮, 捲起來
LABELS_VERSION = 7

Result = TypeVar("Result")
Tokens = TypeVar("Tokens", str, tuple[str, ...])

BETWEEN_HANZI = re.compile(rf"(?<=[{HANZI}])\s+|\s+(?=[{HANZI}])")
IN_WORDS = "'-"  # don't, twenty-one
WITHOUT_MARKS = dict.fromkeys(map(ord, IN_WORDS), " ")
INSIDE_NUMBERS = re.compile(r"\d[^\w\s]\d")
REPLACED: dict[CharKind, str] = {"space": " ", "pause": PAUSE, "silent": ""}
DIGITS = "expected only hanzi, found digits; write them out as spoken"
LATIN = "expected only hanzi, found Latin letters; write them out as spoken"
OTHER_SCRIPTS = "expected only hanzi, found other scripts; write them out as spoken"
IN_MIXED = "expected hanzi and Latin letters, found"
DIGITS_IN_MIXED = f"{IN_MIXED} digits apart from letters; write them out as spoken"
OTHERS_IN_MIXED = f"{IN_MIXED} other scripts; write them out as spoken, or leave the sentence out"
SIGN = "sign that is read aloud; write it out"
CAN_BE_NORMALIZED = (DIGITS, DIGITS_IN_MIXED, SIGN_IN_NUMBER, SIGN)  # reasons
LONGEST_WORD = 4  # hanzi: a longer text without white space is not taken for one word
APOSTROPHES = str.maketrans("’‘ʼ´`‐‑", "'''''--")


@dataclass(frozen=True)
class ReadingPolicy:
    """Options of how hanzi become syllables.

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
    (tokens,) = label_all([text], unit, policy)
    if isinstance(tokens, UnlabelledError):
        raise tokens
    return tokens


def label_all(
    texts: Sequence[str], unit: Unit, policy: ReadingPolicy = USUAL
) -> list[tuple[str, ...] | UnlabelledError]:
    """Return the tokens of each text, or why it has none; the arguments are those of `label`.

    Syllables of some hundred texts together take less time than one by one.
    """
    if unit in MANDARIN_UNITS:
        drafted = _drafted if unit == "syllables" else functools.partial(_drafted_mixed, policy=policy)
        return _syllables(texts, policy, drafted)
    tokens_of = _LABELLERS[unit]
    return [_attempt(lambda text: _not_empty(tokens_of(_spoken(text)), text), text) for text in texts]


def remedies(left_out: Sequence[LeftOut], *, is_normalized: bool = False) -> list[str]:
    """Return which settings label recordings that were left out, a line each.

    Args:
        left_out: of a corpus.
        is_normalized: whether digits and signs are written out already, as far as that can be done.
    """
    latin = [row.detail for row in left_out if row.reason == LATIN]
    lines = []
    if not is_normalized and any(row.reason in CAN_BE_NORMALIZED for row in left_out):
        lines.append("  `normalize` writes out digits and signs")
    if any(map(ONE_HANZI.search, latin)):
        lines.append("  `units=mixed` labels hanzi with Latin words")
    elif latin:
        lines.append("  `units=bpe:500` labels English and the like, as do characters and words")
    return lines


def _spoken(text: str) -> str:
    """Remove what is not spoken from a text; words stay separate."""
    text = unicodedata.normalize("NFKC", without_invisible(text.translate(APOSTROPHES)))
    text = without_emoticons(LONE_MARKS.sub("", text))
    inside = INSIDE_NUMBERS.search(text)
    if sign := inside[0] if inside else read_with_number(text):
        raise UnlabelledError(SIGN_IN_NUMBER, f"{sign!r} in {text!r}")
    try:
        return "".join(map(_as_spoken, text))
    except ValueError as error:
        raise UnlabelledError(SIGN, f"{error} in {text!r}") from None


def _as_spoken(char: str) -> str:
    """Return what remains of a character; raise ValueError for a sign that is read aloud."""
    kind = kind_of(char)
    if kind == "read aloud":
        raise ValueError(repr(char))
    if kind == "spoken" or char in IN_WORDS:
        return char
    return REPLACED[kind]


def _attempt(function: Callable[[str], Result], text: str) -> Result | UnlabelledError:
    try:
        return function(text)
    except UnlabelledError as error:
        return error


def _not_empty(tokens: Tokens, text: str) -> Tokens:
    if not tokens:
        raise UnlabelledError("no spoken text", repr(text))
    return tokens


def latin_words(text: str, policy: ReadingPolicy) -> list[tuple[str, tuple[str, ...]]]:
    """Return the Latin words of a text with mixed labels, each with its tokens before pieces are learned."""
    return [word for part in _separated(text, policy).latin for word in part.words]


class _Drafted(NamedTuple):
    """A text before the context is asked.

    Attributes:
        written: before it was simplified.
        hanzi: simplified.
        draft: their readings by the dictionary.
        latin: what is between them.
    """

    written: str
    hanzi: str
    draft: Draft
    latin: tuple[LatinPart, ...] = ()


def _syllables(
    texts: Sequence[str], policy: ReadingPolicy, draft: Callable[[str], _Drafted]
) -> list[tuple[str, ...] | UnlabelledError]:
    attempts = [_attempt(draft, text) for text in texts]
    drafted = [found for found in attempts if not isinstance(found, UnlabelledError)]
    syllables = iter(in_context([one.hanzi for one in drafted], [one.draft for one in drafted]))
    return [
        found
        if isinstance(found, UnlabelledError)
        else together(_by_policy(found, next(syllables), policy), found.latin)
        for found in attempts
    ]


def _drafted(text: str) -> _Drafted:
    spoken = _spoken(text)
    hanzi = "".join(char for char in spoken if not char.isspace() and char not in IN_WORDS)
    if other := re.search(f"[^{HANZI}]", hanzi):
        char = other[0]
        reason = DIGITS if char.isnumeric() else LATIN if char.isascii() else OTHER_SCRIPTS
        raise UnlabelledError(reason, repr(text.strip()))
    _not_empty(hanzi, text)
    return _Drafted(*_read(spoken))


def _separated(text: str, policy: ReadingPolicy) -> SeparatedText:
    spoken = without_accents(_spoken(with_spoken_digits(text)))
    return separated(spoken, policy.table.latin if policy.table else None)


def _drafted_mixed(text: str, policy: ReadingPolicy) -> _Drafted:
    others, latin = _separated(text, policy)
    if other := re.search(rf"[^{HANZI}\s{IN_WORDS}]", others):
        reason = DIGITS_IN_MIXED if other[0].isnumeric() else OTHERS_IN_MIXED
        raise UnlabelledError(reason, f"{other[0]} in {text.strip()!r}")
    if not latin:
        _not_empty(others.strip(f"{IN_WORDS} {PAUSE}"), text)
    return _Drafted(*_read(others), latin)


def _read(spoken: str) -> tuple[str, str, Draft]:
    """Return hanzi as written and simplified, and their readings by the dictionary or as written."""
    written = spoken.translate(WITHOUT_MARKS)
    simple, decided = simplified(written), single_readings(written)
    draft = read_by_dictionary(simple)
    syllables = [decided.get(place, syllable) for place, syllable in enumerate(draft.syllables)]
    return written, simple, Draft(syllables, draft.in_words, {*draft.decided, *decided})


def _by_policy(drafted: _Drafted, syllables: list[str], policy: ReadingPolicy) -> tuple[str, ...]:
    by_user = policy.table.find(drafted.hanzi, drafted.written) if policy.table else {}
    for index, syllable in by_user.items():
        syllables[index] = syllable
    if policy.tones == "spoken":
        syllables = spoken_tones(drafted.hanzi, syllables, by_user)
    return tuple(syllables)


def _characters(text: str) -> tuple[str, ...]:
    spaced = GENERAL_MARKS.sub("", BETWEEN_HANZI.sub("", text.strip()).lower())
    words = (word.strip(IN_WORDS) for word in spaced.split())
    characters = characters_in(WORD_BOUNDARY.join(word for word in words if word))
    # a mark on nothing is at the beginning of a word
    whole = [WORD_BOUNDARY if character[0] == WORD_BOUNDARY else character for character in characters]
    return tuple(whole[1:] if whole and is_mark(whole[0][0]) else whole)


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
