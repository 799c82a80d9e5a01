"""Two systems on the same utterances as one HTML page: rates, their difference, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from asr.base.types import Hypothesis
from asr.evaluation.comparison import Change, Comparison
from asr.evaluation.metrics import AlignedPair, align, is_converted
from asr.evaluation.tables import comparison_rows, shown_p, span
from asr.pages.page import Table, write_page

NUM_SHOWN = 30


def write_comparison(path: Path, comparison: Comparison, written: datetime | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file; its folder is made.
        comparison: of the two systems.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    headings, *rows = comparison_rows(comparison)
    write_page(
        path,
        "asr.report",
        "evaluation_comparison.html",
        written=written,
        comparison=comparison,
        verdict=_verdict(comparison),
        table=Table(headings, rows),
        changes={
            f"Better by B in {comparison.counted_in}s": _shown(comparison.fixed),
            f"Worse by B in {comparison.counted_in}s": _shown(comparison.broken),
        },
    )


def _verdict(comparison: Comparison) -> str:
    """The first rate's difference in words."""
    rate = comparison.rates[0]
    test, change = rate.test, rate.edits_b.errors - rate.edits_a.errors
    if not change:
        return f"A and B make equally many {rate.name} errors."
    found = f"B makes {abs(change):,} {'fewer' if change < 0 else 'more'} {rate.name} errors than A"
    far = f"{test.difference:+.2%} in the rate, {span(test.low, test.high, '+')} with 95% confidence"
    chance = "chance hardly explains it" if test.p_value < 0.05 else "it may well be chance"
    return f"{found}: {far}; {chance} (p {shown_p(test.p_value)})."


@dataclass(frozen=True)
class _Recognized:
    """An utterance's tokens as one of the systems recognized them, and its text where that differs."""

    letter: str
    pairs: Sequence[AlignedPair]
    text: str


@dataclass(frozen=True)
class _Card:
    """An utterance, and what both systems made of it."""

    change: Change
    by_system: Sequence[_Recognized]


@dataclass(frozen=True)
class _Changes:
    """Some utterances of many."""

    cards: Sequence[_Card]
    total: int


def _shown(changes: Sequence[Change]) -> _Changes:
    """Return the cards of the first utterances."""
    cards = [
        _Card(change, [_recognized(change, "A", change.by_a), _recognized(change, "B", change.by_b)])
        for change in changes[:NUM_SHOWN]
    ]
    return _Changes(cards, len(changes))


def _recognized(change: Change, letter: str, by: Hypothesis) -> _Recognized:
    return _Recognized(letter, align(change.utterance.tokens, by.tokens), by.text if is_converted(by) else "")
