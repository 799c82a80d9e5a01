"""Download the corpora of a training that are not on this machine yet, after stating what that takes.

download_sources(parts_of("thchs30", "corpora/thchs30"), Path("data"), "published")
"""

from __future__ import annotations

import logging
import urllib.parse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from asr.base.download import NoRoomError, require_room
from asr.base.errors import UserError
from asr.base.text.wording import file_size
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora import find_corpus
from data_pipeline.download.archives import is_unpacked, was_begun
from data_pipeline.download.corpus import download_corpus
from data_pipeline.download.fetch import BY_MIRROR, file_name
from data_pipeline.preparation.combined_corpora import CorpusPart
from data_pipeline.preparation.description import prepared_before
from data_pipeline.types import Corpus

PUBLISHED = "published"
GB = 1e9

logger = logging.getLogger(__name__)


def download_sources(
    parts: Sequence[CorpusPart],
    prepared_dir: Path,
    server: str,
    on_progress: OnProgress = ignore_progress,
) -> None:
    """Download and unpack what is missing of the corpora, each into its source's folder.

    A folder with other files than those of an unfinished download is the user's own and is left as it is.

    Args:
        parts: the corpora with their sources.
        prepared_dir: folder of all prepared corpora; one that was prepared there needs no source.
        server: PUBLISHED, or a mirror.
        on_progress: receives the bytes of each file in turn.

    Raises:
        UserError: a disk has too little space for all of them, or a file cannot be fetched or unpacked.
    """
    missing = [
        (part, corpus)
        for part in parts
        if _is_missing(part, corpus := find_corpus(part.corpus), prepared_dir / part.name)
    ]
    for part, corpus in missing:
        host = server if server != PUBLISHED else urllib.parse.urlsplit(corpus.archives[0].url).hostname
        logger.info(
            "%s: downloads %s from %s into %s, and takes about %s there when it is unpacked; data.source "
            "names another folder. Licence: %s, %s",
            part.name,
            file_size(corpus.size_gb * GB),
            host,
            part.source,
            file_size(corpus.disk_gb * GB),
            corpus.licence,
            corpus.address,
        )
    _require_room_for_all(missing)
    for part, corpus in missing:
        mirror = server if server != PUBLISHED else None
        try:
            download_corpus(part.name, corpus, Path(part.source), mirror, on_progress=on_progress)
        except NoRoomError:
            raise
        except UserError as error:
            reason = str(error).replace(BY_MIRROR, "other servers")
            raise UserError(
                f"{reason}\n{part.name}: data.download=HOST is another server; its page is {corpus.address}; "
                f"if you have the corpus, unpack it and set data.source to its folder, which must hold "
                f"{corpus.layout}"
            ) from None
        logger.info("%s: its archives are unpacked; you can remove them", part.source)


def _is_missing(part: CorpusPart, corpus: Corpus, target: Path) -> bool:
    """Return whether a corpus is not prepared, and its source is absent, empty or not completely unpacked."""
    folder = Path(part.source)
    if not (part.source and corpus.archives) or prepared_before(target, {}, other_units=True).is_complete:
        return False
    if not folder.is_dir():
        return not folder.exists()
    names = [file_name(archive) for archive in corpus.archives]
    unpacked = [is_unpacked(folder / name, folder) for name in names]
    if all(unpacked):
        return False
    if all(path.name.startswith((".", *names)) for path in folder.iterdir()):
        return True
    # archives next to other files were unpacked by hand, unless unpacking was begun here
    was_begun_here = any(was_begun(folder / name, folder) for name in names)
    return was_begun_here and (any(unpacked) or bool(_downloaded(corpus, folder)))


def _downloaded(corpus: Corpus, folder: Path) -> list[Path]:
    """Return the archives of a corpus that are there, whole or in part."""
    names = [file_name(archive) for archive in corpus.archives]
    return [path for name in names for path in (folder / name, folder / f"{name}.part") if path.exists()]


def _require_room_for_all(missing: Sequence[tuple[CorpusPart, Corpus]]) -> None:
    """Raise an error if the corpora together do not fit on a disk, before hours go into the first."""
    needed: dict[int, float] = defaultdict(float)
    first: dict[int, Path] = {}
    for part, corpus in missing:
        folder = Path(part.source)
        names = [file_name(archive) for archive in corpus.archives]
        if any(is_unpacked(folder / name, folder) for name in names):
            continue  # the missing size is unknown; each file is checked before it is fetched
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        disk = existing.stat().st_dev
        needed[disk] += corpus.disk_gb * GB - sum(path.stat().st_size for path in _downloaded(corpus, folder))
        first.setdefault(disk, existing)
    for disk, num_bytes in needed.items():
        names_there = ", ".join(part.name for part, _ in missing)
        require_room(first[disk], num_bytes, f"{first[disk].resolve()}, for {names_there} (data.source)")
