"""Read toned pinyin in the usual spellings; write it as `zhong1`, with 5 for neutral tone and v for ü."""

from __future__ import annotations

import functools
import re
import unicodedata

INITIALS = ("zh", "ch", "sh", *"bpmfdtnlgkhjqxrzcsyw")  # longest first, so that the longest matches
TONES = "12345"
NEUTRAL = "5"
VARIANT_SPELLINGS = {"n": "en", "ng": "en", "ê": "ei"}  # of 嗯 and 诶 only

TONE_MARKS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
CIRCUMFLEX = "\u0302"
UMLAUT = re.compile("u(?:\u0308|:)")
WRITTEN = re.compile(f"([a-z{CIRCUMFLEX}]+)([0-5]?)")
LONGEST_SYLLABLE = 10  # characters: zhuang and a tone, each mark a character of its own
SEPARATORS = re.compile("[\\s,.;!?'’·，。；！？、]+")


def is_syllable(token: str) -> bool:
    """Return whether a token is written as a toned pinyin syllable, such as `zhong1`."""
    return len(token) > 1 and token[-1] in TONES and token[:-1].isascii() and bool(set(token) & set("aeiouv"))


def without_tone(token: str) -> str:
    """Return a toned syllable without its tone; other tokens are unchanged."""
    return token[:-1] if is_syllable(token) else token


def split_syllable(syllable: str) -> tuple[str, str, str]:
    """Return initial, final and tone: `zhong1` -> (`zh`, `ong`, `1`); `an4` -> (``, `an`, `4`).

    Initials follow the spelling, so that y and w count as initials. Finals follow the sound: the u of `ju`,
    `qu`, `xu` and `yu` is ü and returned as v; the i of `zhi` and `si` is another vowel and returned as
    `-i`. A token that is not a toned syllable is returned as the final: (``, token, ``).
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
    """Read one syllable of pinyin in any of the usual spellings: `zhōng`, `zhong1`, `lü4`, `lu:4`, `jv2`.

    Tones are digits or diacritics, and 0 also means neutral; ü may be written v or u:.

    Returns:
        its letters and its tone, as (`zhong`, `1`); the tone is empty if none is written. None if the
        letters cannot be pinyin; whether Mandarin has such a syllable is not checked.
    """
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", written).lower())
    marks = "".join(TONE_MARKS.get(char, "") for char in decomposed)
    letters = UMLAUT.sub("v", "".join(char for char in decomposed if char not in TONE_MARKS))
    match = WRITTEN.fullmatch(letters)
    if not match or len(marks + match[2]) > 1:
        return None
    base = unicodedata.normalize("NFC", match[1])
    base = VARIANT_SPELLINGS.get(base, match[1].replace(CIRCUMFLEX, ""))
    base = re.sub("^([jqxy])v", r"\1u", re.sub("^([ln])ue$", r"\1ve", base))
    return base, (marks + match[2]).replace("0", NEUTRAL)


def syllables_in(text: str) -> list[str]:
    """Return the syllables of a line of pinyin, separated by spaces, apostrophes, punctuation, or nothing.

    A syllable without a tone is returned without one. Text that is not pinyin is returned unchanged.
    """
    parts = [part for part in SEPARATORS.split(text) if part]
    return [
        "".join(read_syllable(syllable) or (syllable,)) for part in parts for syllable in _split_word(part)
    ]


def _split_word(word: str) -> list[str]:
    """Split pinyin written without spaces, `ni3hao3`, `nǐhǎo` or `nihao`; return what cannot be as it is.

    As spelling rules ask for an apostrophe before a, e and o within a word, `fangan` is fan gan.
    """
    read = read_syllable(word)
    if read and read[0] in _known_letters():
        return [word]
    # cheapest[end]: cost of the first `end` characters and their syllables
    cheapest: dict[int, tuple[float, list[str]]] = {0: (0.0, [])}
    for end in range(1, len(word) + 1):
        found = []
        for begin in range(max(0, end - LONGEST_SYLLABLE), end):
            part = word[begin:end]
            read = read_syllable(part) if begin in cheapest else None
            if read and read[0] in _known_letters():
                cost, before = cheapest[begin]
                needs_apostrophe = begin > 0 and read[0][0] in "aeo" and not word[begin - 1].isdigit()
                found.append((cost + 1 + needs_apostrophe, [*before, part]))
        if found:
            cheapest[end] = min(found)
    return cheapest[len(word)][1] if len(word) in cheapest else [word]


@functools.cache
def _known_letters() -> frozenset[str]:
    return frozenset(syllable[:-1] for syllable in mandarin_syllables())


def standard_spelling(syllable: str) -> str:
    """Return the standard spelling of a toned syllable that dictionaries spell differently: `n2` -> `en2`."""
    return VARIANT_SPELLINGS.get(syllable[:-1], syllable[:-1]) + syllable[-1:]


def syllable_of_reading(reading: str) -> str:
    """Return the toned syllable of a reading in pypinyin's dictionaries: `zhōng` -> `zhong1`."""
    from pypinyin.contrib.tone_convert import to_tone3

    return standard_spelling(to_tone3(reading, v_to_u=False, neutral_tone_with_five=True))


def with_tone_mark(syllable: str) -> str:
    """Return a toned syllable as people write it: `zhong1` -> `zhōng`, `lv4` -> `lǜ`, `de5` -> `de`."""
    from pypinyin.contrib.tone_convert import to_tone

    return str(to_tone(syllable)) if is_syllable(syllable) else syllable


@functools.cache
def known_syllables() -> frozenset[str]:
    """Return `mandarin_syllables` as a set."""
    return frozenset(mandarin_syllables())


def mandarin_syllables() -> list[str]:
    """Return every toned syllable of Mandarin, sorted, with each syllable in the neutral tone, too.

    Neutral tone is 5, ü is v: `lv4`, `de5`. Taken from pypinyin's dictionary of characters.
    """
    from pypinyin import pinyin_dict

    readings = {reading for text in pinyin_dict.pinyin_dict.values() for reading in text.split(",")}
    toned = {syllable_of_reading(reading) for reading in readings}
    return sorted(toned | {syllable[:-1] + NEUTRAL for syllable in toned})
