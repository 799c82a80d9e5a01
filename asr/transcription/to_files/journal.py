"""Keeps the transcripts made so far on disk, so that an interrupted transcription resumes where it stopped.

A journal is JSON Lines. The first line names the model, every other one holds the result of a file: what is
recognized of it (see `asr.transcription.transcript_json`) or its error.

{"asr": "0.1.0", "model": "3f0c..."}
{"file": "b.wav", "stamp": "0:1762...", "error": "b.wav: empty file; copy or record it again"}
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import json
import logging
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from asr.base.errors import UserError
from asr.base.system.files import cannot_write, sha256_of
from asr.base.system.lock import lock_file
from asr.base.text.wording import counted
from asr.base.version import __version__
from asr.transcription.files import STANDARD_INPUT
from asr.transcription.transcript import Transcript
from asr.transcription.transcript_json import transcript_as_json, transcript_from_json

logger = logging.getLogger(__name__)

SUFFIX = ".unfinished"  # appended to the name of the file of results
FILE_KIND = "list of transcripts"


class JournalRow(NamedTuple):
    """One line of a journal."""

    name: str
    stamp: str | None
    result: Transcript | UserError


class Journal:
    """The stored results of the first `num_rows` of a list of files; use `open_journal` to open one.

    Rows of an existing journal are kept as long as they are of the same model and the same files.

    Args:
        file: to read and to append to.
        path: of the file.
        model: see `model_digest`.
        sources: the files to transcribe, in order.

    Attributes:
        path: of the file.
        model: see `model_digest`.
        reason: why rows of the existing journal were dropped; empty if none were.
    """

    def __init__(self, file: BinaryIO, path: Path, model: str, sources: Sequence[Path]) -> None:
        self.path, self.model, self._file, self._sources = path, model, file, sources
        # taken before any file is read, so that a file that changes later does not match the next time
        self._stamps = [stamp_of(source) for source in sources]
        self._header = header_of(model)
        self._ends = [len(self._header)]  # byte offset after each line
        self._failed: list[bool] = []
        self.reason = self._read()

    @property
    def num_rows(self) -> int:
        """Return the number of results in the journal."""
        return len(self._failed)

    @property
    def num_failed(self) -> int:
        """Return the number of results that are errors."""
        return sum(self._failed)

    def remaining_chunks(self, chunks: Sequence[list[Path]]) -> Sequence[list[Path]]:
        """Return the chunks that remain to be transcribed.

        Rows of an incomplete chunk are dropped: scores depend on what shares a batch, and transcribing the
        whole chunk again gives the scores of an uninterrupted run.
        """
        ends = [0, *itertools.accumulate(map(len, chunks))]
        num_done = bisect.bisect_right(ends, self.num_rows) - 1
        self._truncate(ends[num_done])
        return chunks[num_done:]

    def add(self, results: Sequence[Transcript | UserError]) -> None:
        """Append the results of the next files and flush them to disk.

        Raises:
            UserError: the journal cannot be written.
        """
        indices = range(self.num_rows, self.num_rows + len(results))
        lines = [self._line(index, result) for index, result in zip(indices, results, strict=True)]
        self._write(b"".join(lines))
        for line, result in zip(lines, results, strict=True):
            self._count(line, result)

    def results(self) -> Iterator[Transcript | UserError]:
        """Yield all results, read from the journal."""
        with self.path.open("rb") as file:
            for line in itertools.islice(file, 1, 1 + self.num_rows):
                row = _parse_row(line)
                assert row, line
                yield row.result

    def _read(self) -> str:
        """Keep the rows that are still valid, and return why others were dropped."""
        reason = ""
        self._file.seek(0)
        header = self._file.readline()
        if header != self._header:
            self._file.truncate(0)
            self._write(self._header)
            return "transcribed by another model or version" if header else ""
        for line in self._file:
            row = _parse_row(line)
            if row is None or self.num_rows == len(self._sources):
                break
            source, stamp = self._sources[self.num_rows], self._stamps[self.num_rows]
            if row.name != str(source) or row.stamp is None or row.stamp != stamp:
                reason = f"the recordings have changed, from {source} on"
                break
            self._count(line, row.result)
        self._truncate(self.num_rows)
        return reason

    def _count(self, line: bytes, result: Transcript | UserError) -> None:
        self._ends.append(self._ends[-1] + len(line))
        self._failed.append(isinstance(result, UserError))

    def _truncate(self, num_rows: int) -> None:
        del self._ends[num_rows + 1 :], self._failed[num_rows:]
        self._file.truncate(self._ends[-1])

    def _line(self, index: int, result: Transcript | UserError) -> bytes:
        record: dict[str, object] = {"file": str(self._sources[index]), "stamp": self._stamps[index]}
        if isinstance(result, UserError):
            record["error"] = str(result)
        else:
            record |= transcript_as_json(result)
        return json.dumps(record).encode() + b"\n"

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise cannot_write(self.path, FILE_KIND, error) from None


@contextlib.contextmanager
def open_journal(out: Path, model: str, sources: Sequence[Path]) -> Iterator[Journal]:
    """Open the journal beside a file of results; it is removed on success, and kept and logged on failure.

    Raises:
        UserError: the journal cannot be written, or another process is writing it.
    """
    path = journal_path(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise cannot_write(out, FILE_KIND, error) from None
    try:
        if not lock_file(file):
            raise UserError(
                f"{path}: another `asr transcribe` or `asr label` is writing this file; wait for it, or "
                "choose another file"
            )
        journal = Journal(file, path, model, sources)
        try:
            yield journal
        except BaseException:
            if journal.num_rows:
                logger.info(
                    "%s: transcripts of %s of %s are kept; run the same command again to resume",
                    path,
                    f"{journal.num_rows:,}",
                    counted(len(sources), "recording"),
                )
            else:
                path.unlink(missing_ok=True)
            raise
        path.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):  # a full disk, which was reported when writing
            file.close()


def read_journal(path: Path) -> tuple[bytes, dict[str, str | None]]:
    """Return the header of a journal, and the stamp of each recording by its name; nothing without one."""
    try:
        with path.open("rb") as file:
            return file.readline(), {row.name: row.stamp for line in file if (row := _parse_row(line))}
    except OSError:
        return b"", {}


def model_in(header: bytes) -> str:
    """Return the model that the first line of a journal names; "" if it names none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(header)["model"])
    return ""


