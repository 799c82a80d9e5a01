"""Text -> units of the vocabulary: syllables, characters or words.

The policy, the same for every corpus:

- Full-width letters and digits count as the ordinary ones, compatibility characters as what they stand for
  (Unicode NFKC). White space and punctuation are not spoken and are dropped.
- What is spoken but not written as it sounds cannot be labelled and is left out by name: digits (2019 has
  three readings) and Latin letters among syllables, signs such as % and + and the points in 3.14 and 12:30
  everywhere.
- Syllables are toned pinyin: each word with its own reading (银行 `yin2 hang2`, 长大 `zhang3 da4`) by
  pypinyin's dictionary, corrected by the context (data_pipeline/polyphones.py); ü written v. Tones are
  lexical: 一 is `yi1`, 不 is `bu4` wherever they stand, and the neutral tone, 5, stands where the dictionary
  has it. The particles 地 and 得 are `de5`. 儿 is a syllable of its own: `er5` as a suffix (花儿
  `hua1 er5`), `er2` as a word (女儿).
- Characters are lower-cased; `▁` stands between words that white space separates, of Latin script that is.
- Words are those that white space separates; longer hanzi without any are left out: where their words end
  is anyone's guess.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from asr.base.hanzi_text import HANZI, HANZI_RUN, SPACES_BETWEEN_HANZI, is_hanzi
from asr.base.pinyin import spelled_as_usual
from asr.base.types import UserError
from asr.base.units import Unit
from asr.base.vocabulary import WORD_BOUNDARY
from data_pipeline.polyphones import readings_by_context

BETWEEN_HANZI = re.compile(rf"(?<=[{HANZI}])\s+|\s+(?=[{HANZI}])")
SPOKEN_SIGNS = frozenset("%‰‱°+=×÷<>&@#$€£¥§~^|\\/")
IN_WORDS = "'-"  # don't, twenty-one
INSIDE_NUMBERS = re.compile(r"\d[^\w\s]\d")
SPACE, PAUSE = " ", "\n"  # what white space and what punctuation leaves
LONGEST_WORD = 4  # hanzi, that a text without white space is taken for a word
CURLY = str.maketrans("’‘ʼ‐‑", "'''--")
ER_WORDS = re.compile(
    "儿(?=[童子女孙媳歌科戏时])|(?<=[女婴幼孤胎男健宠弃患产育托妻小少潮运血生])儿(?![童子女孙媳歌科戏时])"
)


class UnlabelledError(UserError):
    """A text that cannot be labelled.

    Args:
        reason: the same for all of a kind, so that they can be counted.
        detail: what was found in this text.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{detail}: {reason}")
        self.reason, self.detail = reason, detail


def label(text: str, unit: Unit) -> tuple[str, ...]:
    """Tokens of a text.

    Raises:
        UnlabelledError: it holds what the policy above does not label, or nothing at all.
    """
    tokens = _LABELLERS[unit](_spoken(text))
    if not tokens:
        raise UnlabelledError("nothing to label in the text", repr(text))
    return tokens


def pinyin_of(text: str) -> tuple[str, ...]:
    """Toned syllables of a text, each word with its own reading: 银行 -> (`yin2`, `hang2`).

    Raises:
        UnlabelledError: it holds anything that is spoken but no hanzi, or nothing at all.
    """
    return label(text, "syllables")


def _spoken(text: str) -> str:
    """A text without what is not spoken; words stay apart."""
    text = unicodedata.normalize("NFKC", text).translate(CURLY)
    if inside := INSIDE_NUMBERS.search(text):
        raise UnlabelledError("a number with a sign in it; write it out", f"{inside[0]!r} in {text!r}")
    kept = []
    for char in text:
        kind = unicodedata.category(char)
        if char in SPOKEN_SIGNS or kind in ("Sc", "Sm", "No"):
            raise UnlabelledError("a sign with a reading of its own; write it out", f"{char!r} in {text!r}")
        if char.isspace():
            kept.append(SPACE)
        elif kind[0] == "P" and char not in IN_WORDS:
            kept.append(PAUSE)
        elif kind[0] in "LNM" or char in IN_WORDS:
            kept.append(char)
        # else a symbol without a sound, a control character or a byte order mark
    return "".join(kept)


def _syllables(text: str) -> tuple[str, ...]:
    hanzi = "".join(char for char in text if not char.isspace() and char not in IN_WORDS)
    if stranger := re.search(f"[^{HANZI}]", hanzi):
        char = stranger[0]
        what = "digits" if char.isnumeric() else "Latin letters" if char.isascii() else "other scripts"
        raise UnlabelledError(
            f"expected hanzi alone, found {what}; write out how it is read", repr(text.strip())
        )
    # white space between hanzi separates words in some corpora: it says where a word ends
    words = [word for part in text.split() for word in _cut(part) if is_hanzi(word)]
    return tuple(_readings(words))


def _readings(words: Sequence[str]) -> list[str]:
    from pypinyin import Style, lazy_pinyin

    text = "".join(words)
    dictionary = lazy_pinyin(list(words), style=Style.TONE3, v_to_u=False, neutral_tone_with_five=True)
    syllables = [spelled_as_usual(syllable) for syllable in dictionary]
    if len(syllables) != len(text) or any(not syllable.isascii() for syllable in syllables):
        unknown = [char for char, syllable in zip(text, syllables, strict=False) if not syllable.isascii()]
        raise UnlabelledError("a character whose reading no dictionary tells", "".join(unknown) or text)
    as_words = {match.start() for match in ER_WORDS.finditer(text)}
    by_context = readings_by_context(words)
    place = 0
    for word in words:
        for here in range(place, place + len(word)):
            particle = len(word) == 1 and particle_of(text, here)
            is_suffix = here > 0 and here not in as_words
            lexical = _lexical(text[here], syllables[here], is_suffix)
            syllables[here] = by_context.get(here) or particle or lexical
        place += len(word)
    return syllables


def particle_of(text: str, place: int) -> str:
    """The reading of 地 and 得 where they are words of their own; empty for anything else."""
    before, after = text[max(0, place - 2) : place], text[place + 1 : place + 2]
    if text[place] == "地" and len(before) == 2 and after and before[1] not in "的这那块片某此各每":
        return "de5"
    return "de5" if text[place] == "得" and before else ""


def _lexical(char: str, syllable: str, is_suffix: bool) -> str:
    if char == "一":
        return "yi1"
    if char == "不":
        return "bu4"
    if char == "儿" and syllable in ("er2", "er5"):
        return "er5" if is_suffix else "er2"
    return syllable


def _characters(text: str) -> tuple[str, ...]:
    spaced = BETWEEN_HANZI.sub("", text.strip()).lower()
    words = (word.strip(IN_WORDS) for word in spaced.split())
    return tuple(WORD_BOUNDARY.join(word for word in words if word))


def _words(text: str) -> tuple[str, ...]:
    parts = [part.strip(IN_WORDS).lower() for part in text.split()]
    longest = max((len(run) for run in HANZI_RUN.findall(text)), default=0)
    if longest > LONGEST_WORD and not SPACES_BETWEEN_HANZI.search(text):
        raise UnlabelledError("hanzi without spaces between their words; separate them", repr(text.strip()))
    return tuple(part for part in parts if part)


def _cut(text: str) -> list[str]:
    """Hanzi as words, the longest that pypinyin's dictionary of phrases knows."""
    from pypinyin.seg import mmseg

    return list(mmseg.seg.cut(text))


_LABELLERS: dict[Unit, Callable[[str], tuple[str, ...]]] = {
    "syllables": _syllables,
    "characters": _characters,
    "words": _words,
}
