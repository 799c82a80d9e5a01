"""Writes the files of an evaluation: its report, its data, and the labels to review."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asr.base.config import dump_config
from asr.evaluation.labels.label_review import write_review_of
from asr.evaluation.run_evaluation import EvaluatedRun
from asr.evaluation.scores import tones_of, write_csv, write_json
from asr.report.evaluation_page import write_report


@dataclass(frozen=True)
class ReportFiles:
    """The paths of the files of an evaluation.

    Attributes:
        page: the report, HTML.
        record: the evaluation as JSON.
        table: the evaluation as CSV.
        review: labels that may be wrong, as CSV; it exists only if there are any.
        num_to_review: number of labels to review.
        silence: why the model may not doubt labels, see `asr.evaluation.labels.label_review.LabelReview`.
    """

    page: Path
    record: Path
    table: Path
    review: Path
    num_to_review: int
    silence: str


def report_files(page: Path, num_to_review: int = 0, silence: str = "") -> ReportFiles:
    """Return the paths of the files of an evaluation, given the path of its page."""
    review = page.with_name(page.name.replace("report", "review", 1)).with_suffix(".csv")
    return ReportFiles(
        page, page.with_suffix(".json"), page.with_suffix(".csv"), review, num_to_review, silence
    )


def write_report_files(evaluated: EvaluatedRun, page: Path) -> ReportFiles:
    """Write the report of an evaluation, its data and the labels to review beside it.

    Args:
        evaluated: the result of `asr.evaluation.run_evaluation.evaluate`.
        page: path of the HTML file; the others are named after it.

    Raises:
        UserError: a file cannot be written.
    """
    run, record = evaluated.run, evaluated.record
    files = report_files(page)
    write_report(
        page,
        run_name=run.directory.name,
        set_name=Path(record.manifest).stem,
        evaluation=evaluated.evaluation,
        scores=evaluated.scores,
        review=evaluated.review,
        metrics=run.metrics(),
        token_counts=run.token_counts(),
        config_toml=dump_config(run.config()),
        tones=tones_of(record),
    )
    write_json(files.record, record, evaluated.scores)
    write_csv(files.table, record, evaluated.scores)
    num_to_review = write_review_of(evaluated.review.candidates, record.utterances, files.review)
    return report_files(page, num_to_review, evaluated.review.silence)
