"""`asr download`: fetch a corpus and unpack it; the same command goes on with what was interrupted."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asr.base.lock import alone_in
from asr.base.types import UserError

if TYPE_CHECKING:
    from data_pipeline.download.fetch import Patience
    from data_pipeline.types import Archive, Corpus


def add_download_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("corpus", metavar="CORPUS", help="a name that `asr prepare --list` shows")
    parser.add_argument("dir", type=Path, metavar="DIR", help="where its archives and what is in them go")
    parser.add_argument(
        "--mirror", metavar="HOST", help="another server with the same files, such as openslr.elda.org"
    )


def download_command(arguments: argparse.Namespace) -> int:
    """Fetch and unpack the archives of a corpus; returns the exit status."""
    from data_pipeline.corpora import find_corpus
    from data_pipeline.download.fetch import PATIENCE

    corpus = find_corpus(arguments.corpus)
    download_corpus(arguments.corpus, corpus, arguments.dir, arguments.mirror, PATIENCE)
    return 0


def download_corpus(name: str, corpus: Corpus, folder: Path, mirror: str | None, patience: Patience) -> None:
    """Fetch and unpack what of a corpus is not there yet, and tell what to do next.

    Args:
        name: of the corpus.
        corpus: as the registry has it.
        folder: where the archives and what is in them go.
        mirror: a server that has the files under the same paths; None for the published addresses.
        patience: with the server.
    """
    from asr.runs.resume_command import asr_command
    from data_pipeline.download.fetch import at_mirror, file_name

    _check_downloadable(name, corpus, folder)
    archives = [at_mirror(archive, mirror) if mirror else archive for archive in corpus.archives]
    terms = " ".join(text for text in (corpus.licence, corpus.address) if text)
    print(f"{name}: {corpus.about} {f'({terms})' if terms else ''}".rstrip(), flush=True)
    with alone_in(folder, "asr download"):
        _check_space(corpus, folder)
        try:
            for archive in archives:
                _fetch_and_unpack(archive, folder, patience)
        except KeyboardInterrupt:
            print(f"\n{folder}: what has come is kept; the same command goes on with it", file=sys.stderr)
            raise
    _tell_kept([folder / file_name(archive) for archive in archives])
    print(f"{name} is complete. Next: {asr_command()} prepare {name} {shlex.quote(str(folder))} OUT")


def _check_downloadable(name: str, corpus: Corpus, folder: Path) -> None:
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


def _fetch_and_unpack(archive: Archive, folder: Path, patience: Patience) -> None:
    from data_pipeline.download.byte_bar import size_text
    from data_pipeline.download.fetch import fetch, file_name
    from data_pipeline.download.unpack import is_archive, is_unpacked, unpack

    path = folder / file_name(archive)
    if is_unpacked(path, folder):
        print(f"{path.name}: fetched and unpacked before")
        return
    fetch(archive, folder, patience)
    checked = "its MD5 is the published one" if archive.md5 else "no checksum is published"
    print(f"{path.name}: {size_text(path.stat().st_size)}, {checked}", flush=True)
    if is_archive(path):
        unpack(path, folder)
        print(f"{path.name}: unpacked into {folder}", flush=True)


def _check_space(corpus: Corpus, folder: Path) -> None:
    """Better now than after a night of downloading; later each file is checked for itself."""
    from data_pipeline.download.byte_bar import size_text
    from data_pipeline.download.fetch import file_name
    from data_pipeline.download.unpack import is_unpacked

    names = [file_name(archive) for archive in corpus.archives]
    if any(is_unpacked(folder / name, folder) for name in names):
        return  # how much is missing cannot be told: archives may have been removed
    there = [path for name in names for path in (folder / name, folder / f"{name}.part") if path.exists()]
    missing = corpus.size_gb * 1e9 - sum(path.stat().st_size for path in there)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise UserError(
            f"{folder}: about {size_text(missing)} are to come, and as much again to unpack; "
            f"{size_text(free)} are free. Free space there, or choose another folder"
        )


def _tell_kept(paths: Sequence[Path]) -> None:
    from data_pipeline.download.byte_bar import size_text

    if kept := [path for path in paths if path.exists()]:
        size = size_text(sum(path.stat().st_size for path in kept))
        print(f"The archives ({size}) are kept; once unpacked they are not needed, remove them if you like.")
