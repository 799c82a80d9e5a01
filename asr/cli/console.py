"""What commands say in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from asr.base.columns import GAP, in_columns, padded, width_of
from asr.base.wording import counted
from asr.evaluation.metrics import AlignedPair, align, count_edits, is_converted
from asr.evaluation.tables import comparison_rows, rate_notes, rate_rows

if TYPE_CHECKING:
    from asr.base.types import Hypothesis, Utterance
    from asr.evaluation.comparison import Comparison
    from asr.evaluation.scores import EvaluationRecord, Score
    from asr.report.files import ReportFiles

NUM_SHOWN = 10
NUM_CHANGED = 3
NOTE_COLUMNS = 104


def print_evaluation(record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """A table of error rates, and references beside hypotheses below it."""
    utterances = record.utterances
    print(f"\n{record.title} on {counted(len(utterances), 'utterance')} of {record.manifest}\n")
    for line in in_columns(rate_rows(scores), right_from=1):
        print(f"  {line}")
    print_notes(rate_notes(record, scores))
    shown = utterances[:NUM_SHOWN]
    print(f"\nthe first {len(shown)} of {counted(len(utterances), 'utterance')}")
    for utterance, hypothesis in zip(shown, record.hypotheses, strict=False):
        errors = count_edits(utterance.tokens, hypothesis.tokens).errors
        verdict = f"{errors} wrong" if errors else "all right"
        print_utterance(utterance, verdict, [("heard", hypothesis)])


def print_utterance(utterance: Utterance, verdict: str, heard: Sequence[tuple[str, Hypothesis]]) -> None:
    """One utterance, and what each system heard of it below what was said."""
    print(f"\n  {utterance.id}  {utterance.text}  {verdict}")
    for name, hypothesis in heard:
        lines = list(side_by_side(align(utterance.tokens, hypothesis.tokens), name))
        if is_converted(hypothesis):
            lines.append(padded("", name_width(name)) + hypothesis.text)
        for line in filter(None, lines):
            print(f"    {line}")


def print_report_files(files: ReportFiles) -> None:
    """Print where the report of an evaluation is, and whether labels are to be reviewed."""
    print(f"\nReport: {files.page}\nas data: {files.record.name}, {files.table.name}")
    if files.num_to_review:
        print(
            f"{counted(files.num_to_review, 'label')} may be wrong: {files.review}; mark those to accept, "
            "then: asr labels apply"
        )


def print_notes(notes: Sequence[str]) -> None:
    """What is to be known of a table, below it."""
    for note in notes:
        for line in textwrap.wrap(note, NOTE_COLUMNS, initial_indent="  ", subsequent_indent="    "):
            print(line)


def print_comparison(comparison: Comparison) -> None:
    """Two systems side by side, and the utterances in which they differ most."""
    print(f"\nA  {comparison.title_a}\nB  {comparison.title_b}\n")
    for line in in_columns(comparison_rows(comparison), right_from=1):
        print(f"  {line}")
    print_notes(comparison.notes)
    for title, changes in (("better by B", comparison.fixed), ("worse by B", comparison.broken)):
        if changes:
            print(f"\n{title} in {comparison.counted_in}s: {counted(len(changes), 'utterance')}")
        for change in changes[:NUM_CHANGED]:
            verdict = f"{change.errors_a} wrong by A, {change.errors_b} by B"
            print_utterance(change.utterance, verdict, [("A", change.by_a), ("B", change.by_b)])


def side_by_side(pairs: Sequence[AlignedPair], heard_by: str = "heard") -> tuple[str, str, str]:
    """Reference, hypothesis and a mark below each column that differs; columns stand under each other."""
    names = [padded(name, name_width(heard_by)) for name in ("said", heard_by, "")]
    widths = [max(width_of(pair.reference), width_of(pair.hypothesis), 1) for pair in pairs]
    said = " ".join(padded(pair.reference, width) for pair, width in zip(pairs, widths, strict=True))
    heard = " ".join(padded(pair.hypothesis, width) for pair, width in zip(pairs, widths, strict=True))
    marks = " ".join(
        ("^" if pair.edit != "equal" else " ") * width for pair, width in zip(pairs, widths, strict=True)
    )
    told = [f"{name}{line}".rstrip() for name, line in zip(names, (said, heard, marks), strict=True)]
    return told[0], told[1], told[2]


def name_width(heard_by: str) -> int:
    """Columns before what was said and heard."""
    return max(len("said"), len(heard_by)) + GAP
