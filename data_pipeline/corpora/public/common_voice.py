"""Read Common Voice: sentences read by volunteers in their browsers (Ardila et al., 2020; Mozilla, CC0).

Layout: `<version>/<language>/{train,dev,test,validated,...}.tsv` and `clips/*.mp3`. The tables are
tab-separated without quoting, so a sentence may begin with a quotation mark. Releases differ in their
columns, but all have client_id, path and sentence. Train, dev and test share no speaker. Validated clips
outside these splits repeat sentences and are not used, except where a language has no splits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.clip_lists import (
    ListedClip,
    Listing,
    contents,
    nearest_below,
    reading_of,
    refuse_missing,
)
from data_pipeline.corpora.layout import raw_lines
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import SPLITS, Corpus, CorpusReading, LeftOut

UNSPLIT = "validated"
COLUMNS = ("path", "sentence", "client_id")
EXPECTED = "tab-separated client_id, path, sentence, ..."
LAYOUT = "<version>/<language>/{train,dev,test}.tsv and clips/*.mp3"


class ColumnPositions(NamedTuple):
    """The positions of a table's columns."""

    num_columns: int
    clip: int
    sentence: int
    client: int


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of one language; the other parameters are not used.

    Args:
        source: the language's folder ("zh-CN", "zh-TW", "zh-HK", "en"), or one above it.
        target: not used.
        on_progress: not used.

    Raises:
        UserError: the folder has no such table or several languages below it, or a table lacks columns.
    """
    refuse_missing(source)
    folder = _language_folder(source)
    tables = {split: folder / f"{split}.tsv" for split in SPLITS}
    if not tables["train"].exists():
        tables = {"all": folder / f"{UNSPLIT}.tsv"}
    left_out = [LeftOut(str(path), "table not found") for path in tables.values() if not path.exists()]
    found = reading_of(
        (_read_table(path, split) for split, path in tables.items() if path.exists()), left_out
    )
    return dataclasses.replace(found, language=_locale(tables.values()) or folder.resolve().name)


def _locale(tables: Iterable[Path]) -> str:
    """Return the language that the first row of the first table names; "" in releases that name none."""
    header, row = itertools.islice(raw_lines(next(filter(Path.exists, tables)), "table"), 2)
    return dict(zip(header[1].split("\t"), row[1].split("\t"), strict=False)).get("locale", "")


def _language_folder(source: Path) -> Path:
    folders = nearest_below(
        source, lambda folder: any((folder / f"{name}.tsv").is_file() for name in ("train", UNSPLIT)), depth=3
    )
    if not folders:
        raise UserError(
            f"{source}: no train.tsv of Common Voice below this folder; expected {LAYOUT}; {contents(source)}"
        )
    if len(folders) > 1:
        raise UserError(
            f"{source}: {len(folders)} languages below this folder; "
            f"choose the folder of one: {', '.join(map(str, folders))}"
        )
    return folders[0]


def _read_table(path: Path, split: str) -> Listing:
    lines = raw_lines(path, "table")
    _, header = next(lines, (0, ""))
    names = header.split("\t")
    missing = [column for column in COLUMNS if column not in names]
    if missing:
        raise UserError(
            f"{path}:1: no column {' or '.join(missing)}; expected {EXPECTED}; found {', '.join(names)}"
        )
    columns = ColumnPositions(len(names), *(names.index(column) for column in COLUMNS))
    entries, left_out = partition(_entry(f"{path}:{number}", line, columns) for number, line in lines)
    return Listing(path, split, EXPECTED, entries, left_out)


def _entry(where: str, line: str, columns: ColumnPositions) -> ListedClip | LeftOut:
    fields = line.split("\t")
    detail = f"expected {columns.num_columns}, found {len(fields)}"
    if len(fields) > columns.num_columns:
        return LeftOut(where, "more fields than columns", detail)
    if len(fields) <= max(columns.clip, columns.sentence, columns.client):
        return LeftOut(where, "fewer fields than columns", detail)
    clip = fields[columns.clip]
    name = clip if PurePosixPath(clip).suffix else f"{clip}.mp3"  # the first releases omit the suffix
    stem = name.rpartition(".")[0]
    return ListedClip(where, f"clips/{name}", fields[columns.sentence], stem, fields[columns.client])


CORPUS = Corpus(
    read=read,
    about=(
        "sentences read by volunteers, one folder per language; download it yourself after accepting "
        "its terms; languages other than Chinese need units such as characters or words"
    ),
    units="syllables",
    licence="CC0-1.0",
    address="https://commonvoice.mozilla.org/datasets",
    layout=LAYOUT,
)
