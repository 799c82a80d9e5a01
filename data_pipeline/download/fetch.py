"""Files over HTTP: continued after an interruption, compared with their checksum, whole or not there.

What has come stands in `NAME.part`, and in `NAME.part.json` what the server says of the file, so that only
the same file is continued. `NAME` itself is complete, and correct where a checksum is published.
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

from asr.base.files import cannot_write, whole_file
from asr.base.types import UserError
from asr.base.wording import file_size
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.archives.entries import CHUNK_BYTES
from data_pipeline.download.server import (
    OPENSLR_HOSTS,
    Answer,
    Origin,
    TryAgainError,
    ask,
    loss,
    other_servers,
)
from data_pipeline.types import Archive

logger = logging.getLogger(__name__)

FIRST_TRIES = 3  # where no connection was ever made, more are of little use


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server.

    Attributes:
        timeout_s: of silence, after which a connection counts as lost.
        first_wait_s: before the second try; each wait is twice the one before.
        longest_wait_s: where that doubling ends.
        longest_asked_s: how long a server may ask to wait (Retry-After).
        tries: how many in a row may bring nothing new.
    """

    timeout_s: float = 60.0
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    longest_asked_s: float = 600.0
    tries: int = 8


PATIENCE = Patience()


def fetch(
    archive: Archive, folder: Path, patience: Patience = PATIENCE, on_progress: OnProgress = ignore_progress
) -> Path:
    """Fetch a file, or as much as is missing of it.

    Args:
        archive: where it is, and its checksum.
        folder: where it goes, made where missing; a file that is there is compared with the checksum.
        patience: with the server.
        on_progress: receives how many bytes have come, and then how many are compared with the checksum.

    Returns:
        The path of the file.

    Raises:
        UserError: it is not to be had, cannot be stored, or is not what was published. What has come is
            kept, and a file with a wrong checksum moved aside.
    """
    target = folder / file_name(archive)
    path = target.with_name(target.name + ".part")
    try:
        if target.exists():
            _check_md5(target, archive, on_progress)
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            part = _Part(archive, file, on_progress)
            _receive_patiently(part, patience)
            os.fsync(file.fileno())
        _check_md5(path, archive, on_progress)
        path.replace(target)
        part.note_path.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, "file", error) from None
    return target


def file_name(archive: Archive) -> str:
    """What an archive is called on the disk."""
    return urllib.parse.unquote(urllib.parse.urlsplit(archive.url).path.rpartition("/")[2])


def at_mirror(archive: Archive, mirror: str) -> Archive:
    """The same file on another server, which keeps it under the same path.

    Args:
        archive: as published.
        mirror: a host, such as openslr.elda.org, or an address to put before the path.
    """
    if not re.fullmatch(r"(https?://)?[\w.-]+(:\d+)?(/[\w./~-]*)?", mirror):
        raise UserError(f"`mirror`: expected a host such as {OPENSLR_HOSTS[1]}, received {mirror!r}")
    base = mirror if "://" in mirror else f"https://{mirror}"
    return Archive(base.rstrip("/") + urllib.parse.urlsplit(archive.url).path, archive.md5)


