"""Applies a review of labels: writes a new manifest with the accepted corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, Pieces
from asr.base.text.units import UNITS_IN_PIECES, unit_of
from asr.base.text.wording import counted
from asr.evaluation.labels.review_file import read_review
from data_pipeline.labels.corrections import Correction, corrections, write_corrected
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.description import carry_labels, refuse_other_pieces


@dataclass(frozen=True)
class AppliedReview:
    """What a review changed.

    Attributes:
        corrections: labels that changed, in the manifest's order.
        num_utterances: of the manifest.
        num_accepted: lines of the review that are accepted.
        num_refused: lines of the review that are refused.
        num_undecided: lines of the review without a decision.
    """

    corrections: Sequence[Correction]
    num_utterances: int
    num_accepted: int
    num_refused: int
    num_undecided: int

    @property
    def num_unchanged(self) -> int:
        """Return how many of the accepted lines suggest the label that the manifest already has."""
        return self.num_accepted - len(self.corrections)


def apply_review(review: Path, manifest: Path, out: Path) -> AppliedReview:
    """Write a new manifest with the accepted corrections of a review.

    Args:
        review: the review.csv beside a report, with decisions.
        manifest: the one that was evaluated; it is not changed.
        out: the new manifest.

    Raises:
        UserError: no line is accepted, or the review does not match this manifest.
    """
    rows = read_review(review)
    accepted = [row for row in rows if row.is_accepted]
    if not accepted:
        raise UserError(
            f"{review}: expected accepted lines, received none of {counted(len(rows), 'line')}; write a or y "
            "into the column `decision` where the suggestion is right"
        )
    utterances = read_manifest(manifest)
    unit = unit_of(token for utterance in utterances for token in utterance.tokens)
    model = refuse_other_pieces(out.parent, [manifest])
    pieces: tuple[str, ...] = ()
    if model and unit in UNITS_IN_PIECES:
        pieces = Pieces(model, f"{UNITS_MODEL} beside {manifest}").tokens
    changed = corrections(utterances, accepted, unit, review, pieces)
    write_corrected(manifest, out, changed)
    carry_labels(out.parent, {out.name: manifest})
    num_decided = sum(bool(row.decision.strip()) for row in rows)
    return AppliedReview(
        changed, len(utterances), len(accepted), num_decided - len(accepted), len(rows) - num_decided
    )
