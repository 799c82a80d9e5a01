"""Names the files of evaluations in a run, and finds the earlier evaluation to compare with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from asr.base.errors import UserError
from asr.base.system.shards import single_file
from asr.evaluation.scores import EvaluationRecord, Settings, decoder_name, read_json
from asr.runs.run import Run


class EarlierEvaluation(NamedTuple):
    """An earlier evaluation to compare with.

    Attributes:
        path: of the JSON file.
        record: its contents.
    """

    path: Path
    record: EvaluationRecord


def report_path(run: Run, manifest: Path, decoder: Settings, name: str | None = None) -> Path:
    """Return the path of the report on a manifest; the record is saved as JSON beside it.

    It is in the run's directory; those of a model file are in the working directory, in NAME-reports. It is
    named by folder, manifest and decoder, because many corpora have a `test.jsonl`.

    Args:
        run: which is evaluated.
        manifest: of the set.
        decoder: its settings.
        name: replaces the decoder's name in the file's name.

    Raises:
        UserError: the name cannot be part of a file's name.
    """
    if name is not None and not re.fullmatch(r"[\w.+-]+", name):
        raise UserError(f"`name`: expected letters, digits and . _ + -, such as beam64, received {name!r}")
    parts = [
        "report",
        manifest.resolve().parent.name,
        single_file(manifest).stem,
        name or decoder_name(decoder),
    ]
    return (run.reports or run.directory) / ("-".join(filter(None, parts)) + ".html")


def refuse_other_evaluation(path: Path, manifest: Path, decoder: Settings) -> None:
    """Raise a UserError if a record of another set or decoder exists at a path.

    Args:
        path: of the JSON file to write.
        manifest: of the set.
        decoder: its settings.
    """
    try:
        kept = read_json(path)
    except UserError:
        return  # no readable evaluation would be lost
    settings = sorted(
        key for key in kept.decoder.keys() | decoder.keys() if kept.decoder.get(key) != decoder.get(key)
    )
    if settings:
        what = f"an evaluation with another decoder ({', '.join(settings)})"
    elif kept.manifest != str(manifest.resolve()):
        what = f"an evaluation of {kept.manifest}"
    else:
        return
    raise UserError(f"{path}: {what} exists already; set `name=NAME` to keep both, or remove the file")


def earlier_evaluation(other: Path, manifest: Path, decoder: Settings, own: Path) -> EarlierEvaluation:
    """Return the evaluation to compare with.

    In a run directory it is the newest one on the manifest: of another run preferably with the same decoder,
    of the same run preferably with another one. Files that cannot be read are skipped, and reported only if
    no evaluation is found.

    Args:
        other: the JSON file of an evaluation, or a run's directory.
        manifest: of the set.
        decoder: settings of the new evaluation.
        own: path of the new evaluation, which is not compared with itself.

    Raises:
        UserError: there is no such evaluation, or it cannot be read.
    """
    if not other.is_dir():
        return EarlierEvaluation(other, read_json(other))
    run = Run.open(other)
    paths = [path for path in run.directory.glob("report*.json") if path.resolve() != own.resolve()]
    found, mistakes = [], []
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        try:
            record = read_json(path)
        except UserError as error:
            mistakes.append(f"; {error}")
            continue
        if record.manifest == str(manifest.resolve()):
            found.append(EarlierEvaluation(path, record))
    is_same_run = own.parent.resolve() == run.directory.resolve()
    if not found:
        command = f"asr evaluate {shlex.quote(str(other))} {shlex.quote(str(manifest))}"
        another = "another" if is_same_run else "an"
        raise UserError(
            f"`compare`: {other}: expected {another} evaluation of {manifest}, found none; `{command}` "
            "creates one" + "".join(mistakes)
        )
    wanted = [earlier for earlier in found if (earlier.record.decoder == decoder) != is_same_run]
    return (wanted or found)[-1]


def comparison_path(report: Path, earlier: EarlierEvaluation) -> Path:
    """Return the path of the page that compares an evaluation with an earlier one.

    Args:
        report: the path of the evaluation's report.
        earlier: the earlier evaluation.
    """
    other = earlier.path.stem.removeprefix("report").removeprefix("-")
    parts = ["compare", report.stem.removeprefix("report-"), "with", earlier.record.run, other]
    return report.with_name("-".join(filter(None, parts)) + ".html")
