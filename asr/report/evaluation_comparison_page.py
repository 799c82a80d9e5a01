"""Writes the comparison of two systems as one HTML page: rates, their difference, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.evaluation.comparison import Change, Comparison
from asr.evaluation.errors.metrics import AlignedPair, align, is_converted
from asr.evaluation.tables import comparison_rows, format_interval, format_p_value
from asr.pages.page import Table, write_page
from asr.transcription.transcript import Segment

NUM_SHOWN = 30


def write_evaluation_comparison(path: Path, comparison: Comparison) -> None:
    """Write the comparison of two systems as an HTML page, atomically.

    Args:
        path: of the HTML file; its folder is created.
        comparison: of the two systems.

    Raises:
        UserError: the file cannot be written.
    """
    headings, *rows = comparison_rows(comparison)
    write_page(
        path,
        "asr.report",
        "evaluation_comparison.html",
        comparison=comparison,
        verdict=_verdict(comparison),
        table=Table(headings, rows),
        changes={
            f"Better by B in {comparison.counted_in}s": _shown(comparison.fixed),
            f"Worse by B in {comparison.counted_in}s": _shown(comparison.broken),
        },
    )


def _verdict(comparison: Comparison) -> str:
    """Return the difference in the first rate as a sentence."""
    rate = comparison.rates[0]
    test, change = rate.test, rate.edits_b.errors - rate.edits_a.errors
    if not change:
        return f"A and B make the same number of {rate.name} errors."
    found = f"B makes {abs(change):,} {'fewer' if change < 0 else 'more'} {rate.name} errors than A"
    far = (
        f"{test.difference:+.2%} in the rate, {format_interval(test.low, test.high, '+')} with 95% confidence"
    )
    chance = "the difference is significant" if test.p_value < 0.05 else "it may be due to chance"
    return f"{found}: {far}; {chance} (p {format_p_value(test.p_value)})."


@dataclass(frozen=True)
class _Recognized:
    """A system's hypothesis of an utterance: aligned tokens, and text if that differs."""

    letter: str
    pairs: Sequence[AlignedPair]
    text: str


@dataclass(frozen=True)
class _ChangeCard:
    """An utterance and the hypotheses of both systems."""

    change: Change
    by_system: Sequence[_Recognized]


@dataclass(frozen=True)
class _Changes:
    """The first of many utterances, and their number."""

    cards: Sequence[_ChangeCard]
    total: int


def _shown(changes: Sequence[Change]) -> _Changes:
    """Return the cards of the first utterances."""
    cards = [
        _ChangeCard(change, [_recognized(change, "A", change.by_a), _recognized(change, "B", change.by_b)])
        for change in changes[:NUM_SHOWN]
    ]
    return _Changes(cards, len(changes))


def _recognized(change: Change, letter: str, by: Segment) -> _Recognized:
    return _Recognized(letter, align(change.utterance.tokens, by.tokens), by.text if is_converted(by) else "")
