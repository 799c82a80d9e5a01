"""Download a file over HTTP: resumed after an interruption, and compared with its digest.

An unfinished download is `NAME.part`. `NAME.part.note` has its address and the server's tag of the file, by
which only the same file is resumed where no digest is known.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import re
import shutil
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias
from urllib.error import HTTPError, URLError

from asr.base.errors import UserError
from asr.base.system.files import cannot_write
from asr.base.text.wording import file_size
from asr.base.work import OnProgress, Work, ignore_progress

logger = logging.getLogger(__name__)

Answer: TypeAlias = http.client.HTTPResponse | HTTPError

MAX_TRIES_TO_CONNECT = 3  # where the server never answered, more are of little use
MAX_WAIT_S = 600.0  # that a server may request (Retry-After)
CHUNK_BYTES = 1 << 20
OUT_OF_RANGE = 416
TRANSIENT_STATUSES = (408, 425, 429)  # besides 500 and above
STATUS_HINTS = {401: "login required", 404: "there is no such file", 410: "the file was removed"}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeouts and limits of retries.

    Attributes:
        timeout_s: time without data, or with less than `min_bytes`, after which a connection counts as lost.
        min_bytes: that a server has to send in `timeout_s`; less is no progress.
        first_wait_s: wait before the second try; each wait is twice the one before.
        max_tries: number of tries in a row without new data.
    """

    timeout_s: float = 60.0
    min_bytes: int = 1 << 16
    first_wait_s: float = 1.0
    max_tries: int = 8


DEFAULT_RETRIES = RetryPolicy()


class NoRoomError(UserError):
    """The error of files that need more space than is free."""


def require_room(folder: Path, num_bytes: float, what: str) -> None:
    """Raise a NoRoomError if the disk of a folder has less free space."""
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise NoRoomError(
            f"{what}: needs {file_size(num_bytes)}, {file_size(free)} are free; free space there, or choose "
            "another folder"
        )


