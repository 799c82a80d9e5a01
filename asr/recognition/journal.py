"""What has been heard so far, kept on the disk: a transcription that was killed goes on where it stopped.

A journal is JSON Lines. The first line names the model, every other one holds what was heard in a file:

{"asr": "0.1.0", "model": "3f0c..."}
{"file": "a.wav", "stamp": "51244:1762...", "heard": {"text": "ni3 hao3", "score": -1.5, ...}}
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

from asr.base.files import cannot_write
from asr.base.hypothesis_json import hypothesis_as_json, hypothesis_of_json
from asr.base.types import UserError
from asr.base.version import __version__
from asr.recognition.transcripts import STANDARD_INPUT, Result

logger = logging.getLogger(__name__)

SUFFIX = ".unfinished"  # behind the name of the file that the results are for
WHAT = "list of transcripts"


class Row(NamedTuple):
    """One line of a journal."""

    name: str
    stamp: str | None
    result: Result


class Journal:
    """The results of the first `num_rows` of some files; `open_journal` makes one.

    What an older journal in its place holds is kept as far as the same model heard it in the same files.

    Args:
        file: to read and to append to.
        path: of it.
        model: see `model_digest`.
        sources: the files to hear, in order.

    Attributes:
        reason: why not all rows of the older journal are kept, if so.
    """

    def __init__(self, file: BinaryIO, path: Path, model: str, sources: Sequence[Path]) -> None:
        self.path, self._file, self._sources = path, file, sources
        # taken before any file is read: one that changes from now on does not match the next time
        self._stamps = [_stamp(source) for source in sources]
        self._header = json.dumps({"asr": __version__, "model": model}).encode() + b"\n"
        self._ends = [len(self._header)]  # of the lines
        self._failed: list[bool] = []
        self.reason = self._read()

    @property
    def num_rows(self) -> int:
        """How many results it holds."""
        return len(self._failed)

    @property
    def num_failed(self) -> int:
        """How many of them are errors."""
        return sum(self._failed)

    def left_of(self, chunks: Sequence[list[Path]]) -> Sequence[list[Path]]:
        """The chunks still to be heard.

        Rows of a chunk that is not all there are dropped: heard again as a whole, it gives the same scores
        as without an interruption.
        """
        ends = [0, *itertools.accumulate(map(len, chunks))]
        num_done = bisect.bisect_right(ends, self.num_rows) - 1
        self._cut(ends[num_done])
        return chunks[num_done:]

    def add(self, results: Sequence[Result]) -> None:
        """Write the results of the next files, at once.

        Raises:
            UserError: they cannot be written.
        """
        places = range(self.num_rows, self.num_rows + len(results))
        lines = [self._line(place, result) for place, result in zip(places, results, strict=True)]
        self._write(b"".join(lines))
        for line, result in zip(lines, results, strict=True):
            self._count(line, result)

    def results(self) -> Iterator[Result]:
        """All results, read back."""
        with self.path.open("rb") as file:
            for line in itertools.islice(file, 1, 1 + self.num_rows):
                row = _parsed(line)
                assert row, line
                yield row.result

    def _read(self) -> str:
        """Keep what holds of the file; returns the reason if that is not all."""
        reason = ""
        self._file.seek(0)
        header = self._file.readline()
        if header != self._header:
            self._file.truncate(0)
            self._write(self._header)
            return "heard by another model or version" if header else ""
        for line in self._file:
            row = _parsed(line)
            if row is None or self.num_rows == len(self._sources):
                break
            source, stamp = self._sources[self.num_rows], self._stamps[self.num_rows]
            if row.name != str(source) or row.stamp is None or row.stamp != stamp:
                reason = f"from {source} on, the recordings are not those of then"
                break
            self._count(line, row.result)
        self._cut(self.num_rows)
        return reason

    def _count(self, line: bytes, result: Result) -> None:
        self._ends.append(self._ends[-1] + len(line))
        self._failed.append(isinstance(result, UserError))

    def _cut(self, num_rows: int) -> None:
        del self._ends[num_rows + 1 :], self._failed[num_rows:]
        self._file.truncate(self._ends[-1])

    def _line(self, place: int, result: Result) -> bytes:
        record: dict[str, object] = {"file": str(self._sources[place]), "stamp": self._stamps[place]}
        if isinstance(result, UserError):
            record["error"] = str(result)
        else:
            record["heard"] = hypothesis_as_json(result)
        return json.dumps(record).encode() + b"\n"

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise cannot_write(self.path, WHAT, error) from None


@contextlib.contextmanager
def open_journal(out: Path, model: str, sources: Sequence[Path]) -> Iterator[Journal]:
    """The journal of a file of results, beside it; removed when all went well, else kept and told of.

    Raises:
        UserError: it cannot be written, or another process is writing it.
    """
    path = out.with_name(out.name + SUFFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise cannot_write(out, WHAT, error) from None
    try:
        _lock(file, path)
        journal = Journal(file, path, model, sources)
        try:
            yield journal
        except BaseException:
            if journal.num_rows:
                logger.info(
                    "%s: %s of %s recordings are kept; give the same command again to go on",
                    path,
                    f"{journal.num_rows:,}",
                    f"{len(sources):,}",
                )
            else:
                path.unlink(missing_ok=True)
            raise
        path.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):  # of a full disk, told before
            file.close()


def model_digest(files: Sequence[Path], settings: str = "") -> str:
    """A checksum over the content of the files that make up a model, and over how it is used."""
    total = hashlib.sha256(settings.encode())
    for path in files:
        with contextlib.suppress(OSError), path.open("rb") as file:  # loading it will tell why
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _stamp(source: Path) -> str | None:
    """Tells a file from a later one of its name; None for what cannot be read twice, such as a pipe."""
    if str(source) == STANDARD_INPUT:
        return None
    try:
        status = source.stat()
    except (OSError, ValueError):
        return "missing"
    return f"{status.st_size}:{status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else None


def _parsed(line: bytes) -> Row | None:
    """A line's row; None of one that was cut off."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
        if "error" in record:
            result: Result = UserError(record["error"])
        else:
            result = hypothesis_of_json(record["file"], record["heard"])
        return Row(record["file"], record["stamp"], result)
    except (ValueError, KeyError, TypeError):
        return None


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other processes off until the file is closed, where the system knows such locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{path}: another `asr transcribe` is writing here; wait for it, or name another file"
        ) from None
    except (ImportError, OSError):
        return