def header_of(model: str) -> bytes:
    """Return the first line of a journal of a model; see `model_digest`."""
    return json.dumps({"asr": __version__, "model": model}).encode() + b"\n"


def journal_path(out: Path) -> Path:
    """Return the path of the journal beside a file of results."""
    return out.with_name(out.name + SUFFIX)


def model_digest(files: Sequence[Path], settings: str = "") -> str:
    """Return a checksum of the contents of a model's files and of its decoder's settings."""
    total = hashlib.sha256(settings.encode())
    for path in files:
        with contextlib.suppress(OSError):  # loading it reports why
            total.update(sha256_of(path))
    return total.hexdigest()


def stamp_of(source: Path) -> str | None:
    """Return size and time of a file, to detect changes; None if it can be read only once, as a pipe."""
    if str(source) == STANDARD_INPUT:
        return None
    try:
        status = source.stat()
    except (OSError, ValueError):
        return "missing"
    return f"{status.st_size}:{status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else None


def _parse_row(line: bytes) -> JournalRow | None:
    """Return the row of a line; None if the line is incomplete or damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
        if "error" in record:
            result: Transcript | UserError = UserError(record["error"])
        else:
            result = transcript_from_json(record)
        return JournalRow(record["file"], record["stamp"], result)
    except (ValueError, KeyError, TypeError):
        return None
