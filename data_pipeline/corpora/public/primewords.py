"""Read Primewords Chinese Corpus Set 1 (Shanghai Primewords, 2018; OpenSLR 47): Mandarin by 296 speakers.

    primewords_md_2018_set1/set1_transcript.json                a list of id, file, user_id, length, text
    primewords_md_2018_set1/audio_files/0/00/000017e3-....wav   by the first letters of the name

It has 50,384 recordings and 50,902 records: some recordings have two. There are no splits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import corpus_folder, files_below, plain_spaces, text_lines
from data_pipeline.corpora.matching import ClipFile, TextLine, match, require_recordings
from data_pipeline.manifests.left_out import partition
from data_pipeline.types import Archive, Corpus, CorpusReading, LeftOut

TABLE = "set1_transcript.json"
LAYOUT = f"primewords_md_2018_set1/audio_files and primewords_md_2018_set1/{TABLE}"


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Match recordings with the transcripts in the JSON list.

    Raises:
        UserError: the folder does not hold the corpus, or its transcripts are not a JSON list.
    """
    folder = corpus_folder(source, ("audio_files", TABLE), LAYOUT)
    clips = (ClipFile(path) for path in files_below(folder / "audio_files", (".wav",)))
    return require_recordings(match(clips, *partition(_lines(folder / TABLE))), source, LAYOUT)


def _lines(table: Path) -> Iterator[TextLine | LeftOut]:
    for number, record in enumerate(_records(table), start=1):
        where = f"{table}, record {number}"
        file, text = (record.get(key) if isinstance(record, dict) else None for key in ("file", "text"))
        if isinstance(file, str) and isinstance(text, str):
            speaker = record.get("user_id")
            yield TextLine(
                Path(file).stem, plain_spaces(text), where, "" if speaker is None else str(speaker)
            )
        else:
            yield LeftOut(where, "record without file or text", repr(record)[:80])


def _records(table: Path) -> list[Any]:
    try:
        records = json.loads("\n".join(line for _, line in text_lines(table)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{table}: not JSON ({error}); unpack the corpus again") from None
    if not isinstance(records, list):
        raise UserError(f"{table}: expected a JSON list of records, received {str(records)[:40]!r}")
    return records


CORPUS = Corpus(
    read=read,
    about="296 speakers, sentences on telephones",
    language="zh",
    hours=99,
    size_gb=9.1,
    licence="CC-BY-NC-ND-4.0",
    address="https://www.openslr.org/47/",
    archives=(Archive("https://www.openslr.org/resources/47/primewords_md_2018_set1.tar.gz"),),
    layout=LAYOUT,
)
