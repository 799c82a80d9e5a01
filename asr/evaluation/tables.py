"""Error rates as the cells of a table, for a terminal or a page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from asr.base.wording import counted
from asr.evaluation.comparison import Comparison
from asr.evaluation.metrics import TEXT_POLICY, is_converted, without_text
from asr.evaluation.scores import EvaluationRecord, Score


def rate_rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    """Cells of a table of error rates, its headings first."""
    rows: list[tuple[str, ...]] = [
        ("", "rate", "95% interval", "errors", "of", "substituted", "inserted", "deleted")
    ]
    for score in scores:
        total, (low, high) = score.total, score.interval
        counts = (total.errors, total.reference_length)
        kinds = (total.substitutions, total.insertions, total.deletions)
        told = [f"{count:,}" for count in (*counts, *kinds)]
        if score.name.endswith("sentence"):
            told[2:] = ["", "", ""]  # a sentence is right or wrong
        rows.append((f"{score.name} error rate", shown_rate(total.rate), span(low, high), *told))
    return rows


def rate_notes(record: EvaluationRecord, scores: Sequence[Score]) -> list[str]:
    """What is to be known of a table of error rates."""
    from asr.evaluation.significance import NUM_DRAWS, blocks_of  # loads numpy

    speakers = [utterance.speaker for utterance in record.utterances]
    blocks, num_speakers = blocks_of(speakers), len(set(speakers) - {""})
    few = f", of {counted(num_speakers, 'speaker')}: how others fare they do not tell" if num_speakers else ""
    few = "" if blocks.kind == "speakers" else few
    notes = [f"intervals: {blocks.kind} drawn again, {NUM_DRAWS:,} times{few}"]
    names = {score.name for score in scores}
    if names & {"character", "word"}:
        notes.append(TEXT_POLICY)
    missing = without_text(record.utterances)
    if missing and "syllable" in names and any(map(is_converted, record.hypotheses)):
        notes.append(
            f"no error rate of characters: {len(missing):,} of {len(record.utterances):,} utterances "
            f"have no text, such as {missing[0].id}; write it into the manifest"
        )
    return notes


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Cells of a table of two systems' error rates, its headings first."""
    rows: list[tuple[str, ...]] = [("", "A", "B", "B less A", "95% interval", "p", "B better")]
    for rate in comparison.rates:
        test = rate.test
        figures = (shown_rate(rate.edits_a.rate), shown_rate(rate.edits_b.rate), f"{test.difference:+.2%}")
        chances = (span(test.low, test.high, "+"), shown_p(test.p_value), f"{test.better:.1%}")
        rows.append((f"{rate.name} error rate", *figures, *chances))
    return rows


def shown_rate(rate: float) -> str:
    """In percent."""
    return f"{rate:.2%}" if math.isfinite(rate) else "∞"


def span(low: float, high: float, sign: str = "") -> str:
    """An interval in percent."""
    return " to ".join(f"{end:{sign}.2%}" if math.isfinite(end) else "∞" for end in (low, high))


def shown_p(p_value: float) -> str:
    """A p-value as it is printed."""
    return f"{p_value:.4f}" if p_value >= 1e-4 else "< 0.0001"
