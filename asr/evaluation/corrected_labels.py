"""A review of labels -> a new manifest with the corrections that were accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.types import UserError
from asr.base.units import unit_of
from asr.base.wording import counted
from asr.evaluation.review_file import read_review
from data_pipeline.label_corrections import Correction, corrections, write_corrected
from data_pipeline.manifest import read_manifest


@dataclass(frozen=True)
class AppliedReview:
    """What a review changed.

    Attributes:
        corrections: labels that changed, in the manifest's order.
        num_utterances: of the manifest.
        num_accepted: lines of the review.
        num_refused: lines of the review.
        num_undecided: lines of the review.
    """

    corrections: Sequence[Correction]
    num_utterances: int
    num_accepted: int
    num_refused: int
    num_undecided: int

    @property
    def num_unchanged(self) -> int:
        """Return how many of the accepted lines suggest what the label says already."""
        return self.num_accepted - len(self.corrections)


def apply_review(review: Path, manifest: Path, out: Path) -> AppliedReview:
    """Write a new manifest with the accepted corrections of a review.

    Args:
        review: the list beside a report, with decisions.
        manifest: that was evaluated; it stays as it is.
        out: the new manifest.

    Raises:
        UserError: nothing is accepted, or the review is not of this manifest as it is now.
    """
    rows = read_review(review)
    accepted = [row for row in rows if row.is_accepted]
    if not accepted:
        raise UserError(
            f"{review}: none of {counted(len(rows), 'line')} is accepted; write a or y into the "
            "column `decision` of those whose suggestion is right"
        )
    utterances = read_manifest(manifest)
    unit = unit_of(token for utterance in utterances for token in utterance.tokens)
    changed = corrections(utterances, accepted, unit, review)
    write_corrected(manifest, out, changed)
    num_decided = sum(bool(row.decision.strip()) for row in rows)
    return AppliedReview(
        changed, len(utterances), len(accepted), num_decided - len(accepted), len(rows) - num_decided
    )
