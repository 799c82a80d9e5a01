"""Download the archives of corpora, and name the other servers that have them."""

from __future__ import annotations

import re
import urllib.parse
from pathlib import Path

from asr.base import download
from asr.base.download import DEFAULT_RETRIES, PublishedFile, RetryPolicy
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.types import Archive

OPENSLR_HOSTS = ("openslr.trmal.net", "openslr.elda.org", "openslr.magicdatatech.com")  # EU, EU, China
BY_MIRROR = "`mirror=HOST` uses another server"  # in the error of an archive that others have


def fetch(
    archive: Archive,
    folder: Path,
    retries: RetryPolicy = DEFAULT_RETRIES,
    on_progress: OnProgress = ignore_progress,
) -> Path:
    """Download an archive into a folder, or the part of it that is missing, and return its path.

    Args:
        archive: address and checksum of the file; without a checksum, unpacking detects damage.
        folder: created if missing.
        retries: timeouts and limits of retries.
        on_progress: receives the number of bytes received, and then of bytes verified.

    Raises:
        UserError: see `asr.base.download.download`.
    """
    return download.download(_published(archive), folder / file_name(archive), retries, on_progress)


def file_name(archive: Archive) -> str:
    """Return the file name of an archive."""
    return download.file_name(archive.url)


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


def set_aside(path: Path, archive: Archive, reason: str) -> UserError:
    """Rename a file that is not the published one, and return the error to raise."""
    return download.set_aside(path, _published(archive), reason)


def _published(archive: Archive) -> PublishedFile:
    return PublishedFile(archive.url, "md5", archive.md5, _other_servers(archive.url))


def _other_servers(url: str) -> str:
    """Return the end of an error that names other servers of OpenSLR's files; empty for other files."""
    address = urllib.parse.urlsplit(url)
    if "openslr" not in (address.hostname or "") and not address.path.startswith("/resources/"):
        return ""
    others = [host for host in OPENSLR_HOSTS if host != address.hostname]
    return f"; {BY_MIRROR}: {', '.join(others)}"
