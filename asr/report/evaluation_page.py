"""Writes the report of an evaluation as one self-contained HTML page.

    write_report(run.report_path, run_name="demo", set_name="test", evaluation=evaluation,
                 scores=scores_of(utterances, hypotheses), review=review_labels(evaluation),
                 metrics=run.metrics(), config_toml=dump_config(config))

The page is `templates/evaluation.html`. Its values come from the modules beside this one: `curves`, `rates`,
`mandarin` (syllables and hanzi), `confidence`, `labels` (those that are probably wrong), `utterances` and
`sound`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.text.wording import duration, percent
from asr.base.types import EditCounts
from asr.evaluation.errors.metrics import token_name
from asr.evaluation.labels.label_review import LabelReview
from asr.evaluation.scores import Score
from asr.pages.page import write_page
from asr.report.confidence import reliability
from asr.report.curves import curves
from asr.report.labels import labels_to_review
from asr.report.mandarin import hanzi_tables, syllable_tables
from asr.report.rates import error_rates, rates_by_frequency
from asr.report.sound import MARKS
from asr.report.utterances import EDITS, Scored, confusions, edit_key, right_utterances, worst_utterances
from asr.runs.progress import EpochMetrics, best_first, chosen_epoch, throughput

if TYPE_CHECKING:
    from asr.evaluation.evaluator import Evaluation  # loads TensorFlow


def write_report(
    path: Path,
    *,
    run_name: str,
    set_name: str,
    evaluation: Evaluation,
    scores: Sequence[Score],
    review: LabelReview,
    metrics: Sequence[EpochMetrics] = (),
    start_error: float | None = None,
    config_toml: str = "",
    token_counts: Mapping[str, int] | None = None,
    tones: str = "",
    advice: Sequence[str] = (),
    written: datetime | None = None,
) -> None:
    """Write the report of an evaluation as an HTML page, atomically.

    Args:
        path: of the HTML file; its folder is created.
        run_name: heading of the page.
        set_name: name of the evaluated set, such as "test".
        evaluation: of the run's chosen epoch.
        scores: error rates of the evaluation, from `asr.evaluation.scores.scores_of`.
        review: labels that are probably wrong, from `asr.evaluation.labels.label_review.review_labels`.
        metrics: of every epoch; none for an evaluation without a run's history.
        start_error: dev error before training, of a run that starts from the weights of another.
        config_toml: the resolved configuration.
        token_counts: how often each token is in the training set; None if unknown.
        advice: what would lower the errors, a paragraph each.
        tones: of labels made from text, "citation" or "spoken"; empty if they are not known.
        written: the date on the page; now by default.

    Raises:
        UserError: the file cannot be written.
    """
    scored = [Scored.of(*both) for both in zip(evaluation.utterances, evaluation.hypotheses, strict=True)]
    unit = evaluation.token or token_name(evaluation.utterances)
    write_page(
        path,
        "asr.report",
        "evaluation.html",
        written=written,
        run_name=run_name,
        set_name=set_name,
        unit=unit,
        headlines=_headlines(unit, set_name, evaluation.edits, scores),
        facts=_facts(unit, evaluation, scored, metrics, start_error),
        composition=_composition(evaluation.edits),
        advice=advice,
        curves=curves(metrics, unit),
        rates=error_rates(unit, scores, scored),
        frequency=rates_by_frequency(unit, scored, token_counts or {}),
        syllables=syllable_tables(scored),
        tones=tones,
        hanzi=hanzi_tables(scored),
        confusions=confusions(scored),
        confidence=reliability(scored),
        labels=labels_to_review(unit, review),
        worst=worst_utterances(unit, scored),
        edit_key=edit_key({edit: meaning for edit, meaning in EDITS.items() if MARKS[edit]}),
        right=right_utterances(scored),
        config_toml=config_toml,
    )


def _headlines(unit: str, set_name: str, edits: EditCounts, scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Return the error rate of the labels and that of the written text, each with its meaning."""
    headlines = [(percent(edits.rate), f"{unit} error rate on {set_name}")]
    written = [score for score in scores if score.name == "character" != unit]
    return [*headlines, *((percent(s.total.rate), f"{s.name} error rate, as written") for s in written)]


def _facts(
    unit: str,
    evaluation: Evaluation,
    scored: Sequence[Scored],
    metrics: Sequence[EpochMetrics],
    start_error: float | None,
) -> dict[str, str]:
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
    if metrics:
        speed = throughput(metrics)
        best = best_first(metrics)[0]
        none = "none" if start_error is None else "0"
        facts |= {
            "chosen epoch": f"{chosen_epoch(metrics) or none} of {metrics[-1].epoch}",
            "best epoch": f"{best.epoch}, {percent(best.dev_error)} on dev",
            "training": duration(metrics[-1].train_s),
            "throughput": f"{speed:,.0f}× real time",
        }
    if start_error is not None:
        facts["before training"] = f"{percent(start_error)} on dev"
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
