"""Writes the files of an evaluation: its report, its data, and the labels to review."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asr.base.config import dump_config
from asr.base.system.storage.address import path_of
from asr.base.text.wording import counted
from asr.evaluation.data import whole_set
from asr.evaluation.labels.label_review import write_review_of
from asr.evaluation.published.figures import published_set
from asr.evaluation.run_evaluation import EvaluatedRun
from asr.evaluation.scores import tones_of, write_csv, write_json
from asr.report.evaluation_page import ReportedRun, ReportedSet, write_report
from asr.runs.advice import advice
from asr.runs.resume_command import resume_command


@dataclass(frozen=True)
class ReportFiles:
    """The paths of the files of an evaluation.

    Attributes:
        page: the report, HTML.
        record: the evaluation as JSON.
        table: the evaluation as CSV.
        review: labels that may be wrong, as CSV; it exists only if there are any.
        num_to_review: number of labels to review.
        why_none: why the model may not doubt labels, see `asr.evaluation.labels.label_review.LabelReview`.
    """

    page: Path
    record: Path
    table: Path
    review: Path
    num_to_review: int
    why_none: str


def report_files(page: Path, num_to_review: int = 0, why_none: str = "") -> ReportFiles:
    """Return the paths of the files of an evaluation, given the path of its page."""
    review = page.with_name(page.name.replace("report", "review", 1)).with_suffix(".csv")
    return ReportFiles(
        page, page.with_suffix(".json"), page.with_suffix(".csv"), review, num_to_review, why_none
    )


def advice_about(evaluated: EvaluatedRun) -> list[str]:
    """Return what would lower the errors of a run, by its curves and an evaluation."""
    run, config = evaluated.run, evaluated.run.config()
    data, num_done = config.data, len(run.metrics())
    if 0 < num_done < config.train.epochs:
        done = f"{num_done} of {counted(config.train.epochs, 'epoch')} are trained"
        return [f"Training is not finished: {done}. Resume it:\n{resume_command(run.directory)}"]
    manifest = path_of(evaluated.record.manifest).resolve()
    is_dev, is_train = (bool(path) and manifest == path_of(path).resolve() for path in (data.dev, data.train))
    lines = advice(
        run.metrics(),
        evaluated.evaluation.token,
        test=None if is_dev or is_train else evaluated.evaluation.edits,
        resume=resume_command(run.directory),
        starts_from_trained=bool(config.train.init_from),
        start_error=run.start_error(),
    )
    if is_dev and not data.test:
        lines.insert(
            0,
            "Nothing was tested: data.test is empty. These are the errors on dev, by which the epoch was "
            "chosen; a test set's are higher.",
        )
    return lines


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
    config_toml, token_counts = dump_config(run.config()), run.token_counts()
    reported = ReportedRun(run.directory.name, run.metrics(), config_toml, token_counts, run.start_error())
    results = evaluated.evaluation, evaluated.scores, evaluated.review
    manifest = path_of(record.manifest)
    tested = ReportedSet(manifest.stem, *results, tones_of(record), published_set(manifest), record.decoder)
    write_report(page, reported, tested, advice=advice_about(evaluated))
    write_json(files.record, record, evaluated.scores)
    write_csv(files.table, record, evaluated.scores)
    utterances = whole_set(manifest, record.utterances)
    num_to_review = write_review_of(evaluated.review.candidates, utterances, files.review)
    return report_files(page, num_to_review, evaluated.review.why_none)
