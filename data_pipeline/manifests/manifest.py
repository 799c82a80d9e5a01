"""Read and write manifests: one utterance per line, as JSON.

    {"id": "a-1", "audio": "audio/a-1.wav", "duration_s": 1.595, "text": "你好", "tokens": "ni3 hao3",
     "speaker": "a"}

A corpus may be in several files, its shards, named together by wildcards: `train-*.jsonl`. They are read in
the order of their names; ids are unique over all of them. A file whose name ends in `.gz` is compressed.

`audio` is relative to the manifest's folder, or absolute, or an address such as s3://bucket/a-1.wav; so may
the manifest be at an address. `tokens` are separated by spaces; `text`, `speaker`
and `corpus`, which only joint manifests have, may be missing. In manifests of `asr label`, `labelled_by`
describes the model that made text and tokens; see `asr.base.types.MachineLabel`.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import itertools
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from asr.base.errors import UserError
from asr.base.system.files import whole_file
from asr.base.system.paths import path_on_disk
from asr.base.system.shards import is_compressed, open_shard, shards_of
from asr.base.system.storage.address import is_address, path_of
from asr.base.text.encodings import LEGACY, legacy_encoding
from asr.base.text.wording import listed
from asr.base.types import Utterance
from data_pipeline.manifests.columns import GrowingColumns
from data_pipeline.manifests.lines import Lines
from data_pipeline.manifests.record import Record, checked_record, folder_prefix, line_of
from data_pipeline.manifests.utterances import Source, Utterances

NUM_ERRORS = 20  # of broken lines in one message; `asr doctor` lists all


@dataclass(frozen=True)
class Scan:
    """The utterances of a manifest and the errors in its broken lines.

    Attributes:
        utterances: of the valid lines.
        numbers: of these lines, from 1.
        broken: the error of each line without a valid utterance, by line number.
        has_byte_order_mark: whether the file begins with one, which is not part of the first line.
    """

    utterances: Utterances
    numbers: Sequence[int]
    broken: Mapping[int, str]
    has_byte_order_mark: bool


def write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest, with audio paths relative to its folder if they are below it; `.gz` is compressed.

    The file appears complete or not at all.
    """
    folder = path.parent.resolve()
    with whole_file(path, "manifest") as file, _compressed(file, path) as lines:
        for utterance in utterances:
            lines.write(line_of(utterance, folder))


def _compressed(file: BinaryIO, path: Path) -> contextlib.AbstractContextManager[BinaryIO]:
    """Return a file to write a manifest to: the same bytes in every run, without name and time."""
    if not is_compressed(path):
        return contextlib.nullcontext(file)
    return cast(BinaryIO, gzip.GzipFile("", "wb", fileobj=file, mtime=0))


def holds_utterances(path: Path, utterances: Iterable[Utterance]) -> bool:
    """Return whether a file is what `write_manifest` would write; a file that cannot be read is not."""
    folder = path.parent.resolve()
    try:
        with open_shard(path) as file:
            both = itertools.zip_longest(file, (line_of(utterance, folder) for utterance in utterances))
            return all(line == expected for line, expected in both)
    except (OSError, UserError):
        return False


def read_manifest(path: Path) -> Utterances:
    """Read a manifest, or the shards of one; audio paths are relative to the current folder, or absolute.

    The utterances stay as they are now, whatever becomes of the files.

    Args:
        path: of a file, or with wildcards that stand for several.

    Raises:
        UserError: a file is missing or empty, a line is not a valid record, or an id appears twice.
    """
    places = _Places(shards_of(path), array("q", [0]), array("q"))
    growing = _GrowingUtterances()
    errors = []
    for shard in places.shards:
        for line in _lines_of(_on_disk(shard)):
            if line.record is None:
                errors.append(f"{shard}:{line.number}: {line.error}")
            elif not errors:
                growing.append(line.record, line.content)
                places.numbers.append(line.number)
        if not errors and places.begins[-1] == len(places.numbers):
            raise UserError(f"{shard}: no utterances in this manifest; prepare the corpus again")
        places.begins.append(len(places.numbers))
    if errors:
        raise UserError(listed(errors, NUM_ERRORS, separator="\n"))
    utterances = growing.utterances(_on_disk(places.shards[0]).parent)  # all shards are in one folder
    _refuse_duplicates(utterances, places)
    return utterances


def _on_disk(path: Path) -> Path:
    return path_of(path_on_disk(str(path_of(path))))


