"""What a model made of a set, and how it came to that, as one HTML page that needs nothing else.

    write_report(run.report_path, run_name="demo", set_name="test", evaluation=evaluation,
                 scores=scores_of(utterances, hypotheses), doubtful=review_candidates(evaluation),
                 metrics=run.metrics(), config_toml=dump_config(config))

The page's elements and style are in `asr/pages/page.py`, its curves in `asr/report/curves.py`, its error
rates in `asr/report/rates.py`, what Mandarin has of its own in `asr/report/mandarin.py`, the
labels that are probably wrong in `asr/report/labels.py`, the sections that show single tokens and utterances
in `asr/report/utterances.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from asr.base.files import whole_file
from asr.base.types import EditCounts
from asr.base.version import __version__
from asr.base.wording import duration, percent
from asr.evaluation.label_review import Candidate
from asr.evaluation.metrics import align, count_edits, token_name
from asr.evaluation.scores import Score
from asr.pages.page import element, folded, page, section
from asr.report.confidence import confidence_section
from asr.report.curves import course_of_training, learning_curves
from asr.report.labels import label_section
from asr.report.mandarin import hanzi_section, syllable_section
from asr.report.rates import error_rates, rates_by_frequency
from asr.report.sound import MARKS
from asr.report.utterances import EDITS, Scored, confusions, edit_key, right_utterances, worst_utterances
from asr.runs.progress import EpochMetrics, best_epoch, throughput

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation  # loads TensorFlow


def write_report(
    path: Path,
    *,
    run_name: str,
    set_name: str,
    evaluation: Evaluation,
    scores: Sequence[Score],
    doubtful: Sequence[Candidate],
    metrics: Sequence[EpochMetrics] = (),
    config_toml: str = "",
    token_counts: Mapping[str, int] | None = None,
    written: datetime | None = None,
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file; its folder is made.
        run_name: the page's heading.
        set_name: what was evaluated, such as "test".
        evaluation: of the run's best checkpoint.
        scores: its rates, as `asr.evaluation.scores.scores_of` reckons them.
        doubtful: its labels that are probably wrong, as `asr.evaluation.label_review.review_candidates` finds
            them.
        metrics: of every epoch; none for a bare evaluation.
        config_toml: the resolved configuration.
        token_counts: how often each token is in the training set; none where that is not known.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    scored = [
        Scored(utterance, hypothesis, align(*tokens), count_edits(*tokens))
        for utterance, hypothesis in zip(evaluation.utterances, evaluation.hypotheses, strict=True)
        for tokens in [(utterance.tokens, hypothesis.tokens)]
    ]
    unit = token_name(evaluation.utterances)
    sections = [
        header(run_name, set_name, unit, evaluation, scored, metrics),
        *learning_curves(metrics),
        *course_of_training(metrics),
        error_rates(unit, scores, scored),
        *rates_by_frequency(unit, scored, token_counts or {}),
        *syllable_section(scored),
        *hanzi_section(scored),
        *confusions(scored),
        *confidence_section(scored),
        *label_section(unit, doubtful),
        *worst_utterances(unit, scored),
        *right_utterances(scored),
        *configuration(config_toml),
        footer(written or datetime.now()),
    ]
    title = f"{percent(evaluation.edits.rate)} on {set_name} · {run_name}"
    with whole_file(path, "report") as file:
        # a manifest's JSON can hold half of a surrogate pair, which has no UTF-8
        file.write(page(title, sections).encode(errors="xmlcharrefreplace"))


def header(
    run_name: str,
    set_name: str,
    unit: str,
    evaluation: Evaluation,
    scored: Sequence[Scored],
    metrics: Sequence[EpochMetrics],
) -> Element:
    """The run's name, its one figure, and what stands behind it."""
    edits, right = evaluation.edits, sum(s.edits.errors == 0 for s in scored)
    speakers = {s.utterance.speaker for s in scored if s.utterance.speaker}
    facts = {
        "entirely right": f"{right:,} of {len(scored):,} ({percent(right / max(1, len(scored)))})",
        "utterances": f"{len(scored):,}",
        f"{unit}s": f"{edits.reference_length:,}",
        "speakers": f"{len(speakers):,}" if speakers else "unknown",
        "audio": duration(sum(s.utterance.duration_s for s in scored)),
        "CTC loss": f"{evaluation.loss:.2f} per utterance",
    }
    if metrics:
        speed = throughput(metrics)
        facts |= {
            "best epoch": f"{best_epoch(metrics) or 'none'} of {metrics[-1].epoch}",
            "training": duration(metrics[-1].train_s),
            "throughput": f"{speed:,.0f}× real time",
        }
    figure = element(
        "p",
        element("strong", percent(edits.rate), class_="headline"),
        element("span", f"{unit} error rate on ", element("b", set_name)),
    )
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    hero = element("div", figure, element("dl", *pairs), class_="hero")
    return element("header", element("h1", run_name), hero, composition(edits))


def composition(edits: EditCounts) -> Element:
    """A strip of all tokens that were said, by what became of them, and of those heard beside."""
    counts = {
        "equal": edits.reference_length - edits.substitutions - edits.deletions,
        "substitution": edits.substitutions,
        "deletion": edits.deletions,
        "insertion": edits.insertions,
    }
    parts = [
        element("span", MARKS[kind], class_=kind, style=f"flex-grow:{count}")
        for kind, count in counts.items()
        if count
    ]
    key = edit_key({kind: f"{count:,} {EDITS[kind]}" for kind, count in counts.items()})
    return element("div", element("div", *parts, class_="strip"), key)


def configuration(config_toml: str) -> list[Element]:
    """The run's settings, folded."""
    if not config_toml:
        return []
    return [section("Configuration", "", folded("Every setting of this run", element("pre", config_toml)))]


def footer(written: datetime) -> Element:
    """When this was written, and by what."""
    return element("footer", f"Written by Polyphone {__version__} on {written:%Y-%m-%d at %H:%M}.")
