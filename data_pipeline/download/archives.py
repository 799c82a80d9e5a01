"""Unpack archives; Python's "data" filter refuses entries that lead out of the folder, and devices.

Content is unpacked into a hidden folder, and moved when it is complete; no other file is replaced.
"""

from __future__ import annotations

import errno
import filecmp
import io
import itertools
import json
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from asr.base.download import require_room
from asr.base.errors import UserError
from asr.base.system.files import cannot_write, whole_file
from asr.base.work import OnProgress, Work, ignore_progress

CHUNK_BYTES = 1 << 20
MAX_RECORDED = 1000  # paths that are looked for later
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
# RuntimeError: an encrypted zip file; an OSError may come from the disk
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, ValueError, RuntimeError, OSError),
)

# what is not an archive, and entries that are both a file and a folder
NOT_OF_THE_DISK = (None, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)


class DamagedArchiveError(UserError):
    """The error of an archive that is truncated, damaged, empty, or no archive."""

    def __init__(self, archive: Path, damage: Exception) -> None:
        lines = str(damage).rstrip(":").splitlines() or [type(damage).__name__]
        self.reason = f"truncated or damaged ({lines[0]})"
        super().__init__(f"{archive}: {self.reason}; nothing was unpacked. Remove and download it again")


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive to unpack, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path, on_progress: OnProgress = ignore_progress) -> None:
    """Unpack a tar or zip file into a folder that may have other content; a hidden record names its files.

    Raises:
        UserError: the archive is damaged, unsafe, does not fit, or has a file that would replace another
            one; the folder is unchanged.
    """
    hidden = _hidden_folder(archive, folder)
    try:
        if hidden.exists():
            shutil.rmtree(hidden)  # left by a process that was killed
        hidden.mkdir(parents=True)
        try:
            task, num_bytes = f"unpacking {archive.name}", archive.stat().st_size
            unpack_into(hidden, archive, lambda done: on_progress(Work(task, done, num_bytes, "bytes")))
            paths = itertools.chain(hidden.glob("*"), hidden.glob("*/*"))
            content = [str(path.relative_to(hidden)) for path in itertools.islice(paths, MAX_RECORDED)]
            for source, target in list(_moves(hidden, folder)):
                source.replace(target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        with whole_file(_record_path(archive, folder), "record") as record:
            record.write(json.dumps({"num_bytes": num_bytes, "content": content}).encode())
    except OSError as error:
        raise cannot_write(Path(error.filename or folder), "unpacked file", error) from None


def is_unpacked(archive: Path, folder: Path) -> bool:
    """Return whether an archive, even if removed since, was unpacked and its files are still there."""
    try:
        record = json.loads(_record_path(archive, folder).read_bytes())
        unchanged = not archive.exists() or record["num_bytes"] == archive.stat().st_size
        return unchanged and all(os.path.lexists(folder / name) for name in record["content"])
    except (OSError, ValueError, TypeError, KeyError):
        return False


def was_begun(archive: Path, folder: Path) -> bool:
    """Return whether an archive was unpacked, or its unpacking was interrupted."""
    return _record_path(archive, folder).exists() or _hidden_folder(archive, folder).exists()


def _hidden_folder(archive: Path, folder: Path) -> Path:
    return folder / f".{archive.name}.unpacking"


def _record_path(archive: Path, folder: Path) -> Path:
    return folder / f".{archive.name}.unpacked"


def unpack_into(root: Path, archive: Path, tick: Callable[[int], object] = lambda position: None) -> None:
    """Unpack an archive into an empty folder; an error leaves a part of the files there.

    Args:
        root: the folder.
        archive: a tar or zip file.
        tick: receives the position in the archive repeatedly.

    Raises:
        UserError: the archive is damaged, unsafe, or does not fit.
        OSError: the folder cannot be written, or the archive not read.
    """
    extract = _extract_zip if archive.name.lower().endswith(".zip") else _extract_tar
    num_entries = 0
    try:
        with archive.open("rb") as raw:
            for num_bytes in extract(raw, root):
                require_room(root, num_bytes, str(archive))
                num_entries += 1
                tick(raw.tell())
        if not num_entries:
            raise tarfile.ReadError("it is empty")
    except UserError:
        raise
    except tarfile.FilterError as error:
        raise UserError(f"{archive}: unsafe ({error}); nothing was unpacked, get it elsewhere") from None
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno not in NOT_OF_THE_DISK:
            raise
        raise DamagedArchiveError(archive, error) from None


def _extract_zip(raw: IO[bytes], root: Path) -> Iterator[int]:
    """Unpack a zip file, and yield the size of each entry before it is written."""
    with zipfile.ZipFile(raw) as bundle:
        for info in bundle.infolist():
            yield info.file_size
            bundle.extract(info, root)


def _extract_tar(raw: IO[bytes], root: Path) -> Iterator[int]:
    """Unpack a tar file, and yield the size of each entry before it is written."""
    links = []
    with tarfile.open(fileobj=raw, tarinfo=_StrictTarInfo, errorlevel=2) as tar:
        while (member := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # 600,000 clips would take 1 GB
            yield member.size
            if member.issym():
                links.append(member)
            else:
                tar.extract(member, root, set_attrs=False, filter="data")
        for link in links:  # after all files, so that none is written through a link
            tar.extract(link, root, set_attrs=False, filter="data")
        while tar.fileobj and tar.fileobj.read(CHUNK_BYTES):
            pass  # the checksum of the compression comes last


class _StrictTarInfo(tarfile.TarInfo):
    """An entry of a tar file; a damaged header is an error, where tarfile takes it for the end."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> _StrictTarInfo:
        try:
            return super().fromtarfile(tar)
        except tarfile.HeaderError as error:
            # a zero block ends a tar file; compressed ones may lack it, since their own end is checked
            lacks_end = isinstance(error, tarfile.EmptyHeaderError)  # type: ignore[attr-defined]
            if isinstance(error, tarfile.EOFHeaderError) or (  # type: ignore[attr-defined]
                lacks_end and not isinstance(tar.fileobj, io.BufferedReader)
            ):
                raise
            raise tarfile.ReadError(f"an entry has a {error}") from None


def _moves(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield pairs of paths to rename, so that the content of one folder is merged into another."""
    for path in sorted(source.iterdir()):
        goal = target / path.name
        if all(each.is_dir() and not each.is_symlink() for each in (path, goal)):
            yield from _moves(path, goal)
        elif not os.path.lexists(goal) or _is_same_file(path, goal):
            yield path, goal
        else:
            raise UserError(f"{goal}: differs from the archive's file; move it, and run this again")


def _is_same_file(path: Path, other: Path) -> bool:
    if path.is_symlink() or other.is_symlink():
        return path.is_symlink() and other.is_symlink() and path.readlink() == other.readlink()
    return filecmp.cmp(path, other, shallow=False)
