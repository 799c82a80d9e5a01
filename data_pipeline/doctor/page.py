"""What the doctor found, as one HTML page: figures, spreads, and examples of every kind to listen to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote
from xml.etree.ElementTree import Element

from asr.base.files import whole_file
from asr.base.types import Utterance
from asr.base.wording import counted, duration, short_number
from asr.pages.histogram import histogram
from asr.pages.page import element, folded, page, section, table
from data_pipeline.doctor.checkup import is_silent
from data_pipeline.doctor.diagnosis import Diagnosis
from data_pipeline.doctor.findings import KINDS, SEVERITIES, Finding

NUM_EXAMPLES = 6  # of a kind, to be seen and heard
NUM_LISTED = 200  # of a kind, by name
NOT_TO_BE_HEARD = {
    "missing-audio",
    "empty-audio",
    "truncated-audio",
    "corrupt-audio",
    "decoder-stopped",
    "oversized-audio",
    "too-short",
    "silent",
}
HEADINGS = {"error": "Errors", "warning": "Warnings", "note": "Notes"}
ABOUT = {
    "error": "What makes training fail or teaches it something wrong.",
    "warning": "What wants a look: it may be meant so.",
    "note": "What is good to know.",
}


def write_doctor_page(path: Path, diagnosis: Diagnosis, written: datetime | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file; players and links lead from there to the recordings.
        diagnosis: to be shown.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    examples = _Examples(path.parent, diagnosis)
    sections = [_header(diagnosis), _manifests(diagnosis), _spreads(diagnosis)]
    for severity in SEVERITIES:
        found = {c: f for c, f in diagnosis.by_kind().items() if KINDS[c].severity == severity}
        if found:
            articles = [examples.of_kind(code, findings) for code, findings in found.items()]
            cards = element("div", *articles, class_="cards")
            sections.append(section(HEADINGS[severity], ABOUT[severity], cards))
    sections.append(
        element("footer", element("p", f"asr doctor, {(written or datetime.now()):%Y-%m-%d %H:%M}"))
    )
    with whole_file(path, "page") as file:
        file.write(page(_title(diagnosis), sections).encode())


def visible(text: str) -> str:
    """A text in which what cannot be seen, or written as UTF-8, stands as its code."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _title(diagnosis: Diagnosis) -> str:
    return f"{_verdict(diagnosis)} · asr doctor"


def _verdict(diagnosis: Diagnosis) -> str:
    errors = diagnosis.counts()["error"]
    return counted(errors, "error") if errors else "Sound"


def _header(diagnosis: Diagnosis) -> Element:
    counts = diagnosis.counts()
    entries = diagnosis.contents.entries
    facts = {
        "utterances": f"{len(entries):,}",
        "audio": duration(sum(diagnosis.durations_s())),
        "speakers": f"{len({entry.utterance.speaker for entry in entries} - {''}):,}",
        "lines without a sound utterance": f"{len(diagnosis.left_out()):,}",
        "warnings": f"{counts['warning']:,}",
        "notes": f"{counts['note']:,}",
    }
    figure = element(
        "p",
        element("strong", f"{counts['error']:,}" if counts["error"] else "Sound", class_="headline"),
        element("span", "errors" if counts["error"] != 1 else "error") if counts["error"] else "no errors",
    )
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    names = ", ".join(visible(source.path.name) for source in diagnosis.contents.sources)
    hero = element("div", figure, element("dl", *pairs), class_="hero")
    note = element("p", f"Room for labels is reckoned for {diagnosis.model}.", class_="note")
    return element("header", element("h1", names), hero, note)


def _manifests(diagnosis: Diagnosis) -> Element:
    headings = ["manifest", "taken for", "utterances", "audio", "speakers", "errors", "warnings", "notes"]
    rows = [
        [
            visible(str(summary.source.path)),
            summary.source.role,
            f"{summary.num_utterances:,}",
            duration(summary.duration_s),
            f"{summary.num_speakers:,}" if summary.num_speakers else "unknown",
            *(f"{summary.counts[severity]:,}" for severity in SEVERITIES),
        ]
        for summary in diagnosis.summaries()
    ]
    return section("Manifests", "", table(headings, rows))


def _spreads(diagnosis: Diagnosis) -> Element:
    """Histograms of what was heard."""
    pairs = list(zip(diagnosis.contents.entries, diagnosis.heard, strict=True))
    levels = [heard.level_db for _, heard in pairs if heard.digest and not is_silent(heard)]
    rates = [
        len(entry.utterance.tokens) / heard.duration_s
        for entry, heard in pairs
        if entry.utterance.tokens and heard.duration_s
    ]
    charts = [
        ("Durations", "seconds", [heard.duration_s for _, heard in pairs if heard.digest]),
        ("Levels", "dBFS, root mean square", levels),
        ("Speaking rates", "tokens a second", rates),
    ]
    figures = [
        histogram(title, quantity, values, show=short_number, noun="recording")
        for title, quantity, values in charts
        if values
    ]
    return section("Recordings", "Of what could be decoded.", element("div", *figures, class_="charts"))


class _Examples:
    """Findings with what they are about.

    Args:
        folder: of the page, from which links lead.
        diagnosis: to be shown.
    """

    def __init__(self, folder: Path, diagnosis: Diagnosis) -> None:
        self._folder = folder.resolve()
        self._utterances = {
            (entry.source, entry.line): entry.utterance for entry in diagnosis.contents.entries
        }

    def of_kind(self, code: str, findings: Sequence[Finding]) -> Element:
        """What a kind is, what to do, and its first findings."""
        kind = KINDS[code]
        title = element("h3", f"{kind.title} ", element("small", f"{len(findings):,} × {code}"))
        article = element("article", title, element("p", f"{kind.remedy[:1].upper()}{kind.remedy[1:]}."))
        for finding in findings[:NUM_EXAMPLES]:
            article.append(self._example(finding))
        more = findings[NUM_EXAMPLES:NUM_LISTED]
        if more:
            rows = [[visible(finding.where), visible(finding.detail)] for finding in more]
            cut = f", {NUM_LISTED:,} of them listed here" if len(findings) > NUM_LISTED else ""
            summary = f"{len(findings) - NUM_EXAMPLES:,} more{cut}"
            article.append(folded(summary, table(["where", "what"], rows, kind="words")))
        return article

    def _example(self, finding: Finding) -> Element:
        parts: list[Element | str] = [
            element("b", visible(finding.where) or "in all"),
            " ",
            visible(finding.detail),
        ]
        utterance = self._utterances.get((finding.source, finding.line)) if finding.source else None
        if utterance:
            said = " · ".join(filter(None, (utterance.text, " ".join(utterance.tokens), utterance.speaker)))
            parts += [element("br"), visible(said), element("br"), self._link(utterance)]
            if finding.code not in NOT_TO_BE_HEARD:
                source = self._address(utterance)
                parts += [element("br"), element("audio", controls="", preload="none", src=source)]
        return element("p", *parts)

    def _link(self, utterance: Utterance) -> Element:
        return element("a", visible(utterance.audio_path), href=self._address(utterance))

    def _address(self, utterance: Utterance) -> str:
        """From the page to the recording."""
        audio = Path(utterance.audio_path).absolute()
        try:
            relative = os.path.relpath(audio, self._folder)
        except ValueError:  # another drive
            return audio.as_uri()
        return quote(Path(relative).as_posix().encode(errors="surrogateescape"))