class _Part:
    """The part of a file that has come so far, and what the server said the whole is.

    Args:
        archive: that is fetched.
        file: opened for appending.
        on_progress: receives how many bytes have come.
    """

    def __init__(self, archive: Archive, file: BinaryIO, on_progress: OnProgress) -> None:
        self.archive = archive
        self.path = Path(file.name)
        self.note_path = self.path.with_name(self.path.name + ".json")
        self._file, self._on_progress = file, on_progress

    @property
    def num_bytes(self) -> int:
        """Return how many have come."""
        return self._file.tell()

    def append(self, data: bytes, total: int | None) -> None:
        """Write what has come, and report it; a killed process loses nothing."""
        self._file.write(data)
        self._file.flush()
        self.report(total)

    def report(self, total: int | None) -> None:
        """Report how much of a total has come."""
        self._on_progress(Work(file_name(self.archive), self.num_bytes, total, "bytes"))

    def start_again(self, reason: str) -> None:
        """Forget what has come."""
        logger.warning(
            "%s: %s; starting from the beginning (%s had come)",
            file_name(self.archive),
            reason,
            file_size(self.num_bytes),
        )
        self._file.truncate(0)
        self._file.seek(0)

    def note(self, origin: Origin) -> None:
        """Write down what the part is of."""
        with whole_file(self.note_path, "note") as file:
            file.write(json.dumps(asdict(origin)).encode())

    def known_origin(self) -> Origin | None:
        """What it is of; None where continuing it could mix two files, and no checksum would show it."""
        try:
            origin = Origin(**json.loads(self.note_path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        unchanged = origin.url == self.archive.url and origin.validator
        return origin if self.archive.md5 or unchanged else None


def _receive_patiently(part: _Part, patience: Patience) -> None:
    """Try until all has come, for as long as tries bring something new."""
    url = part.archive.url
    furthest, failures, connected = part.num_bytes, 0, False
    while True:
        try:
            return _receive(part, patience.timeout_s)
        except TryAgainError as error:
            failure = error
        failures = 0 if part.num_bytes > furthest else failures + 1
        furthest = max(furthest, part.num_bytes)
        connected |= failure.connected
        allowed = patience.tries if connected else min(patience.tries, FIRST_TRIES)
        wait_s = min(patience.first_wait_s * 2 ** max(failures - 1, 0), patience.longest_wait_s)
        wait_s = max(wait_s, failure.asked_s)
        come = file_size(part.num_bytes)
        if failures >= allowed or failure.asked_s > patience.longest_asked_s:
            later = f" and asks to come back in {failure.asked_s:.0f} s" if failure.asked_s else ""
            raise UserError(
                f"{url}: {failure}{later}; tries without anything new: {failures}. What has come "
                f"({come}) is kept, the same command resumes it{other_servers(url)}"
            )
        logger.warning(
            "%s: %s, at %s; the next try is in %.3g s", file_name(part.archive), failure, come, wait_s
        )
        time.sleep(wait_s)


def _receive(part: _Part, timeout_s: float) -> None:
    """One try: ask for what is missing, and write what comes."""
    known, url = part.known_origin(), part.archive.url
    if part.num_bytes and known is None:
        part.start_again("nothing shows whether the server still has the same file")
    if known and known.num_bytes and known.num_bytes == part.num_bytes:
        return
    validator = known.validator if known and known.url == url else ""
    answer = ask(url, part.num_bytes, validator, timeout_s)
    if answer is None:
        part.start_again("the server's file is shorter")
        raise TryAgainError("the server cannot continue the file")
    with answer.response:
        _fit(part, answer, known)
        num_bytes = answer.origin.num_bytes
        if num_bytes is None and known and part.num_bytes:
            num_bytes = known.num_bytes
        part.report(num_bytes)
        _check_space(part.path, (num_bytes or 0) - part.num_bytes)
        _copy(answer.response, part, num_bytes)
    if num_bytes is not None and part.num_bytes != num_bytes:
        raise TryAgainError("the connection was cut")


def _fit(part: _Part, answer: Answer, known: Origin | None) -> None:
    """Bring the part to where the answer begins; note what it is a part of."""
    same = known is None or answer.origin.may_be(known)
    if part.num_bytes and (answer.offset != part.num_bytes or not same):
        part.start_again(
            "the server cannot continue it from there" if same else "the server's file has changed"
        )
    if answer.offset != part.num_bytes:
        raise TryAgainError("the server's answer begins at another byte than asked for")
    if not part.num_bytes:
        part.note(answer.origin)


def _copy(response: http.client.HTTPResponse, part: _Part, total: int | None) -> None:
    while True:
        try:
            data = response.read1(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise TryAgainError(loss(error)) from None
        if not data:
            return
        part.append(data, total)


def _check_space(part: Path, missing: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if missing > free:
        raise UserError(
            f"{part.parent}: {file_size(missing)} of {part.stem} are to come, {file_size(free)} are free; "
            "free space there, or choose another place"
        )


def _check_md5(path: Path, archive: Archive, on_progress: OnProgress) -> None:
    if not archive.md5:
        return
    digest = hashlib.md5(usedforsecurity=False)
    task, num_bytes = f"checking {file_name(archive)}", path.stat().st_size
    with path.open("rb") as file:
        while data := file.read(CHUNK_BYTES):
            digest.update(data)
            on_progress(Work(task, file.tell(), num_bytes, "bytes"))
    if digest.hexdigest() == archive.md5.lower():
        return
    aside = path.with_name(f"{file_name(archive)}.wrong")
    path.replace(aside)
    raise UserError(
        f"{path}: expected the MD5 {archive.md5.lower()} as published, received {digest.hexdigest()}; it is "
        f"called {aside.name} now, remove it. The same command fetches the file again"
        f"{other_servers(archive.url)}"
    )
