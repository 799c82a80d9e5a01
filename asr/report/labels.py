"""Makes the report's section on labels that are probably wrong, with sound to listen to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asr.evaluation.labels.label_review import DoubtfulLabel, LabelReview
from asr.report.utterances import Scored, UtteranceCard, utterance_card

NUM_SHOWN = 12


@dataclass(frozen=True)
class LabelCard:
    """A label that is probably wrong, as the page shows it.

    Attributes:
        candidate: the label and what contradicts it.
        utterance: the label aligned with the hypothesis.
    """

    candidate: DoubtfulLabel
    utterance: UtteranceCard


@dataclass(frozen=True)
class LabelsToReview:
    """The labels that are probably wrong.

    Attributes:
        cards: of the first candidates, the most probable mistake first.
        total: number of candidates.
        num_readings: candidates that differ only in the reading of the same hanzi.
        why_none: why there are no candidates, see `LabelReview`.
    """

    cards: Sequence[LabelCard]
    total: int
    num_readings: int
    why_none: str


def labels_to_review(unit: str, review: LabelReview) -> LabelsToReview:
    """Return the labels that are probably wrong; `unit` is the unit of their tokens."""
    candidates = review.candidates
    cards = [
        LabelCard(one, utterance_card(unit, Scored.of(one.utterance, one.hypothesis)))
        for one in candidates[:NUM_SHOWN]
    ]
    num_readings = sum(candidate.is_polyphone for candidate in candidates)
    return LabelsToReview(cards, len(candidates), num_readings, review.why_none)
