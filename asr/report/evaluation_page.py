"""Writes the report of an evaluation as one self-contained HTML page.

    scores, review = scores_of(utterances, hypotheses), review_labels(evaluation)
    write_report(run.report_path, ReportedRun("demo", run.metrics(), dump_config(config)),
                 ReportedSet("test", evaluation, scores, review))

The page is `templates/evaluation.html`. Its values come from the modules beside this one: `curves`, `rates`,
`published` (what others have measured), `mandarin` (syllables and hanzi), `confidence`, `labels` (those that
are probably wrong), `utterances` and `sound`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.text.wording import duration, percent
from asr.base.types import EditCounts
from asr.evaluation.errors.metrics import token_name
from asr.evaluation.labels.label_review import LabelReview
from asr.evaluation.published.figures import PublishedSet
from asr.evaluation.scores import Score, Settings
from asr.pages.page import write_page
from asr.report.confidence import reliability
from asr.report.curves import curves
from asr.report.labels import labels_to_review
from asr.report.mandarin import hanzi_tables, syllable_tables
from asr.report.published import published_table
from asr.report.rates import error_rates, rates_by_frequency
from asr.report.sound import MARKS
from asr.report.utterances import EDITS, EditKey, Scored, confusions, right_utterances, worst_utterances
from asr.runs.progress import EpochMetrics, best_first, chosen_epoch, throughput

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation


@dataclass(frozen=True)
class ReportedRun:
    """The run that a page is about.

    Attributes:
        name: heading of the page.
        metrics: of every epoch; none for an evaluation without a run's history.
        config_toml: the resolved configuration.
        token_counts: how often each token is in the training set; empty if unknown.
        start_error: dev error before training, of a run that starts from the weights of another.
    """

    name: str
    metrics: Sequence[EpochMetrics] = ()
    config_toml: str = ""
    token_counts: Mapping[str, int] = field(default_factory=dict)
    start_error: float | None = None


@dataclass(frozen=True)
class ReportedSet:
    """The evaluated set.

    Attributes:
        name: of the set, such as "test".
        evaluation: of the run's chosen epoch.
        scores: error rates of the evaluation, from `asr.evaluation.scores.scores_of`.
        review: labels that are probably wrong, from `asr.evaluation.labels.label_review.review_labels`.
        tones: of labels made from text, "citation" or "spoken"; empty if they are not known.
        published: the figures of others on this set; None if there are none.
        decoder: settings by which the set was decoded.
    """

    name: str
    evaluation: Evaluation
    scores: Sequence[Score]
    review: LabelReview
    tones: str = ""
    published: PublishedSet | None = None
    decoder: Settings = field(default_factory=dict)


def write_report(
    path: Path,
    run: ReportedRun,
    tested: ReportedSet,
    *,
    advice: Sequence[str] = (),
    written: datetime | None = None,
) -> None:
    """Write the report of an evaluation as an HTML page, atomically.

    Args:
        path: of the HTML file; its folder is created.
        run: that was evaluated.
        tested: the set, and the results on it.
        advice: what would lower the errors, a paragraph each.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    evaluation, scores = tested.evaluation, tested.scores
    scored = [Scored.of(*both) for both in zip(evaluation.utterances, evaluation.hypotheses, strict=True)]
    unit = evaluation.token or token_name(evaluation.utterances)
    write_page(
        path,
        "asr.report",
        "evaluation.html",
        written=written,
        run_name=run.name,
        set_name=tested.name,
        unit=unit,
        headlines=_headlines(unit, tested.name, evaluation.edits, scores),
        facts=_facts(unit, evaluation, scored, run),
        composition=_composition(evaluation.edits),
        advice=advice,
        curves=curves(run.metrics, unit),
        rates=error_rates(unit, scores, scored),
        published=tested.published and published_table(tested.published, tested.decoder, scores),
        frequency=rates_by_frequency(unit, scored, run.token_counts),
        syllables=syllable_tables(scored),
        tones=tested.tones,
        hanzi=hanzi_tables(scored),
        confusions=confusions(scored),
        confidence=reliability(scored),
        labels=labels_to_review(unit, tested.review),
        worst=worst_utterances(unit, scored),
        edit_key=[EditKey(edit, MARKS[edit], meaning) for edit, meaning in EDITS.items() if MARKS[edit]],
        right=right_utterances(scored),
        config_toml=run.config_toml,
    )


def _headlines(unit: str, set_name: str, edits: EditCounts, scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Return the error rate of the labels and that of the written text, each with its meaning."""
    headlines = [(percent(edits.rate), f"{unit} error rate on {set_name}")]
    if scores[0].name != unit:  # words, which pieces make
        headlines.insert(0, (percent(scores[0].total.rate), f"{scores[0].name} error rate on {set_name}"))
    written = [score for score in scores if score.name == "character" != unit]
    return [*headlines, *((percent(s.total.rate), f"{s.name} error rate, as written") for s in written)]


def _facts(unit: str, evaluation: Evaluation, scored: Sequence[Scored], run: ReportedRun) -> dict[str, str]:
    """Return the figures that explain the error rate, by name."""
    right = sum(s.edits.errors == 0 for s in scored)
    speakers = {s.utterance.speaker for s in scored if s.utterance.speaker}
    facts = {
        "entirely right": f"{right:,} of {len(scored):,} ({percent(right / max(1, len(scored)))})",
        "utterances": f"{len(scored):,}",
        f"{unit}s": f"{evaluation.edits.reference_length:,}",
        "speakers": f"{len(speakers):,}" if speakers else "unknown",
        "audio": duration(sum(s.utterance.duration_s for s in scored)),
        "CTC loss": f"{evaluation.loss:.2f} per utterance",
    }
    if run.metrics:
        speed = throughput(run.metrics)
        best = best_first(run.metrics)[0]
        none = "none" if run.start_error is None else "0"
        facts |= {
            "chosen epoch": f"{chosen_epoch(run.metrics) or none} of {run.metrics[-1].epoch}",
            "best epoch": f"{best.epoch}, {percent(best.dev_error)} on dev",
            "training": duration(run.metrics[-1].train_s),
            "throughput": f"{speed:,.0f}× real time",
        }
    if run.start_error is not None:
        facts["before training"] = f"{percent(run.start_error)} on dev"
    return facts


@dataclass(frozen=True)
class _Part:
    """The number of tokens that are right, substituted, deleted or inserted, and its share of all four."""

    edit: str
    mark: str
    count: int
    share: float
    meaning: str


def _composition(edits: EditCounts) -> list[_Part]:
    """Return the numbers of right, substituted, deleted and inserted tokens."""
    counts = {
        "equal": edits.reference_length - edits.substitutions - edits.deletions,
        "substitution": edits.substitutions,
        "deletion": edits.deletions,
        "insertion": edits.insertions,
    }
    total = max(1, sum(counts.values()))
    return [
        _Part(edit, MARKS[edit], count, count / total, f"{count:,} {EDITS[edit]}")
        for edit, count in counts.items()
    ]
