"""Common Voice: sentences read by volunteers in their browsers (Ardila et al., 2020; Mozilla, CC0).

Layout: `<version>/<language>/{train,dev,test,validated,...}.tsv` and `clips/*.mp3`. The tables are
separated by tabs without any quoting, so a sentence may begin with a quotation mark; releases differ in
their columns, all have client_id, path and sentence. Train, dev and test share no speaker; what is
validated but in none of them repeats sentences and stays out, except where a language has no split.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from asr.base.types import UserError
from data_pipeline.corpora.layout import raw_lines
from data_pipeline.corpora.listed import (
    Entry,
    Listing,
    contents,
    nearest_below,
    reading_of,
    refuse_missing,
)
from data_pipeline.corpora.recording import SPLITS, Corpus, LeftOut, Reading

UNSPLIT = "validated"
COLUMNS = ("path", "sentence", "client_id")
EXPECTED = "tab-separated client_id, path, sentence, ..."
LAYOUT = "<version>/<language>/{train,dev,test}.tsv and clips/*.mp3"


def read(source: Path, target: Path) -> Reading:
    """Recordings of one language; `target` is not used.

    Args:
        source: the language's folder ("zh-CN", "zh-TW", "zh-HK", "en"), or one above it.
        target: not used.

    Raises:
        UserError: there is no such table below the folder, several languages are, or a table lacks columns.
    """
    refuse_missing(source)
    folder = _language_folder(source)
    tables = {split: folder / f"{split}.tsv" for split in SPLITS}
    if not tables["train"].exists():
        tables = {"all": folder / f"{UNSPLIT}.tsv"}
    left_out = [LeftOut(str(path), "no such table") for path in tables.values() if not path.exists()]
    return reading_of((_read_table(path, split) for split, path in tables.items() if path.exists()), left_out)


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
            f"name one of them: {', '.join(map(str, folders))}"
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
    clip, sentence, client = (names.index(column) for column in COLUMNS)
    listing = Listing(path, split, EXPECTED)
    for number, line in lines:
        fields = line.split("\t")
        where = f"{path}:{number}"
        if len(fields) > len(names) or len(fields) <= max(clip, sentence, client):
            reason = "more fields than columns" if len(fields) > len(names) else "fewer fields than columns"
            listing.left_out.append(LeftOut(where, reason, f"{len(fields)} for {len(names)}"))
            continue
        # the first releases leave the suffix out
        name = fields[clip] if PurePosixPath(fields[clip]).suffix else f"{fields[clip]}.mp3"
        stem = name.rpartition(".")[0]
        listing.entries.append(Entry(where, f"clips/{name}", fields[sentence], stem, fields[client]))
    return listing


CORPUS = Corpus(
    read=read,
    about=(
        "sentences read by volunteers, a folder for each language; download it yourself, after accepting "
        "its terms; other languages than Chinese need --units characters or words"
    ),
    units="syllables",
    licence="CC0-1.0",
    address="https://commonvoice.mozilla.org/datasets",
    layout=LAYOUT,
)
