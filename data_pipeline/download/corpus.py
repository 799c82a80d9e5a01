"""Downloads a whole corpus: fetches its archives, verifies their checksums, and unpacks them.

downloaded = download_corpus("thchs30", find_corpus("thchs30"), Path("data/thchs30"))
"""

from __future__ import annotations

import logging
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from asr.base.errors import UserError
from asr.base.lock import exclusive_lock
from asr.base.wording import file_size
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.download.archives.unpack import is_archive, is_unpacked, unpack
from data_pipeline.download.fetch import DEFAULT_RETRIES, RetryPolicy, at_mirror, fetch, file_name
from data_pipeline.types import Archive, Corpus

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Downloaded:
    """A corpus that is complete on disk.

    Attributes:
        folder: folder of the archives and their content.
        archives: archives that are still there; once unpacked they are not needed.
    """

    folder: Path
    archives: tuple[Path, ...]

    @property
    def num_archive_bytes(self) -> int:
        """Return the size of the archives in bytes."""
        return sum(path.stat().st_size for path in self.archives)


def download_corpus(
    name: str,
    corpus: Corpus,
    folder: Path,
    mirror: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Downloaded:
    """Fetch and unpack the archives of a corpus that are still missing.

    Args:
        name: of the corpus, for messages.
        corpus: see `data_pipeline.corpora.find_corpus`.
        folder: folder for the archives and their content.
        mirror: a server that has the files under the same paths; None for the published addresses.
        on_progress: receives the bytes of each file in turn.

    Raises:
        UserError: the corpus has no archives, or one of them cannot be fetched or unpacked.
    """
    refuse_without_archives(name, corpus, folder)
    return download_archives(corpus, folder, mirror, on_progress=on_progress)


def refuse_without_archives(name: str, corpus: Corpus, folder: Path) -> None:
    """Raise a UserError if a corpus has nothing to download; it says how to get the corpus instead."""
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


def download_archives(
    corpus: Corpus,
    folder: Path,
    mirror: str | None = None,
    retries: RetryPolicy = DEFAULT_RETRIES,
    on_progress: OnProgress = ignore_progress,
) -> Downloaded:
    """Fetch and unpack the archives of a corpus; see `download_corpus`.

    Args:
        corpus: a corpus that has archives.
        folder: folder for the archives and their content.
        mirror: a server that has the files under the same paths; None for the published addresses.
        retries: timeouts and limits of retries.
        on_progress: receives the bytes of each file in turn.
    """
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
    return Downloaded(folder, tuple(path for path in paths if path.exists()))


def _fetch_and_unpack(archive: Archive, folder: Path, retries: RetryPolicy, on_progress: OnProgress) -> None:
    path = folder / file_name(archive)
    if is_unpacked(path, folder):
        logger.info("%s: already downloaded and unpacked", path.name)
        return
    fetch(archive, folder, retries, on_progress)
    checked = "its MD5 matches the published one" if archive.md5 else "no checksum is published"
    logger.info("%s: %s, %s", path.name, file_size(path.stat().st_size), checked)
    if is_archive(path):
        unpack(path, folder, on_progress)
        logger.info("%s: unpacked into %s", path.name, folder)


def _check_space(corpus: Corpus, folder: Path) -> None:
    """Raise an error if the whole corpus does not fit; later each file is checked separately."""
    names = [file_name(archive) for archive in corpus.archives]
    if any(is_unpacked(folder / name, folder) for name in names):
        return  # the missing size is unknown, since archives may have been removed
    existing = [path for name in names for path in (folder / name, folder / f"{name}.part") if path.exists()]
    missing = corpus.size_gb * 1e9 - sum(path.stat().st_size for path in existing)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise UserError(
            f"{folder}: needs about {file_size(missing)} for the download, and as much again to unpack; "
            f"{file_size(free)} are free. Free space there, or choose another folder"
        )
