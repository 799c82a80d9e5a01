"""Download a whole corpus: fetch its archives, compare them with their checksums, and unpack them.

paths = download_corpus("thchs30", find_corpus("thchs30"), Path("data/thchs30"))
"""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

from asr.base.download import DEFAULT_RETRIES, RetryPolicy, require_room
from asr.base.errors import UserError
from asr.base.system.lock import exclusive_lock
from asr.base.text.wording import file_size
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.download.archives import (
    DamagedArchiveError,
    is_archive,
    is_unpacked,
    unpack,
)
from data_pipeline.download.fetch import at_mirror, fetch, file_name, set_aside
from data_pipeline.types import Archive, Corpus

logger = logging.getLogger(__name__)


def download_corpus(
    name: str,
    corpus: Corpus,
    folder: Path,
    mirror: str | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
    on_progress: OnProgress = ignore_progress,
) -> list[Path]:
    """Fetch and unpack the archives of a corpus that are still missing; return those that are there.

    Args:
        name: of the corpus, for messages.
        corpus: see `data_pipeline.corpora.find_corpus`.
        folder: folder for the archives and their content.
        mirror: a server that has the files under the same paths; None for the published addresses.
        retries: timeouts and limits of retries.
        on_progress: receives the bytes of each file in turn.

    Raises:
        UserError: the corpus has no archives, or one of them cannot be fetched or unpacked.
    """
    _refuse_without_archives(name, corpus, folder)
    archives = [at_mirror(archive, mirror) if mirror else archive for archive in corpus.archives]
    with exclusive_lock(folder, "asr download"):
        _check_space(corpus, folder)
        try:
            for archive in archives:
                _fetch_and_unpack(archive, folder, retries, on_progress)
        except KeyboardInterrupt:
            logger.warning("%s: the download so far is kept; the same command resumes it", folder)
            raise
    paths = [folder / file_name(archive) for archive in archives]
    return [path for path in paths if path.exists()]


def _refuse_without_archives(name: str, corpus: Corpus, folder: Path) -> None:
    if corpus.archives:
        return
    if not corpus.needs_source:
        raise UserError(
            f"{name}: nothing to download, it is part of this project. Next: asr prepare {name} OUT"
        )
    where = f"download it from {corpus.address}, where you may have to accept its terms"
    layout = f" (expected layout: {corpus.layout})" if corpus.layout else ""
    raise UserError(
        f"{name}: cannot be downloaded automatically; {where if corpus.address else 'bring your own'}, "
        f"unpack it into {folder}{layout}, then: asr prepare {name} {shlex.quote(str(folder))} OUT"
    )


def _fetch_and_unpack(archive: Archive, folder: Path, retries: RetryPolicy, on_progress: OnProgress) -> None:
    path = folder / file_name(archive)
    if is_unpacked(path, folder):
        logger.info("%s: already downloaded and unpacked", path.name)
        return
    fetch(archive, folder, retries, on_progress)
    checked = "its MD5 matches the published one" if archive.md5 else "no checksum is published"
    logger.info("%s: %s, %s", path.name, file_size(path.stat().st_size), checked)
    if is_archive(path):
        try:
            unpack(path, folder, on_progress)
        except DamagedArchiveError as error:
            raise set_aside(path, archive, error.reason) from None
        logger.info("%s: unpacked into %s", path.name, folder)


def _check_space(corpus: Corpus, folder: Path) -> None:
    """Raise an error if the whole corpus does not fit; later each file is checked separately."""
    names = [file_name(archive) for archive in corpus.archives]
    if any(is_unpacked(folder / name, folder) for name in names):
        return  # the missing size is unknown, since archives may have been removed
    existing = [path for name in names for path in (folder / name, folder / f"{name}.part") if path.exists()]
    missing = corpus.size_gb * 1e9 - sum(path.stat().st_size for path in existing)
    require_room(folder, missing, f"{folder}, for the download (and as much again to unpack)")
