"""Compares hypotheses with references: confusions of tokens, and single utterances with their sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from asr.base.errors import UserError
from asr.base.text.pinyin import is_syllable, split_syllable
from asr.base.types import EditCounts, Utterance
from asr.evaluation.errors.metrics import AlignedPair, align, count_edits
from asr.pages.page import Table
from asr.report.sound import MARKS, SoundFigure, sound_figure
from asr.transcription.transcript import Segment

NUM_CONFUSIONS, NUM_WORST = 15, 20
WIDE_FROM, WIDE_FROM_S = 11, 4.0  # more tokens than that, or a longer clip, span the page
EDITS = {
    "equal": "right",
    "substitution": "substituted",
    "deletion": "deleted: said, not recognized",
    "insertion": "inserted: recognized, not said",
}

K = TypeVar("K", str, tuple[str, str])


@dataclass(frozen=True)
class Scored:
    """An utterance, its hypothesis, and the edits between them."""

    utterance: Utterance
    hypothesis: Segment
    pairs: Sequence[AlignedPair]
    edits: EditCounts

    @classmethod
    def of(cls, utterance: Utterance, hypothesis: Segment) -> Scored:
        """Align an utterance with its hypothesis."""
        tokens = utterance.tokens, hypothesis.tokens
        return cls(utterance, hypothesis, align(*tokens), count_edits(*tokens))


@dataclass(frozen=True)
class AlignedColumn:
    """A token of the reference, one of the hypothesis, and the letter of the edit between them."""

    edit: str
    reference: str
    hypothesis: str
    mark: str


@dataclass(frozen=True)
class UtteranceCard:
    """An utterance with its hypothesis, as `templates/cards.html` shows it.

    Attributes:
        scored: the utterance.
        unit: of its tokens, such as "syllable".
        wide: whether the card spans the page.
        sound: tokens on the spectrogram; None if the recording cannot be read.
        no_sound: why there is no spectrogram.
    """

    scored: Scored
    unit: str
    wide: bool
    sound: SoundFigure | None
    no_sound: str = ""

    @property
    def alignment(self) -> list[AlignedColumn]:
        """Return the reference aligned with the hypothesis."""
        pairs = self.scored.pairs
        return [AlignedColumn(pair.edit, pair.reference, pair.hypothesis, MARKS[pair.edit]) for pair in pairs]


@dataclass(frozen=True)
class EditKey:
    """The meaning of the colour and the letter of an edit."""

    edit: str
    mark: str
    meaning: str


def confusions(scored: Sequence[Scored]) -> list[Table]:
    """Return tables of the most frequent substitutions, deletions and insertions of tokens."""
    pairs = [pair for s in scored for pair in s.pairs]
    times_said = Counter(pair.reference for pair in pairs)
    swapped = Counter((p.reference, p.hypothesis) for p in pairs if p.edit == "substitution")
    dropped = Counter(pair.reference for pair in pairs if pair.edit == "deletion")
    added = Counter(pair.hypothesis for pair in pairs if pair.edit == "insertion")
    swaps = [
        [said, recognized, f"{count:,} of {times_said[said]:,}", difference(said, recognized)]
        for (said, recognized), count in most_frequent(swapped)
    ]
    drops = [[said, f"{count:,} of {times_said[said]:,}"] for said, count in most_frequent(dropped)]
    additions = [[recognized, f"{count:,}"] for recognized, count in most_frequent(added)]
    lists = [
        (["reference", "hypothesis", "times", "differs in"], swaps, [0, 1]),
        (["deleted", "times"], drops, [0]),
        (["inserted", "times"], additions, [0]),
    ]
    return [Table(headings, rows, "words", names) for headings, rows, names in lists if rows]


def most_frequent(counts: Counter[K]) -> list[tuple[K, int]]:
    """Return the highest counts; ties are in alphabetical order, so that the page is reproducible."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NUM_CONFUSIONS]


def difference(reference: str, hypothesis: str) -> str:
    """Return in which parts two syllables differ."""
    if not (is_syllable(reference) and is_syllable(hypothesis)):
        return ""
    parts = zip(
        ("initial", "final", "tone"), split_syllable(reference), split_syllable(hypothesis), strict=True
    )
    return ", ".join(name for name, a, b in parts if a != b)


@dataclass(frozen=True)
class ChosenUtterances:
    """Some of many utterances.

    Attributes:
        cards: of the utterances to show.
        total: number of utterances.
    """

    cards: Sequence[UtteranceCard]
    total: int


def worst_utterances(unit: str, scored: Sequence[Scored]) -> ChosenUtterances:
    """Return the utterances with the most errors."""
    wrong = [s for s in scored if s.edits.errors]
    wrong.sort(key=lambda s: (-s.edits.errors, -s.edits.rate, s.utterance.id))
    return ChosenUtterances([utterance_card(unit, s) for s in wrong[:NUM_WORST]], len(wrong))


def utterance_card(unit: str, scored: Scored) -> UtteranceCard:
    """Return the card of an utterance, with its spectrogram if the recording can be read."""
    utterance, times_s = scored.utterance, scored.hypothesis.times_s
    wide = len(scored.pairs) > WIDE_FROM or utterance.duration_s > WIDE_FROM_S
    try:
        sound = sound_figure(utterance, scored.pairs, times_s, wide=wide)
    except UserError as error:
        return UtteranceCard(scored, unit, wide, None, str(error))
    return UtteranceCard(scored, unit, wide, sound)


def right_utterances(scored: Sequence[Scored]) -> list[Scored]:
    """Return the utterances without an error, the longest first."""
    return sorted((s for s in scored if not s.edits.errors), key=lambda s: -len(s.utterance.tokens))
