"""`asr labels`: correct labels that a review has found to be wrong."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.cli.logs import add_log_arguments

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
    add_log_arguments(apply, default=argparse.SUPPRESS)
    apply.set_defaults(parser=apply)


def labels_command(arguments: argparse.Namespace) -> int:
    """Apply a review; returns the exit status."""
    from asr.base.wording import counted
    from asr.evaluation.corrected_labels import apply_review

    applied = apply_review(arguments.review, arguments.manifest, arguments.out)
    for correction in applied.corrections:
        _print_correction(correction)
    print(
        f"\n{arguments.review}: {applied.num_accepted:,} accepted, {applied.num_refused:,} refused, "
        f"{applied.num_undecided:,} undecided"
    )
    if applied.num_unchanged:
        print(f"{applied.num_unchanged:,} of the accepted suggest what the label says already")
    print(
        f"{arguments.out}: {counted(applied.num_utterances, 'utterance')}, {len(applied.corrections):,} with "
        "new tokens; their texts stay as they were"
    )
    return 0


def _print_correction(correction: Correction) -> None:
    from asr.evaluation.metrics import align

    utterance = correction.utterance
    edits = [pair for pair in align(utterance.tokens, correction.tokens) if pair.edit != "equal"]
    told = ", ".join(f"{pair.reference or 'nothing'} > {pair.hypothesis or 'nothing'}" for pair in edits)
    print(f"{utterance.id}  {utterance.text}  {told}")
