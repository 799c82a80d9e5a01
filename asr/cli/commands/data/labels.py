"""`asr labels` applies the corrections that a review of labels has accepted."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asr.cli.logs import add_log_arguments

if TYPE_CHECKING:
    from data_pipeline.labels.corrections import Correction


def add_labels_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    apply = actions.add_parser("apply", help="write the accepted corrections into a new manifest")
    apply.add_argument(
        "review",
        type=Path,
        help="the list beside a report: a or y in `decision` accepts the suggestion, edited or not",
    )
    apply.add_argument("manifest", type=Path, help="the manifest that was evaluated; it is not changed")
    apply.add_argument("--out", type=Path, required=True, metavar="NEW_MANIFEST", help="manifest to write")
    add_log_arguments(apply, default=argparse.SUPPRESS)
    apply.set_defaults(parser=apply)


def labels_command(arguments: argparse.Namespace) -> int:
    """Apply a review of labels and return the exit status."""
    from asr.base.text.wording import counted
    from asr.evaluation.labels.corrected_labels import apply_review

    applied = apply_review(arguments.review, arguments.manifest, arguments.out)
    for correction in applied.corrections:
        _print_correction(correction)
    print(
        f"\n{arguments.review}: {applied.num_accepted:,} accepted, {applied.num_refused:,} refused, "
        f"{applied.num_undecided:,} undecided"
    )
    if applied.num_unchanged:
        print(f"{applied.num_unchanged:,} of the accepted suggestions equal the label already")
    print(
        f"{arguments.out}: {counted(applied.num_utterances, 'utterance')}, {len(applied.corrections):,} with "
        "new tokens; their texts are unchanged"
    )
    return 0


def _print_correction(correction: Correction) -> None:
    from asr.evaluation.errors.metrics import align

    utterance = correction.utterance
    edits = [pair for pair in align(utterance.tokens, correction.tokens) if pair.edit != "equal"]
    changes = ", ".join(f"{pair.reference or 'nothing'} > {pair.hypothesis or 'nothing'}" for pair in edits)
    print(f"{utterance.id}  {utterance.text}  {changes}")
