"""A whole corpus from the internet: its archives fetched, compared with their checksums, and unpacked.

downloaded = download_corpus("thchs30", Path("data/thchs30"))
"""

from __future__ import annotations

import logging
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from asr.base.lock import alone_in
from asr.base.types import UserError
from asr.base.wording import file_size
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.archives.unpack import is_archive, is_unpacked, unpack
from data_pipeline.corpora import find_corpus
from data_pipeline.download.fetch import PATIENCE, Patience, at_mirror, fetch, file_name
from data_pipeline.types import Archive, Corpus

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Downloaded:
    """A corpus that is complete on this disk.

    Attributes:
        folder: that holds its archives and what was in them.
        archives: that are still there; once unpacked they are not needed.
    """

    folder: Path
    archives: tuple[Path, ...]

    @property
    def num_archive_bytes(self) -> int:
        """Return how much room the archives take."""
        return sum(path.stat().st_size for path in self.archives)


def download_corpus(
    name: str, folder: Path, mirror: str | None = None, on_progress: OnProgress = ignore_progress
) -> Downloaded:
    """Fetch and unpack what of a corpus is not there yet.

    Args:
        name: of a corpus that `data_pipeline.corpora` knows.
        folder: where the archives and what is in them go.
        mirror: a server that has the files under the same paths; None for the published addresses.
        on_progress: receives bytes, of each file in turn.

    Raises:
        UserError: there is no such corpus, it has no archives, or one of them cannot be fetched or unpacked.
    """
    corpus = find_corpus(name)
    refuse_without_archives(name, corpus, folder)
    return download_archives(corpus, folder, mirror, on_progress=on_progress)


def refuse_without_archives(name: str, corpus: Corpus, folder: Path) -> None:
    """Raise a UserError where there is nothing to download; it tells how the corpus is had instead."""
    if corpus.archives:
        return
    if not corpus.needs_source:
        raise UserError(f"{name}: nothing to download, the project carries it. Next: asr prepare {name} OUT")
    where = f"fetch it from {corpus.address}, where you may have to accept its terms"
    layout = f", so that there is {corpus.layout}" if corpus.layout else ""
    raise UserError(
        f"{name}: not for asr download; {where if corpus.address else 'bring your own'}, unpack it "
        f"into {folder}{layout}, then: asr prepare {name} {shlex.quote(str(folder))} OUT"
    )


def download_archives(
    corpus: Corpus,
    folder: Path,
    mirror: str | None = None,
    patience: Patience = PATIENCE,
    on_progress: OnProgress = ignore_progress,
) -> Downloaded:
    """Fetch and unpack the archives of a corpus; see `download_corpus`.

    Args:
        corpus: that has archives.
        folder: where they and what is in them go.
        mirror: a server that has the files under the same paths; None for the published addresses.
        patience: with the server.
        on_progress: receives bytes, of each file in turn.
    """
    archives = [at_mirror(archive, mirror) if mirror else archive for archive in corpus.archives]
    with alone_in(folder, "asr download"):
        _check_space(corpus, folder)
        try:
            for archive in archives:
                _fetch_and_unpack(archive, folder, patience, on_progress)
        except KeyboardInterrupt:
            logger.warning("%s: what has come is kept; the same command resumes the download", folder)
            raise
    paths = [folder / file_name(archive) for archive in archives]
    return Downloaded(folder, tuple(path for path in paths if path.exists()))


def _fetch_and_unpack(archive: Archive, folder: Path, patience: Patience, on_progress: OnProgress) -> None:
    path = folder / file_name(archive)
    if is_unpacked(path, folder):
        logger.info("%s: fetched and unpacked before", path.name)
        return
    fetch(archive, folder, patience, on_progress)
    checked = "its MD5 is the published one" if archive.md5 else "no checksum is published"
    logger.info("%s: %s, %s", path.name, file_size(path.stat().st_size), checked)
    if is_archive(path):
        unpack(path, folder, on_progress)
        logger.info("%s: unpacked into %s", path.name, folder)


def _check_space(corpus: Corpus, folder: Path) -> None:
    """Refuse what does not fit: better now than after a night; later each file is checked for itself."""
    names = [file_name(archive) for archive in corpus.archives]
    if any(is_unpacked(folder / name, folder) for name in names):
        return  # how much is missing cannot be known: archives may have been removed
    there = [path for name in names for path in (folder / name, folder / f"{name}.part") if path.exists()]
    missing = corpus.size_gb * 1e9 - sum(path.stat().st_size for path in there)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise UserError(
            f"{folder}: about {file_size(missing)} are to come, and as much again to unpack; "
            f"{file_size(free)} are free. Free space there, or choose another folder"
        )
