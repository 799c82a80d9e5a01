"""Formats error rates as the cells of a table, for a terminal or a page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from asr.base.text.wording import counted
from asr.evaluation.comparison import Comparison
from asr.evaluation.errors.metrics import HANZI_TO_WRITE, TEXT_POLICY, is_converted, without_text
from asr.evaluation.scores import EvaluationRecord, Score


def rate_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """Return the rows of a table of error rates, headings first."""
    rows: list[tuple[str, ...]] = [
        ("", "rate", "95% interval", "errors", "of", "substituted", "inserted", "deleted")
    ]
    for score in scores:
        total, (low, high) = score.total, score.interval
        counts = (total.errors, total.reference_length)
        kinds = (total.substitutions, total.insertions, total.deletions)
        cells = [f"{count:,}" for count in (*counts, *kinds)]
        if score.name.endswith("sentence"):
            cells[2:] = ["", "", ""]  # a sentence is right or wrong
        rows.append((f"{score.name} error rate", format_rate(total.rate), format_interval(low, high), *cells))
    return rows


def rate_notes(record: EvaluationRecord, scores: Sequence[Score]) -> list[str]:
    """Return notes that explain a table of error rates."""
    from asr.evaluation.errors.significance import NUM_DRAWS, blocks_of  # loads numpy

    speakers = [utterance.speaker for utterance in record.utterances]
    blocks, num_speakers = blocks_of(speakers), len(set(speakers) - {""})
    few = f"; too few speakers ({num_speakers}) to generalize to others" if num_speakers else ""
    few = "" if blocks.kind == "speakers" else few
    notes = [f"intervals: bootstrap over {blocks.kind}, {NUM_DRAWS:,} draws{few}"]
    names = {score.name for score in scores}
    if names & {"character", "word"}:
        notes.append(TEXT_POLICY)
    if "mixed" in names:
        notes.append(
            "mixed: syllables and whole Latin words; language switch: those of them next to one of the other "
            "language, and what is inserted between"
        )
    if "written sentence" in names:
        notes.append("sentences: with an error in their syllables; written sentences: in their characters")
    missing = without_text(record.utterances)
    if missing and names & {*HANZI_TO_WRITE} and any(map(is_converted, record.hypotheses)):
        notes.append(
            f"no character error rate: no text in {len(missing):,} of "
            f"{counted(len(record.utterances), 'utterance')}, such as {missing[0].id}; add it to the manifest"
        )
    return notes


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the rows of a table of two systems' error rates, headings first."""
    rows: list[tuple[str, ...]] = [("", "A", "B", "B minus A", "95% interval", "p", "B better")]
    for rate in comparison.rates:
        test = rate.test
        figures = (format_rate(rate.edits_a.rate), format_rate(rate.edits_b.rate), f"{test.difference:+.2%}")
        chances = (
            format_interval(test.low, test.high, "+"),
            format_p_value(test.p_value),
            f"{test.better:.1%}",
        )
        rows.append((f"{rate.name} error rate", *figures, *chances))
    return rows


def format_rate(rate: float) -> str:
    """Format a rate in percent."""
    return f"{rate:.2%}" if math.isfinite(rate) else "∞"


def format_interval(low: float, high: float, sign: str = "") -> str:
    """Format an interval in percent."""
    return " to ".join(f"{end:{sign}.2%}" if math.isfinite(end) else "∞" for end in (low, high))


def format_p_value(p_value: float) -> str:
    """Format a p-value for people."""
    return f"{p_value:.4f}" if p_value >= 1e-4 else "< 0.0001"
