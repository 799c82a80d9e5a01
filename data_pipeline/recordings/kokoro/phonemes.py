"""Spell Mandarin as Kokoro expects it: syllables as IPA with arrows as tones, words separated by spaces.

Kokoro 1.0 was trained on the spelling of misaki's `ZHG2P` (Apache-2.0, github.com/hexgrad/misaki). Here the
syllables are those of the labels, so that a voice says what the labels say; misaki looks them up by itself.
Tones are lexical: the network itself changes third tones, 一 and 不 before others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asr.base.errors import UserError
from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.pinyin import split_syllable

# as pinyin spells them; y and w are parts of finals
INITIALS = {
    "": "", "b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t", "t": "tʰ", "n": "n", "l": "l", "g": "k",
    "k": "kʰ", "h": "x", "j": "ʨ", "q": "ʨʰ", "x": "ɕ", "zh": "ꭧ", "ch": "ꭧʰ", "sh": "ʂ", "r": "ɻ",
    "z": "ʦ", "c": "ʦʰ", "s": "s",
}  # fmt: skip
# the tone replaces the 0
FINALS = {
    "a": "a0", "ai": "ai0", "an": "a0n", "ang": "a0ŋ", "ao": "au0", "e": "ɤ0", "ei": "ei0", "en": "ə0n",
    "eng": "ə0ŋ", "er": "ɚ0", "o": "wo0", "ou": "ou0", "ong": "ʊ0ŋ", "-i": "ɨ0", "i": "i0", "ia": "ja0",
    "ian": "jɛ0n", "iang": "ja0ŋ", "iao": "jau0", "ie": "je0", "in": "i0n", "ing": "i0ŋ", "io": "jɔ0",
    "iong": "jʊ0ŋ", "iou": "jou0", "u": "u0", "ua": "wa0", "uai": "wai0", "uan": "wa0n", "uang": "wa0ŋ",
    "uei": "wei0", "uen": "wə0n", "ueng": "wə0ŋ", "uo": "wo0", "v": "y0", "van": "ɥɛ0n", "ve": "ɥe0",
    "vn": "y0n",
}  # fmt: skip
SHORTENED = {"iu": "iou", "ui": "uei", "un": "uen"}
WHOLE = {"o": "ɔ0", "hm": "hm0", "hng": "hŋ0", "m": "m0", "n": "n0", "ng": "ŋ0"}  # interjections
TONES = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}

PUNCTUATION = {
    mark: spelling
    for marks, spelling in (
        ("，、,", ", "), ("。．.", ". "), ("！!", "! "), ("？?", "? "), ("：:", ": "), ("；;", "; "),
        ("…⋯", "…"), ("—―", "—"), ("“「『《【", " “"), ("”」』》】", "” "), ("（(", " ("), ("）)", ") "),
    )
    for mark in marks
}  # fmt: skip
# what Kokoro's config.json calls `vocab`, without the symbols of other languages
SYMBOLS = {
    ";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, "—": 9, "…": 10, "(": 12, ")": 13, "“": 14, "”": 15,
    " ": 16, "ʦ": 20, "ʨ": 21, "ꭧ": 23, "a": 43, "e": 47, "f": 48, "h": 50, "i": 51, "j": 52, "k": 53,
    "l": 54, "m": 55, "n": 56, "o": 57, "p": 58, "s": 61, "t": 62, "u": 63, "w": 65, "x": 66, "y": 67,
    "ɔ": 76, "ɕ": 77, "ə": 83, "ɚ": 85, "ɛ": 86, "ɥ": 99, "ɨ": 101, "ŋ": 112, "ɻ": 126, "ʂ": 130,
    "ʊ": 135, "ɤ": 140, "ʰ": 162, "↓": 169, "→": 171, "↗": 172, "↘": 173,
}  # fmt: skip


def phonemes_of(syllable: str) -> str:
    """Return a toned syllable as Kokoro expects it: `zhong1` -> `ꭧʊ→ŋ`.

    Raises:
        UserError: it is not a syllable of Mandarin.
    """
    base, tone = syllable[:-1], syllable[-1:]
    initial, final, _ = split_syllable(syllable)
    if initial == "y":
        initial, final = "", final if final[0] in "iv" else f"i{final}"
    elif initial == "w":
        initial, final = "", final if final[0] == "u" else f"u{final}"
    final = SHORTENED.get(final, final)
    spelling = WHOLE.get(base)
    if spelling is None and initial in INITIALS and final in FINALS:
        spelling = INITIALS[initial] + FINALS[final]
    if spelling is None or tone not in TONES:
        raise UserError(f"{syllable!r}: Kokoro cannot say this; expected toned pinyin such as lv4 or de5")
    return spelling.replace("0", TONES[tone])


def spelled(text: str, syllables: Sequence[str]) -> str:
    """Return a text as Kokoro expects it.

    Args:
        text: with one syllable for each of its hanzi; other characters than punctuation are left out.
        syllables: toned pinyin.

    Raises:
        UserError: there are more or fewer syllables than hanzi, or one is not Mandarin.
    """
    num_hanzi = sum(map(is_hanzi, text))
    if num_hanzi != len(syllables):
        raise UserError(
            f"{text!r}: expected {num_hanzi} syllables, one for each hanzi, received {len(syllables)}"
        )
    return " ".join("".join(_parts(text, syllables)).split())


def _parts(text: str, syllables: Sequence[str]) -> Iterator[str]:
    import rjieba

    rest = iter(syllables)
    follows_word = False
    for word in rjieba.cut(text, True):
        for char in word if not is_hanzi(word) else (word,):
            is_word = is_hanzi(char)
            if is_word and follows_word:
                yield " "
            yield "".join(phonemes_of(next(rest)) for _ in char) if is_word else PUNCTUATION.get(char, " ")
            follows_word = is_word


def symbol_ids(spelling: str) -> list[int]:
    """Return the ids of a spelling's symbols in Kokoro's vocabulary."""
    return [SYMBOLS[symbol] for symbol in spelling]
