"""Toned pinyin as this project spells it: `zhong1`, neutral tone 5, ü written v; and other spellings read."""

from __future__ import annotations

import re
import unicodedata

INITIALS = ("zh", "ch", "sh", *"bpmfdtnlgkhjqxrzcsyw")  # two letters first, so that the longest one matches
TONES = "12345"
NEUTRAL = "5"
SPELLED_OTHERWISE = {"n": "en", "ng": "en", "ê": "ei"}  # 嗯 and 诶: no other syllable is spelled so

TONE_MARKS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
CIRCUMFLEX = "\u0302"
UMLAUT = re.compile("u(?:\u0308|:)")
WRITTEN = re.compile(f"([a-z{CIRCUMFLEX}]+)([0-5]?)")
SEPARATORS = re.compile("[\\s,.;!?'’·，。；！？、]+")


def is_syllable(token: str) -> bool:
    """Whether a token is written as a toned pinyin syllable, as `zhong1`."""
    return len(token) > 1 and token[-1] in TONES and token[:-1].isascii() and bool(set(token) & set("aeiouv"))


def split_syllable(syllable: str) -> tuple[str, str, str]:
    """Initial, final by its sound, and tone: `zhong1` -> (`zh`, `ong`, `1`); `an4` -> (``, `an`, `4`).

    The letters y and w count as initials, as they are written. The u of `ju`, `qu`, `xu` and `yu` is
    ü and comes back as v; the i of `zhi` and `si` is no i and comes back as `-i`. What is no toned
    syllable is all final: (``, token, ``).
    """
    if not is_syllable(syllable):
        return "", syllable, ""
    base, tone = syllable[:-1], syllable[-1]
    initial = next((i for i in INITIALS if base.startswith(i) and len(base) > len(i)), "")
    final = base[len(initial) :]
    if initial in ("j", "q", "x", "y") and final[0] == "u":
        final = "v" + final[1:]
    elif initial in ("zh", "ch", "sh", "r", "z", "c", "s") and final == "i":
        final = "-i"
    return initial, final, tone


def read_syllable(written: str) -> tuple[str, str] | None:
    """Read one syllable of pinyin in any of the usual spellings, as `zhōng`, `zhong1`, `lü4`, `lu:4`, `jv2`.

    Tones are digits or marks above a vowel, and 0 is neutral, too; ü may be written v or u:.

    Returns:
        its letters and its tone, as (`zhong`, `1`); the tone is empty where none is written. None for
        what cannot be pinyin by its letters; whether Mandarin has such a syllable is not checked.
    """
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", written).lower())
    marks = "".join(TONE_MARKS.get(char, "") for char in decomposed)
    letters = UMLAUT.sub("v", "".join(char for char in decomposed if char not in TONE_MARKS))
    match = WRITTEN.fullmatch(letters)
    if not match or len(marks + match[2]) > 1:
        return None
    base = unicodedata.normalize("NFC", match[1])
    base = SPELLED_OTHERWISE.get(base, match[1].replace(CIRCUMFLEX, ""))
    base = re.sub("^([jqxy])v", r"\1u", re.sub("^([ln])ue$", r"\1ve", base))
    return base, (marks + match[2]).replace("0", NEUTRAL)


def syllables_in(text: str) -> list[str]:
    """Read a line of pinyin, with spaces, apostrophes or punctuation between its syllables.

    A syllable without a tone stays without one. What is no pinyin stays as it is written.
    """
    parts = [part for part in SEPARATORS.split(text) if part]
    return ["".join(read_syllable(part) or (part,)) for part in parts]


def spelled_as_usual(syllable: str) -> str:
    """A toned syllable as it is written where dictionaries differ: `n2` -> `en2`."""
    return SPELLED_OTHERWISE.get(syllable[:-1], syllable[:-1]) + syllable[-1:]


def syllable_of_reading(reading: str) -> str:
    """Return the toned syllable of a reading as pypinyin's dictionaries write it: `zhōng` -> `zhong1`."""
    from pypinyin.contrib.tone_convert import to_tone3

    return spelled_as_usual(to_tone3(reading, v_to_u=False, neutral_tone_with_five=True))


def mandarin_syllables() -> list[str]:
    """Every toned syllable of Mandarin, sorted: what characters are read as, and each without its tone.

    Neutral tone is 5, ü is v: `lv4`, `de5`. Taken from pypinyin's dictionary of characters.
    """
    from pypinyin import pinyin_dict

    readings = {reading for text in pinyin_dict.pinyin_dict.values() for reading in text.split(",")}
    toned = {syllable_of_reading(reading) for reading in readings}
    return sorted(toned | {syllable[:-1] + NEUTRAL for syllable in toned})
