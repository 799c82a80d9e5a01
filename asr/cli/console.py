"""Print evaluations, comparisons and the places of reports in the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from asr.base.text.terminal_table import GAP, align_columns, display_width, pad_to_width
from asr.base.text.wording import counted
from asr.evaluation.errors.metrics import AlignedPair, align, count_edits, is_converted
from asr.evaluation.tables import comparison_rows, rate_notes, rate_rows

if TYPE_CHECKING:
    from asr.base.types import Utterance
    from asr.evaluation.comparison import Comparison
    from asr.evaluation.scores import EvaluationRecord, Score
    from asr.report.files import ReportFiles
    from asr.transcription.transcript import Segment

NUM_SHOWN = 10
NUM_CHANGED = 3
NOTE_COLUMNS = 104


def print_evaluation(record: EvaluationRecord, scores: Sequence[Score]) -> None:
    """Print a table of error rates, and below it some references with their hypotheses."""
    utterances = record.utterances
    print(f"\n{record.title} on {counted(len(utterances), 'utterance')} of {record.manifest}\n")
    for line in align_columns(rate_rows(scores), right_from=1):
        print(f"  {line}")
    print_notes(rate_notes(record, scores))
    shown = utterances[:NUM_SHOWN]
    print(f"\nthe first {counted(len(shown), 'utterance')} of the manifest")
    for utterance, hypothesis in zip(shown, record.hypotheses, strict=False):
        errors = count_edits(utterance.tokens, hypothesis.tokens).errors
        verdict = counted(errors, "error") if errors else "correct"
        print_utterance(utterance, verdict, [("hypothesis", hypothesis)])


def print_utterance(utterance: Utterance, verdict: str, hypotheses: Sequence[tuple[str, Segment]]) -> None:
    """Print an utterance, and below its reference the hypothesis of each named system."""
    print(f"\n  {utterance.id}  {utterance.text}  {verdict}")
    for name, hypothesis in hypotheses:
        pairs = align(utterance.tokens, hypothesis.tokens)
        lines = [line for part in _parts(pairs, NOTE_COLUMNS) for line in side_by_side(part, name)]
        if is_converted(hypothesis):
            lines.append(pad_to_width("", name_width(name)) + hypothesis.text)
        for line in filter(None, lines):
            print(f"    {line}")


def print_report_files(files: ReportFiles) -> None:
    """Print where the report of an evaluation is, and how many labels to review."""
    print(f"\nReport: {files.page}\nas data: {files.record.name}, {files.table.name}")
    if files.num_to_review:
        print(
            f"{counted(files.num_to_review, 'label')} may be wrong: {files.review}; mark the corrections to "
            "accept, then run asr labels apply"
        )
    if files.why_none:
        print(f"no label is called into question: {files.why_none}")


def print_notes(notes: Sequence[str]) -> None:
    """Print the notes below a table, wrapped."""
    for note in notes:
        for line in textwrap.wrap(note, NOTE_COLUMNS, initial_indent="  ", subsequent_indent="    "):
            print(line)


def print_comparison(comparison: Comparison) -> None:
    """Print the scores of two systems side by side, and the utterances in which they differ most."""
    print(f"\nA  {comparison.title_a}\nB  {comparison.title_b}\n")
    for line in align_columns(comparison_rows(comparison), right_from=1):
        print(f"  {line}")
    print_notes(comparison.notes)
    for title, changes in (("better by B", comparison.fixed), ("worse by B", comparison.broken)):
        if changes:
            print(f"\n{title} in {comparison.counted_in}s: {counted(len(changes), 'utterance')}")
        for change in changes[:NUM_CHANGED]:
            verdict = f"{counted(change.errors_a, 'error')} by A, {change.errors_b} by B"
            print_utterance(change.utterance, verdict, [("A", change.by_a), ("B", change.by_b)])


def side_by_side(pairs: Sequence[AlignedPair], system: str = "hypothesis") -> tuple[str, str, str]:
    """Return reference, hypothesis and a mark below each token that differs, as lines in aligned columns."""
    names = [pad_to_width(name, name_width(system)) for name in ("reference", system, "")]
    widths = [max(display_width(pair.reference), display_width(pair.hypothesis), 1) for pair in pairs]
    reference = " ".join(
        pad_to_width(pair.reference, width) for pair, width in zip(pairs, widths, strict=True)
    )
    hypothesis = " ".join(
        pad_to_width(pair.hypothesis, width) for pair, width in zip(pairs, widths, strict=True)
    )
    marks = " ".join(
        ("^" if pair.edit != "equal" else " ") * width for pair, width in zip(pairs, widths, strict=True)
    )
    rows = zip(names, (reference, hypothesis, marks), strict=True)
    first, second, third = [f"{name}{line}".rstrip() for name, line in rows]
    return first, second, third


def _parts(pairs: Sequence[AlignedPair], num_columns: int) -> list[list[AlignedPair]]:
    """Cut an alignment into parts that fit the columns of a terminal."""
    parts: list[list[AlignedPair]] = [[]]
    taken = 0
    for pair in pairs:
        width = max(display_width(pair.reference), display_width(pair.hypothesis)) + 1
        if parts[-1] and taken + width > num_columns:
            parts.append([])
            taken = 0
        parts[-1].append(pair)
        taken += width
    return parts


def name_width(system: str) -> int:
    """Return the number of columns that the names before reference and hypothesis take."""
    return max(len("reference"), len(system)) + GAP
