"""Files over HTTP: continued after an interruption, compared with their checksum, whole or not there.

What has come stands in `NAME.part`, and in `NAME.part.json` what the server says of the file, so that only
the same file is continued. `NAME` itself is complete, and correct where a checksum is published.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import sys
import time
import urllib.parse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from asr.base.files import cannot_write, whole_file
from asr.base.types import UserError
from data_pipeline.download.byte_bar import CHUNK_BYTES, Bar, byte_bar, size_text
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


def fetch(archive: Archive, folder: Path, patience: Patience = PATIENCE) -> Path:
    """Fetch a file, or as much as is missing of it.

    Args:
        archive: where it is, and its checksum.
        folder: where it goes, made where missing; a file that is there is compared with the checksum.
        patience: with the server.

    Returns:
        The path of the file.

    Raises:
        UserError: it is not to be had, cannot be stored, or is not what was published. What has come is
            kept, and a file with a wrong checksum moved aside.
    """
    target = folder / file_name(archive)
    part = target.with_name(target.name + ".part")
    try:
        if target.exists():
            _check_md5(target, archive)
            return target
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file, byte_bar(target.name, file.tell()) as bar:
            _receive_patiently(archive, file, bar, patience)
            os.fsync(file.fileno())
        _check_md5(part, archive)
        part.replace(target)
        _note_path(part).unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(part, "file", error) from None
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
        raise UserError(f"--mirror: expected a host such as {OPENSLR_HOSTS[1]}, received {mirror!r}")
    base = mirror if "://" in mirror else f"https://{mirror}"
    return Archive(base.rstrip("/") + urllib.parse.urlsplit(archive.url).path, archive.md5)


def _receive_patiently(archive: Archive, file: BinaryIO, bar: Bar, patience: Patience) -> None:
    """Try until all has come, for as long as tries bring something new."""
    furthest, failures, connected = file.tell(), 0, False
    while True:
        try:
            return _receive(archive, file, bar, patience.timeout_s)
        except TryAgainError as error:
            failure = error
        failures = 0 if file.tell() > furthest else failures + 1
        furthest = max(furthest, file.tell())
        connected |= failure.connected
        allowed = patience.tries if connected else min(patience.tries, FIRST_TRIES)
        wait_s = min(patience.first_wait_s * 2 ** max(failures - 1, 0), patience.longest_wait_s)
        wait_s = max(wait_s, failure.asked_s)
        if failures >= allowed or failure.asked_s > patience.longest_asked_s:
            later = f" and asks to come back in {failure.asked_s:.0f} s" if failure.asked_s else ""
            raise UserError(
                f"{archive.url}: {failure}{later}; tries without anything new: {failures}. What has come "
                f"({size_text(file.tell())}) is kept, the same command goes on with it"
                f"{other_servers(archive.url)}"
            )
        _tell(f"{bar.desc}: {failure}, at {size_text(file.tell())}; the next try is in {wait_s:.3g} s")
        time.sleep(wait_s)


def _receive(archive: Archive, file: BinaryIO, bar: Bar, timeout_s: float) -> None:
    """One try: ask for what is missing, and write what comes."""
    known = _known_origin(file, archive)
    if file.tell() and known is None:
        _begin_anew(file, bar, "nothing tells whether the server still has the same file")
    if known and known.num_bytes and known.num_bytes == file.tell():
        return
    same_server = known is not None and known.url == archive.url
    answer = ask(archive.url, file.tell(), known.validator if known and same_server else "", timeout_s)
    if answer is None:
        _begin_anew(file, bar, "the server's file is shorter")
        raise TryAgainError("the server cannot continue the file")
    with answer.response:
        _fit(answer, known, file, bar)
        num_bytes = answer.origin.num_bytes
        if num_bytes is None and known and file.tell():
            num_bytes = known.num_bytes
        bar.total = num_bytes
        bar.refresh()
        _check_space(Path(file.name), (num_bytes or 0) - file.tell())
        _copy(answer.response, file, bar)
    if num_bytes is not None and file.tell() != num_bytes:
        raise TryAgainError("the connection was cut")


def _fit(answer: Answer, known: Origin | None, file: BinaryIO, bar: Bar) -> None:
    """Bring the part to where the answer begins; note what it is a part of."""
    same = known is None or answer.origin.may_be(known)
    if file.tell() and (answer.offset != file.tell() or not same):
        _begin_anew(
            file, bar, "the server cannot go on from there" if same else "the server's file has changed"
        )
    if answer.offset != file.tell():
        raise TryAgainError("the server's answer begins at another byte than asked for")
    if not file.tell():
        with whole_file(_note_path(Path(file.name)), "note") as note:
            note.write(json.dumps(asdict(answer.origin)).encode())


def _copy(response: http.client.HTTPResponse, file: BinaryIO, bar: Bar) -> None:
    while True:
        try:
            data = response.read1(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise TryAgainError(loss(error)) from None
        if not data:
            return
        file.write(data)
        file.flush()  # a killed process loses nothing
        bar.update(len(data))


def _note_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _known_origin(file: BinaryIO, archive: Archive) -> Origin | None:
    """What the part is of; None where continuing it could mix two files, and no checksum would tell."""
    try:
        origin = Origin(**json.loads(_note_path(Path(file.name)).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    unchanged = origin.url == archive.url and origin.validator
    return origin if archive.md5 or unchanged else None


def _begin_anew(file: BinaryIO, bar: Bar, why: str) -> None:
    _tell(f"{bar.desc}: {why}; beginning anew ({size_text(file.tell())} had come)")
    file.truncate(0)
    file.seek(0)
    bar.initial = 0  # what the rate is counted from
    bar.reset()


def _check_space(part: Path, missing: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if missing > free:
        raise UserError(
            f"{part.parent}: {size_text(missing)} of {part.stem} are to come, {size_text(free)} are free; "
            "free space there, or choose another place"
        )


def _check_md5(path: Path, archive: Archive) -> None:
    if not archive.md5:
        return
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file, byte_bar(f"checking {file_name(archive)}", 0, path.stat().st_size) as bar:
        while data := file.read(CHUNK_BYTES):
            digest.update(data)
            bar.update(len(data))
    if digest.hexdigest() == archive.md5.lower():
        return
    aside = path.with_name(f"{file_name(archive)}.wrong")
    path.replace(aside)
    raise UserError(
        f"{path}: expected the MD5 {archive.md5.lower()} as published, received {digest.hexdigest()}; it is "
        f"called {aside.name} now, remove it. The same command fetches the file anew"
        f"{other_servers(archive.url)}"
    )


def _tell(message: str) -> None:
    tqdm.write(message, file=sys.stderr)
