"""Downloads files over HTTP: resumes them after an interruption, and verifies their checksums.

An unfinished download is in `NAME.part`, and the server's description of the file in `NAME.part.json`, so
that only the same file is resumed. `NAME` itself is complete, and correct if a checksum is published; else it
can be read to its end if it is an archive.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import re
import shutil
import time
import urllib.parse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from asr.base.errors import UserError
from asr.base.files import cannot_write, whole_file
from asr.base.wording import file_size
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.download.archives.entries import CHUNK_BYTES, DamagedError
from data_pipeline.download.archives.unpack import check_readable, is_archive
from data_pipeline.download.server import (
    OPENSLR_HOSTS,
    Answer,
    Origin,
    TransientError,
    connection_failure,
    other_servers,
    request_file,
)
from data_pipeline.types import Archive

logger = logging.getLogger(__name__)

MAX_TRIES_TO_CONNECT = 3  # without any connection so far, more tries are of little use


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Sets timeouts and limits of retries.

    Attributes:
        timeout_s: time without data, or with less than `min_bytes`, after which a connection counts as lost.
        min_bytes: that a server has to send in `timeout_s`; less is no progress.
        first_wait_s: wait before the second try; each wait is twice the one before.
        max_wait_s: upper limit of these waits.
        max_retry_after_s: longest wait that a server may request (Retry-After).
        max_tries: number of tries in a row without new data.
    """

    timeout_s: float = 60.0
    min_bytes: int = 1 << 16
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    max_retry_after_s: float = 600.0
    max_tries: int = 8


DEFAULT_RETRIES = RetryPolicy()


def fetch(
    archive: Archive,
    folder: Path,
    retries: RetryPolicy = DEFAULT_RETRIES,
    on_progress: OnProgress = ignore_progress,
) -> Path:
    """Download a file, or the part of it that is missing.

    Args:
        archive: address and checksum of the file.
        folder: folder for the file, created if missing; an existing file is compared with the checksum.
        retries: timeouts and limits of retries.
        on_progress: receives the number of bytes received, and then of bytes verified.

    Returns:
        The path of the file.

    Raises:
        UserError: the file is not available, cannot be stored, differs from its checksum, or is a damaged
            archive. A partial download is kept, and a wrong or damaged file renamed.
    """
    target = folder / file_name(archive)
    path = target.with_name(target.name + ".part")
    try:
        if target.exists():
            _check_content(target, archive, on_progress)
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            part = _Part(archive, file, on_progress)
            _receive_with_retries(part, retries)
            os.fsync(file.fileno())
        _check_content(path, archive, on_progress)
        path.replace(target)
        part.note_path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, "file", error) from None
    return target


def file_name(archive: Archive) -> str:
    """Return the file name of an archive."""
    return urllib.parse.unquote(urllib.parse.urlsplit(archive.url).path.rpartition("/")[2])


def at_mirror(archive: Archive, mirror: str) -> Archive:
    """Return the same file on another server, which has it under the same path.

    Args:
        archive: the published file.
        mirror: a host, such as openslr.elda.org, or an address that precedes the path.
    """
    if not re.fullmatch(r"(https?://)?[\w.-]+(:\d+)?(/[\w./~-]*)?", mirror):
        raise UserError(f"`mirror`: expected a host such as {OPENSLR_HOSTS[1]}, received {mirror!r}")
    base = mirror if "://" in mirror else f"https://{mirror}"
    return Archive(base.rstrip("/") + urllib.parse.urlsplit(archive.url).path, archive.md5)


