"""`asr labels`: correct labels that a review has found to be wrong."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.types import UserError

if TYPE_CHECKING:
    from data_pipeline.label_corrections import Correction


def add_labels_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    apply = actions.add_parser("apply", help="write the accepted corrections into a new manifest")
    apply.add_argument(
        "review",
        type=Path,
        help="the list beside a report: a or y in `decision` accepts what is suggested, edited or not",
    )
    apply.add_argument("manifest", type=Path, help="the one that was evaluated; it stays as it is")
    apply.add_argument("--out", type=Path, required=True, metavar="NEW_MANIFEST", help="where to write")


def labels_command(arguments: argparse.Namespace) -> int:
    """Apply a review; returns the exit status."""
    from asr.base.units import unit_of
    from asr.base.wording import counted
    from asr.evaluation.review_file import read_review
    from data_pipeline.label_corrections import corrections, write_corrected
    from data_pipeline.manifest import read_manifest

    rows = read_review(arguments.review)
    accepted = [row for row in rows if row.is_accepted]
    if not accepted:
        raise UserError(
            f"{arguments.review}: none of {counted(len(rows), 'line')} is accepted; write a or y into the "
            "column `decision` of those whose suggestion is right"
        )
    utterances = read_manifest(arguments.manifest)
    unit = unit_of(token for utterance in utterances for token in utterance.tokens)
    changed = corrections(utterances, accepted, unit, arguments.review)
    write_corrected(arguments.manifest, arguments.out, changed)

    for correction in changed:
        _tell(correction)
    refused = sum(bool(row.decision.strip()) for row in rows) - len(accepted)
    print(
        f"\n{arguments.review}: {len(accepted):,} accepted, {refused:,} refused, "
        f"{len(rows) - len(accepted) - refused:,} undecided"
    )
    if len(changed) < len(accepted):
        print(f"{len(accepted) - len(changed):,} of the accepted suggest what the label says already")
    print(
        f"{arguments.out}: {counted(len(utterances), 'utterance')}, {len(changed):,} with new tokens; "
        "their texts stay as they were"
    )
    return 0


def _tell(correction: Correction) -> None:
    from asr.evaluation.metrics import align

    utterance = correction.utterance
    edits = [pair for pair in align(utterance.tokens, correction.tokens) if pair.edit != "equal"]
    told = ", ".join(f"{pair.reference or 'nothing'} > {pair.hypothesis or 'nothing'}" for pair in edits)
    print(f"{utterance.id}  {utterance.text}  {told}")
