"""Two systems on the same utterances as one HTML page: rates, their difference, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element

from asr.base.files import whole_file
from asr.base.types import Hypothesis, Utterance
from asr.base.version import __version__
from asr.base.wording import counted, percent
from asr.evaluation.comparison import Change, Comparison
from asr.evaluation.metrics import align, is_converted
from asr.evaluation.tables import comparison_rows, shown_p, span
from asr.pages.page import element, page, section, table

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
    title = f"{comparison.title_a} and {comparison.title_b}, side by side"
    headings, *rows = comparison_rows(comparison)
    date = f"Written by Polyphone {__version__} on {written or datetime.now():%Y-%m-%d at %H:%M}."
    sections = [
        element("header", element("h1", title), _cards(comparison)),
        section("Error rates", _verdict(comparison), table(headings, rows), *_notes(comparison)),
        *_changed(f"Better by B in {comparison.counted_in}s", comparison.fixed),
        *_changed(f"Worse by B in {comparison.counted_in}s", comparison.broken),
        element("footer", date),
    ]
    with whole_file(path, "page") as file:
        file.write(page(title, sections).encode(errors="xmlcharrefreplace"))


def _cards(comparison: Comparison) -> Element:
    """Each system with its first figure."""
    rate = comparison.rates[0]
    systems = (("A", comparison.title_a, rate.edits_a), ("B", comparison.title_b, rate.edits_b))
    return element(
        "div",
        *(
            element(
                "article",
                element("h3", _badge(letter), title),
                element("p", element("strong", percent(edits.rate))),
                element(
                    "small", f"{rate.name} error rate on {counted(comparison.num_utterances, 'utterance')}"
                ),
                class_=f"run r{place}",
            )
            for place, (letter, title, edits) in enumerate(systems, start=1)
        ),
        class_="runs",
    )


def _badge(letter: str) -> Element:
    return element("b", letter, class_=f"badge run r{'AB'.index(letter) + 1}")


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


def _notes(comparison: Comparison) -> list[Element]:
    return [element("p", note, class_="note") for note in comparison.notes]


def _changed(title: str, changes: Sequence[Change]) -> list[Element]:
    """Cards of utterances, the largest difference first."""
    if not changes:
        return []
    note = f"{min(NUM_SHOWN, len(changes))} of {len(changes):,}, the largest difference in errors first."
    cards = [_card(change) for change in changes[:NUM_SHOWN]]
    return [section(title, note, element("div", *cards, class_="cards"))]


def _card(change: Change) -> Element:
    """An utterance, and what both systems heard."""
    said = change.utterance
    errors = f"{change.errors_a} wrong by A, {change.errors_b} by B"
    about = " · ".join(part for part in (errors, said.id, said.speaker, f"{said.duration_s:.1f} s") if part)
    heard = [_heard(letter, said, by) for letter, by in (("A", change.by_a), ("B", change.by_b))]
    reference = element("p", " ".join(said.tokens))
    return element(
        "article", element("h3", element("q", said.text), element("small", about)), reference, *heard
    )


def _heard(letter: str, said: Utterance, hypothesis: Hypothesis) -> Element:
    """The tokens a system heard, those that are wrong in the colour of their edit; a gap for one left out."""
    parts: list[Element | str] = [_badge(letter)]
    for pair in align(said.tokens, hypothesis.tokens):
        token = pair.hypothesis or f"({pair.reference})"
        parts.append(token if pair.edit == "equal" else element("span", token, class_=pair.edit))
        parts.append(" ")
    if is_converted(hypothesis):
        parts.extend((element("br"), element("small", hypothesis.text)))
    return element("p", *parts)