class _GrowingUtterances:
    """The utterances of valid lines."""

    def __init__(self) -> None:
        self._lines, self._columns, self._name_addresses = Lines(), GrowingColumns(), False

    def append(self, record: Record, line: bytes) -> None:
        """Add the utterance of a line."""
        tokens, corpus = record["tokens"].split(), record.get("corpus") or ""
        by_machine = record.get("labelled_by") is not None
        self._columns.append(record["id"], record["duration_s"], tokens, corpus, by_machine)
        self._lines.append(line)
        self._name_addresses |= "://" in record["audio"]

    def utterances(self, folder: Path) -> Utterances:
        """Return the utterances, whose audio paths are relative to a folder."""
        self._lines.finish()
        prefix = folder_prefix(folder)
        source = Source(self._lines, prefix, self._name_addresses or is_address(prefix))
        return Utterances([source], np.arange(len(self._lines)), self._columns.columns())


class _Places(NamedTuple):
    """Where utterances are from: the shards, the first utterance of each, and the lines' numbers."""

    shards: Sequence[Path]
    begins: array[int]
    numbers: array[int]

    def shard_of(self, index: int) -> Path:
        return self.shards[bisect_right(self.begins, index) - 1]


def _refuse_duplicates(utterances: Utterances, places: _Places) -> None:
    """Raise a UserError for the first line whose id an earlier line has."""
    keys = utterances.columns.keys
    ordered = np.sort(keys)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    seen: dict[str, int] = {}
    for index in np.flatnonzero(np.isin(keys, repeated)).tolist() if len(repeated) else ():
        name = utterances[index].id  # two ids may, once in many thousand corpora, have the same key
        if name in seen:
            first, second = places.shard_of(seen[name]), places.shard_of(index)
            numbers = places.numbers[seen[name]], places.numbers[index]
            where = f" in lines {numbers[0]} and {numbers[1]}"
            if first != second:
                where = f" in line {numbers[1]} and in {first}:{numbers[0]}"
            raise UserError(f"{second}: duplicate id {name!r}{where}; give each recording a unique id")
        seen[name] = index


def scan_manifest(path: Path) -> Scan:
    """Read the valid lines of a manifest of one file, and report the errors of the others.

    Only line feeds (and carriage returns before them) end a line: a transcript may hold other line breaks.

    Raises:
        UserError: the file cannot be read.
    """
    growing, numbers = _GrowingUtterances(), array("q")
    broken: dict[int, str] = {}
    marked = False
    path = _on_disk(path)
    for line in _lines_of(path):
        marked |= line.has_byte_order_mark
        if line.record is None:
            broken[line.number] = line.error
        else:
            growing.append(line.record, line.content)
            numbers.append(line.number)
    return Scan(growing.utterances(path.parent), numbers, broken, marked)


class _Line(NamedTuple):
    """A line that is not empty: its record, or the error in it."""

    number: int
    content: bytes
    record: Record | None = None
    error: str = ""
    has_byte_order_mark: bool = False


def _lines_of(path: Path) -> Iterator[_Line]:
    if path.is_fifo() and path.parent.name != "fd":  # a shell's <(...) is /dev/fd/63, and has a writer
        raise UserError(f"{path}: expected a manifest, received a pipe; save its data to a file")
    try:
        with open_shard(path) as file:
            marked = False
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    yield _Line(1, b"", error="expected UTF-8, found UTF-16; save this file as UTF-8")
                    return
                if number == 1 and line.startswith(codecs.BOM_UTF8):
                    marked, line = True, line.removeprefix(codecs.BOM_UTF8)
                try:
                    text = _decoded(line)
                    if text.strip():
                        record = checked_record(text)
                        yield _Line(number, line.rstrip(b"\r\n"), record, "", marked)
                except UserError as error:
                    yield _Line(number, b"", None, str(error), marked)
    except OSError as error:
        remedy = ""
        if isinstance(error, IsADirectoryError):
            remedy = (
                f"; name the manifests in it, such as {path / 'train.jsonl'}; `asr prepare folder` makes "
                "some of recordings"
            )
        elif isinstance(error, FileNotFoundError):
            remedy = "; name one that `asr prepare` has written"
        raise UserError(f"{path}: cannot read this manifest ({error.strerror}){remedy}") from None


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        legacy = legacy_encoding(line)
    found = f"expected UTF-8, found what looks like {LEGACY[legacy]}" if legacy else "not UTF-8"
    raise UserError(f"{found}; save this file as UTF-8")