class _Part:
    """The received part of a file, and the server's description of the whole.

    Args:
        archive: the file to download.
        file: the partial file, opened for appending.
        on_progress: receives the number of bytes received.
    """

    def __init__(self, archive: Archive, file: BinaryIO, on_progress: OnProgress) -> None:
        self.archive = archive
        self.path = Path(file.name)
        self.note_path = self.path.with_name(self.path.name + ".json")
        self._file, self._on_progress = file, on_progress

    @property
    def num_bytes(self) -> int:
        """Return the number of bytes received."""
        return self._file.tell()

    def append(self, data: bytes, total: int | None) -> None:
        """Append and flush data, so that a killed process loses nothing, and report the progress."""
        self._file.write(data)
        self._file.flush()
        self.report(total)

    def report(self, total: int | None) -> None:
        """Report the number of bytes received, of a total if it is known."""
        self._on_progress(Work(file_name(self.archive), self.num_bytes, total, "bytes"))

    def start_again(self, reason: str) -> None:
        """Discard the received data."""
        logger.warning(
            "%s: %s; starting from the beginning (%s discarded)",
            file_name(self.archive),
            reason,
            file_size(self.num_bytes),
        )
        self._file.truncate(0)
        self._file.seek(0)

    def note(self, origin: Origin) -> None:
        """Save the server's description of the whole file."""
        with whole_file(self.note_path, "note") as file:
            file.write(json.dumps(asdict(origin)).encode())

    def known_origin(self) -> Origin | None:
        """Return the saved description; None if resuming could mix two files without being detected."""
        try:
            origin = Origin(**json.loads(self.note_path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        unchanged = origin.url == self.archive.url and origin.validator
        return origin if self.archive.md5 or unchanged else None


def _receive_with_retries(part: _Part, retries: RetryPolicy) -> None:
    """Retry until the file is complete, as long as tries bring new data."""
    url = part.archive.url
    furthest, failures, connected = part.num_bytes, 0, False
    while True:
        try:
            return _receive(part, retries)
        except TransientError as error:
            failure = error
        is_new = part.num_bytes >= furthest + (retries.min_bytes if failure.is_slow else 1)
        failures = 0 if is_new else failures + 1
        furthest = max(furthest, part.num_bytes)
        connected |= failure.connected
        max_tries = retries.max_tries if connected else min(retries.max_tries, MAX_TRIES_TO_CONNECT)
        wait_s = min(retries.first_wait_s * 2 ** max(failures - 1, 0), retries.max_wait_s)
        wait_s = max(wait_s, failure.retry_after_s)
        received = file_size(part.num_bytes)
        if failures >= max_tries or failure.retry_after_s > retries.max_retry_after_s:
            later = f" and requests a wait of {failure.retry_after_s:.0f} s" if failure.retry_after_s else ""
            missing = "more" if failure.is_slow else "new data"
            raise UserError(
                f"{url}: {failure}{later}; {failures} tries without {missing}. The part received so far "
                f"({received}) is kept, the same command resumes it{other_servers(url)}"
            )
        logger.warning(
            "%s: %s after %s; retrying in %.3g s", file_name(part.archive), failure, received, wait_s
        )
        time.sleep(wait_s)


def _receive(part: _Part, retries: RetryPolicy) -> None:
    """Request the missing part once, and append the data received."""
    known, url = part.known_origin(), part.archive.url
    if part.num_bytes and known is None:
        part.start_again("cannot verify that the server still has the same file")
    if known and known.num_bytes and known.num_bytes == part.num_bytes:
        return
    validator = known.validator if known and known.url == url else ""
    answer = request_file(url, part.num_bytes, validator, retries.timeout_s)
    if answer is None:
        part.start_again("the server's file is shorter")
        raise TransientError("the server cannot resume the file")
    with answer.response:
        _align(part, answer, known)
        num_bytes = answer.origin.num_bytes
        if num_bytes is None and known and part.num_bytes:
            num_bytes = known.num_bytes
        part.report(num_bytes)
        _check_space(part.path, (num_bytes or 0) - part.num_bytes)
        _copy(answer.response, part, num_bytes, retries)
    if num_bytes is not None and part.num_bytes != num_bytes:
        raise TransientError("the connection was cut")


def _align(part: _Part, answer: Answer, known: Origin | None) -> None:
    """Discard the part if the answer does not continue it, and save the description of a new file."""
    same = known is None or answer.origin.may_be(known)
    if part.num_bytes and (answer.offset != part.num_bytes or not same):
        part.start_again("the server cannot resume it there" if same else "the server's file has changed")
    if answer.offset != part.num_bytes:
        raise TransientError("the server's answer begins at another byte than requested")
    if not part.num_bytes:
        part.note(answer.origin)


def _copy(response: http.client.HTTPResponse, part: _Part, total: int | None, retries: RetryPolicy) -> None:
    since_s, begin = time.monotonic(), part.num_bytes
    while True:
        try:
            data = response.read1(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise TransientError(connection_failure(error)) from None
        if not data:
            return
        part.append(data, total)
        if time.monotonic() - since_s < retries.timeout_s:
            continue
        if part.num_bytes - begin < retries.min_bytes:  # a byte now and then is no download
            received = file_size(part.num_bytes - begin)
            raise TransientError(f"the server sent {received} in {retries.timeout_s:g} s", is_slow=True)
        since_s, begin = time.monotonic(), part.num_bytes


def _check_space(part: Path, missing: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if missing > free:
        raise UserError(
            f"{part.parent}: needs {file_size(missing)} for {part.stem}, {file_size(free)} are free; "
            "free space there, or choose another folder"
        )


def _check_content(path: Path, archive: Archive, on_progress: OnProgress) -> None:
    """Compare a file with its checksum; without one, read an archive to its end."""
    if archive.md5:
        _check_md5(path, archive, on_progress)
    elif is_archive(Path(file_name(archive))):
        task, num_bytes = f"checking {file_name(archive)}", path.stat().st_size
        try:
            check_readable(path, lambda position: on_progress(Work(task, position, num_bytes, "bytes")))
        except DamagedError as error:
            raise _set_aside(path, archive, f"truncated or damaged ({error})") from None


def _check_md5(path: Path, archive: Archive, on_progress: OnProgress) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    task, num_bytes = f"checking {file_name(archive)}", path.stat().st_size
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            digest.update(data)
            on_progress(Work(task, file.tell(), num_bytes, "bytes"))
    if digest.hexdigest() == archive.md5.lower():
        return
    reason = f"expected the published MD5 {archive.md5.lower()}, received {digest.hexdigest()}"
    raise _set_aside(path, archive, reason)


def _set_aside(path: Path, archive: Archive, reason: str) -> UserError:
    """Rename a file that is not the published one, and return the error to raise."""
    aside = path.with_name(f"{file_name(archive)}.wrong")
    path.replace(aside)
    return UserError(
        f"{path}: {reason}; renamed to {aside.name}, remove it. The same command downloads the file again"
        f"{other_servers(archive.url)}"
    )