class _TransientError(Exception):
    """A failure that may not occur again in another try."""

    def __init__(
        self, reason: str, *, wait_s: float = 0, is_slow: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait_s, self.is_slow, self.unreachable = wait_s, is_slow, unreachable


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file on a server.

    Attributes:
        url: of the file.
        algorithm: of the digest: "md5" or "sha256".
        digest: as published, in hexadecimal; empty if none is published.
        hint: a remedy, the end of every error.
        max_bytes: size above which it is refused; 0 for any.
    """

    url: str
    algorithm: str = "sha256"
    digest: str = ""
    hint: str = ""
    max_bytes: int = 0


def download(
    file: PublishedFile,
    target: Path,
    retries: RetryPolicy = DEFAULT_RETRIES,
    on_progress: OnProgress = ignore_progress,
) -> Path:
    """Download a file, or the part of it that is missing, and return its path.

    Args:
        file: address and digest.
        target: path for the file, whose folder is created if missing; an existing file is compared with the
            digest.
        retries: timeouts and limits of retries.
        on_progress: receives the number of bytes received, and then of bytes verified.

    Raises:
        UserError: the file is not available, cannot be stored, or differs from its digest. A partial
            download is kept, and a wrong file renamed.
    """
    path = target.with_name(target.name + ".part")
    try:
        if target.exists():
            _check_digest(target, file, on_progress)
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as part:
            _receive_with_retries(part, file, retries, on_progress)
            os.fsync(part.fileno())
        _check_digest(path, file, on_progress)
        path.replace(target)
        _note_path(path).unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, "file", error) from None
    return target


def file_name(url: str) -> str:
    """Return the name of the file at an address."""
    return urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])


def set_aside(path: Path, file: PublishedFile, reason: str) -> UserError:
    """Rename a file that is not the published one, and return the error to raise."""
    aside = path.with_name(f"{path.name.removesuffix('.part')}.wrong")
    path.replace(aside)
    return UserError(
        f"{path}: {reason}; renamed to {aside.name}, remove it. The same command downloads the file again"
        f"{file.hint}"
    )


def _check_digest(path: Path, file: PublishedFile, on_progress: OnProgress) -> None:
    if not file.digest:
        return  # whoever reads the file detects damage
    digest = hashlib.new(file.algorithm, usedforsecurity=False)
    task, num_bytes = f"checking {file_name(file.url)}", path.stat().st_size
    with path.open("rb") as opened:
        while data := opened.read(CHUNK_BYTES):
            digest.update(data)
            on_progress(Work(task, opened.tell(), num_bytes, "bytes"))
    if digest.hexdigest() != file.digest.lower():
        name = file.algorithm.upper().replace("SHA256", "SHA-256")
        reason = f"expected the published {name} {file.digest.lower()}, received {digest.hexdigest()}"
        raise set_aside(path, file, reason)


def _receive_with_retries(
    part: BinaryIO, file: PublishedFile, retries: RetryPolicy, on_progress: OnProgress
) -> None:
    """Retry until the file is complete, as long as tries bring new data."""
    furthest, failures, max_tries = part.tell(), 0, min(retries.max_tries, MAX_TRIES_TO_CONNECT)
    while True:
        try:
            return _receive(part, file, retries, on_progress)
        except _TransientError as error:
            failure = error
        failures = 0 if part.tell() > furthest and not failure.is_slow else failures + 1
        furthest = max(furthest, part.tell())
        if not failure.unreachable:
            max_tries = retries.max_tries
        received = file_size(part.tell())
        if failures >= max_tries or failure.wait_s > MAX_WAIT_S:
            later = f" and requests a wait of {failure.wait_s:.0f} s" if failure.wait_s else ""
            raise UserError(
                f"{file.url}: {failure}{later}; {failures} tries without new data. The part received so "
                f"far ({received}) is kept, the same command resumes it{file.hint}"
            )
        wait_s = max(retries.first_wait_s * 2 ** max(failures - 1, 0), failure.wait_s)
        logger.warning("%s: %s after %s; retrying in %.3g s", file_name(file.url), failure, received, wait_s)
        time.sleep(wait_s)


def _receive(part: BinaryIO, file: PublishedFile, retries: RetryPolicy, on_progress: OnProgress) -> None:
    """Request the missing part once, and append it."""
    note, name = _note_path(Path(part.name)), file_name(file.url)
    url, _, tag = note.read_text(encoding="utf-8").partition("\n") if note.exists() else ("", "", "")
    if url != file.url:
        tag = ""  # each server has tags of its own
    if part.tell() and not (file.digest or tag):
        _start_again(part, "cannot verify that the server still has the same file")
    with _request(file, part.tell(), tag, retries.timeout_s) as answer:
        begin, total = _extent(answer, file)
        nothing_follows = answer.status == OUT_OF_RANGE and total is None
        if file.digest and (nothing_follows or total == part.tell()):
            return  # the digest decides
        if part.tell() and (begin != part.tell() or (tag and _tag(answer) not in ("", tag))):
            _start_again(part, "the server cannot resume it there, or its file has changed")
        if begin != part.tell():
            raise _TransientError("the server's answer begins at another byte than requested")
        if begin == total:
            return
        note.write_text(f"{file.url}\n{_tag(answer)}", encoding="utf-8")
        _refuse_large(file, total or 0)
        require_room(note.parent, (total or 0) - part.tell(), part.name)
        _copy(answer, part, file, retries, lambda done: on_progress(Work(name, done, total, "bytes")))
    if total is not None and part.tell() != total:
        raise _TransientError("the connection was cut")


def _refuse_large(file: PublishedFile, num_bytes: int) -> None:
    if file.max_bytes and num_bytes > file.max_bytes:
        raise UserError(
            f"{file.url}: expected at most {file_size(file.max_bytes)}, received {file_size(num_bytes)} or "
            f"more{file.hint}"
        )


def _note_path(part: Path) -> Path:
    return part.with_name(part.name + ".note")


def _start_again(part: BinaryIO, reason: str) -> None:
    size = file_size(part.tell())
    logger.warning("%s: %s; starting from the beginning (%s discarded)", part.name, reason, size)
    part.truncate(0)
    part.seek(0)


def _request(file: PublishedFile, begin: int, tag: str, timeout_s: float) -> Answer:
    """Request a file from a byte on; a server whose file has another tag sends it from the beginning."""
    headers = {"User-Agent": "polyphone", "Accept-Encoding": "identity"}
    if begin:
        headers |= {"Range": f"bytes={begin}-"} | ({"If-Range": tag} if tag else {})
    try:
        request = urllib.request.Request(file.url, headers=headers)
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout_s)
    except (ValueError, http.client.InvalidURL) as error:
        raise _not_an_address(file, error) from None
    except (OSError, http.client.HTTPException) as error:
        if begin and isinstance(error, HTTPError) and error.code == OUT_OF_RANGE:
            return error
        raise _failure(error, file) from None
    return answer


def _extent(answer: Answer, file: PublishedFile) -> tuple[int, int | None]:
    """Return the position of the first byte of an answer (-1 if unknown), and the size of the whole file."""
    if answer.status != OUT_OF_RANGE and "html" in answer.headers.get_content_type():
        raise UserError(
            f"{file.url}: expected a file, received a web page; check whether this network requires a login, "
            f"or the file has moved{file.hint}"
        )
    if answer.status == http.client.OK:
        size = answer.headers.get("Content-Length", "")
        return 0, int(size) if size.isdecimal() else None
    if answer.status not in (http.client.PARTIAL_CONTENT, OUT_OF_RANGE):
        raise UserError(f"{file.url}: expected the file, received status {answer.status}{file.hint}")
    stated = answer.headers.get("Content-Range", "").strip()
    match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", stated)
    begin, end = match.groups() if match else (None, None)  # 416 states only the end: nothing follows it
    return int(begin or end or -1), int(end) if end else None


def _tag(answer: Answer) -> str:
    """Return the value for If-Range, which must not be a weak tag (RFC 9110, 13.1.5); "" if there is none."""
    tag = answer.headers.get("ETag", "")
    return tag if tag.startswith('"') else answer.headers.get("Last-Modified", "")


def _copy(
    answer: Answer, part: BinaryIO, file: PublishedFile, retries: RetryPolicy, tick: Callable[[int], None]
) -> None:
    since_s, begin = time.monotonic(), part.tell()
    while True:
        tick(part.tell())
        try:
            data = answer.read1(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _failure(error, file) from None
        if not data:
            return
        _refuse_large(file, part.tell() + len(data))
        part.write(data)
        part.flush()  # a killed process loses nothing
        if time.monotonic() - since_s < retries.timeout_s:
            continue
        if part.tell() - begin < retries.min_bytes:  # a byte now and then is no download
            received = file_size(part.tell() - begin)
            raise _TransientError(f"the server sent {received} in {retries.timeout_s:g} s", is_slow=True)
        since_s, begin = time.monotonic(), part.tell()


def _failure(error: Exception, file: PublishedFile) -> Exception:
    """Return the error of a failed request: permanent, or worth another try."""
    if isinstance(error, HTTPError):
        status = f"the server returned {error.code} {error.reason}"
        if error.code in TRANSIENT_STATUSES or error.code >= http.client.INTERNAL_SERVER_ERROR:
            wait_s = error.headers.get("Retry-After", "").strip()
            return _TransientError(status, wait_s=float(wait_s) if wait_s.isdecimal() else 0)
        hint = STATUS_HINTS.get(error.code, "expected the file")
        return UserError(f"{file.url}: {status} ({hint}){file.hint}")
    if not isinstance(error, URLError):
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return _TransientError("the server stopped sending" if isinstance(error, TimeoutError) else why)
    host, reason = urllib.parse.urlsplit(file.url).hostname, error.reason
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UserError(
            f"{file.url}: no secure connection to {host} ({reason.verify_message}); check this machine's "
            f"clock, and whether there is a proxy in between{file.hint}"
        )
    if isinstance(reason, OSError):
        why, proxy = reason.strerror or str(reason), _proxy_for(file.url)
        through, check = (f" through {proxy}", "it and the network") if proxy else ("", "the network")
        return _TransientError(f"cannot reach {host}{through} ({why}); check {check}", unreachable=True)
    return _not_an_address(file, reason)


def _not_an_address(file: PublishedFile, reason: object) -> UserError:
    proxy = _proxy_for(file.url)
    through, expected = (
        (f" through {proxy}", "http or https addresses") if proxy else ("", "an http or https address")
    )
    return UserError(f"{file.url}: cannot be downloaded{through} ({reason}); expected {expected}")


def _proxy_for(url: str) -> str:
    """Name the proxy through which an address is reached, without its password; "" if there is none."""
    scheme, _, rest = url.partition("://")
    proxy = urllib.request.getproxies().get(scheme, "")
    if not proxy or urllib.request.proxy_bypass(rest.partition("/")[0]):
        return ""
    return f"the proxy {proxy.rpartition('@')[2]} of {'_'.join((scheme, 'proxy'))}"
