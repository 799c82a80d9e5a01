"""Analyses errors of Mandarin syllables: initial, final or tone, and which is confused with which.

    errors = syllable_errors(pairs)
    errors.parts["tone"].only, errors.parts["tone"].confusions[:5], known_confusions(errors)

Only pairs with a syllable on both sides count as confusions: a deleted syllable is counted by its tone as
lost, and an inserted one is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from asr.base.text.pinyin import TONES, is_syllable, split_syllable
from asr.evaluation.errors.metrics import AlignedPair

Part: TypeAlias = Literal["initial", "final", "tone"]
PARTS: tuple[Part, ...] = ("initial", "final", "tone")


@dataclass(frozen=True)
class Confusion:
    """The number of times that a part of a syllable was recognized as another.

    Attributes:
        said: an initial ("" for none), a final or a tone.
        recognized: the part recognized in its place.
        count: how often.
        out_of: how often `said` was said in a syllable that was recognized as any syllable.
    """

    said: str
    recognized: str
    count: int
    out_of: int

    @property
    def rate(self) -> float:
        """Return the share of the times it was said."""
        return self.count / self.out_of


@dataclass(frozen=True)
class PartErrors:
    """The errors in one part of the syllable.

    Attributes:
        wrong: substituted syllables in which this part is wrong.
        only: substituted syllables in which only this part is wrong.
        said: how often each initial, final or tone was said in a syllable recognized as any syllable.
        confusions: the most frequent first.
    """

    wrong: int
    only: int
    said: Mapping[str, int]
    confusions: Sequence[Confusion]


@dataclass(frozen=True)
class SyllableErrors:
    """The errors of syllables in a set.

    Attributes:
        num_compared: syllables said that were recognized as a syllable, right or wrong.
        num_substituted: syllables recognized as another one.
        parts: errors of the substituted syllables, by initial, final and tone.
        tones: how often each tone (row, 1 to 5) was recognized as each (column), over aligned syllables.
        lost_tones: for each tone, how often its syllable was not recognized as any syllable.
    """

    num_compared: int
    num_substituted: int
    parts: Mapping[Part, PartErrors]
    tones: Sequence[Sequence[int]]
    lost_tones: Sequence[int]


@dataclass(frozen=True)
class KnownConfusion:
    """A class of confusions that teachers of Mandarin know, and its number.

    Attributes:
        name: for people.
        remedy: advice against it.
        count: confusions within the class.
        out_of: how often a sound of the class was said, right or wrong.
        examples: confusions of the class, the most frequent first.
    """

    name: str
    remedy: str
    count: int
    out_of: int
    examples: Sequence[Confusion]

    @property
    def rate(self) -> float:
        """Return the share of the times the confusion could have occurred."""
        return self.count / self.out_of


def syllable_errors(pairs: Iterable[AlignedPair]) -> SyllableErrors:
    """Count the errors of aligned syllables by initial, final and tone."""
    wrong, only = Counter[Part](), Counter[Part]()
    said: dict[Part, Counter[str]] = {part: Counter() for part in PARTS}
    swapped: dict[Part, Counter[tuple[str, str]]] = {part: Counter() for part in PARTS}
    lost_tones = Counter[str]()
    num_substituted = 0
    for _, reference, hypothesis in pairs:
        if not is_syllable(reference):
            continue
        if not is_syllable(hypothesis):
            lost_tones[reference[-1]] += 1
            continue
        num_substituted += reference != hypothesis
        both = zip(PARTS, split_syllable(reference), split_syllable(hypothesis), strict=True)
        differing: list[Part] = []
        for part, of_reference, of_hypothesis in both:
            said[part][of_reference] += 1
            swapped[part][of_reference, of_hypothesis] += 1
            if of_reference != of_hypothesis:
                differing.append(part)
        wrong.update(differing)
        if len(differing) == 1:
            only.update(differing)
    return SyllableErrors(
        num_compared=said["tone"].total(),
        num_substituted=num_substituted,
        parts={p: PartErrors(wrong[p], only[p], said[p], _confusions(swapped[p], said[p])) for p in PARTS},
        tones=[[swapped["tone"][row, column] for column in TONES] for row in TONES],
        lost_tones=[lost_tones[tone] for tone in TONES],
    )


def known_confusions(errors: SyllableErrors) -> list[KnownConfusion]:
    """Return the well-known classes of confusions that occurred, the most frequent first."""
    found = []
    for known in _KNOWN:
        part = errors.parts[known.part]
        inside = [c for c in part.confusions if {c.said, c.recognized} in known.pairs]
        if inside:
            # each sound once, though it may be confused with several others
            out_of = sum(part.said.get(sound, 0) for sound in frozenset().union(*known.pairs))
            count = sum(c.count for c in inside)
            found.append(KnownConfusion(known.name, known.remedy, count, out_of, inside))
    return sorted(found, key=lambda known: (-known.count, known.name))


def _confusions(swapped: Counter[tuple[str, str]], said: Counter[str]) -> list[Confusion]:
    """Return the confusions, the most frequent first; ties are in alphabetical order."""
    confusions = [
        Confusion(one, other, count, said[one]) for (one, other), count in swapped.items() if one != other
    ]
    return sorted(confusions, key=lambda c: (-c.count, c.said, c.recognized))


def _pairs(*pairs: str) -> Sequence[frozenset[str]]:
    """Return pairs of sounds that are confused with each other, in either direction, from "zh z"."""
    return [frozenset(pair.split()) for pair in pairs]


@dataclass(frozen=True)
class _Class:
    part: Part
    name: str
    remedy: str
    pairs: Sequence[frozenset[str]]


_SOUTHERN = (
    "often the speaker's accent: train on speakers from the south, and check whether labels follow them"
)
_TONE_DATA = "train with more of these syllables; a language model distinguishes most of them"
_KNOWN = (
    _Class("initial", "flat and retroflex: z zh, c ch, s sh", _SOUTHERN, _pairs("z zh", "c ch", "s sh")),
    _Class("initial", "n and l", _SOUTHERN, _pairs("n l")),
    _Class("initial", "f and h", _SOUTHERN, _pairs("f h")),
    _Class("initial", "r and l", _SOUTHERN, _pairs("r l")),
    _Class(
        "initial",
        "aspirated and unaspirated: b p, d t, g k, j q, z c, zh ch",
        "the burst is short: finer frames (less subsampling), and less noise in training",
        _pairs("b p", "d t", "g k", "j q", "z c", "zh ch"),
    ),
    _Class(
        "initial",
        "palatal and flat or retroflex: j z zh, q c ch, x s sh",
        "they differ in high frequencies: use recordings at 16 kHz or more, not from a telephone",
        _pairs("j z", "j zh", "q c", "q ch", "x s", "x sh"),
    ),
    _Class(
        "final",
        "front and back nasals: in ing, en eng, an ang",
        _SOUTHERN,
        _pairs("in ing", "en eng", "an ang", "ian iang", "uan uang", "un ong", "vn iong"),
    ),
    _Class(
        "final",
        "rounded and unrounded: i ü, ie üe, in ün, ian üan",
        "train with more of these syllables",
        _pairs("i v", "ie ve", "in vn", "ian van"),
    ),
    _Class(
        "tone",
        "tones 2 and 3",
        "a third tone before another is pronounced as a second, but labels follow the dictionary; "
        + _TONE_DATA,
        _pairs("2 3"),
    ),
    _Class("tone", "tones 1 and 4", _TONE_DATA, _pairs("1 4")),
    _Class("tone", "other full tones: 1 2, 1 3, 2 4, 3 4", _TONE_DATA, _pairs("1 2", "1 3", "2 4", "3 4")),
    _Class(
        "tone",
        "a full tone and the neutral one",
        "speakers and dictionaries differ in its use: check the list of labels to review",
        _pairs("1 5", "2 5", "3 5", "4 5"),
    ),
)
