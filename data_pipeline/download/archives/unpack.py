"""Unpacks archives that may be malicious: nothing is written outside of the folder, nor more than fits.

Content is unpacked into a hidden folder and moved when it is complete. Links are created after all files, so
that nothing is ever written through one; a link may lead down, or first up and then down, but not out.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from asr.base.errors import UserError
from asr.base.files import cannot_write, whole_file
from asr.base.wording import counted, file_size
from asr.base.work import OnProgress, Work, ignore_progress
from data_pipeline.download.archives.entries import CHUNK_BYTES, DAMAGE, DamagedError, Entry, entries_of

BLOCK_BYTES = 4096  # space on disk is used in blocks, and an empty file counts as one
MAX_DEPTH = 100
MAX_RECORDED = 1000
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")


class NoRoomError(UserError):
    """Reports that an archive needs more space than is free; the archive itself may be valid."""


class _UnsafeEntryError(Exception):
    """Reports an entry that a well-meant archive does not have."""


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive to unpack, by its name."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, folder: Path, on_progress: OnProgress = ignore_progress) -> None:
    """Unpack a tar or zip file into a folder, beside the folder's other content.

    The archive is kept; a hidden record beside the unpacked files is read by `is_unpacked`.

    Args:
        archive: a tar or zip file.
        folder: folder for its content.
        on_progress: receives the number of bytes of the archive read.

    Raises:
        UserError: the archive is damaged, unsafe, does not fit, or has a file that would replace another
            one; the folder is unchanged.
    """
    if not archive.is_file():
        raise UserError(f"{archive}: no such archive; download it again")
    hidden = folder / f".{archive.name}.unpacking"
    try:
        if hidden.exists():
            shutil.rmtree(hidden)  # left by a process that was killed
        hidden.mkdir(parents=True)
        try:
            task, num_bytes = f"unpacking {archive.name}", archive.stat().st_size
            unpack_into(
                hidden, archive, lambda position: on_progress(Work(task, position, num_bytes, "bytes"))
            )
            content = list(_content(hidden))
            for source, target in list(_moves(hidden, folder)):
                source.replace(target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        with whole_file(_record_path(archive, folder), "record") as record:
            record.write(json.dumps({**_fingerprint(archive), "content": content}).encode())
    except OSError as error:
        raise cannot_write(Path(error.filename or folder), "unpacked file", error) from None


def check_readable(archive: Path, tick: Callable[[int], object] = lambda position: None) -> None:
    """Read an archive to its end without unpacking it; whether its entries are safe is not checked.

    Args:
        archive: a tar or zip file, whatever its name.
        tick: receives the position in the archive repeatedly.

    Raises:
        DamagedError: it is truncated, damaged, empty, or no archive.
        OSError: it cannot be read from the disk.
    """
    num_entries = 0
    try:
        with archive.open("rb") as raw:
            for entry in entries_of(raw):
                num_entries += 1
                with entry.open() as content:
                    while content.read(CHUNK_BYTES):
                        tick(raw.tell())
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DamagedError(str(error) or type(error).__name__) from None
    if not num_entries:
        raise DamagedError("it is empty")


def is_unpacked(archive: Path, folder: Path) -> bool:
    """Return whether this archive was unpacked into a folder and its files are still there.

    The archive itself may have been removed since.
    """
    try:
        record = json.loads(_record_path(archive, folder).read_bytes())
        content = record.pop("content")
        unchanged = not archive.exists() or record == _fingerprint(archive)
        return unchanged and all(os.path.lexists(folder / name) for name in content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


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
    free = shutil.disk_usage(root).free
    try:
        with archive.open("rb") as raw:
            entries = _until_full(entries_of(raw), free, archive)
            _write_all(entries, root, lambda: tick(raw.tell()))
    except _UnsafeEntryError as error:
        raise UserError(
            f"{archive}: {error}; nothing was unpacked. Download it from its publisher, or inspect it"
        ) from None
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(
            f"{archive}: truncated or damaged ({error}); nothing was unpacked. Remove and download it again"
        ) from None


def _until_full(entries: Iterable[Entry], free: int, archive: Path) -> Iterator[Entry]:
    """Yield entries while their declared sizes fit into the free space."""
    needed, num_entries = 0, 0
    for entry in entries:
        needed += (entry.num_bytes // BLOCK_BYTES + 1) * BLOCK_BYTES
        if needed > free:
            raise NoRoomError(
                f"{archive}: needs {file_size(needed)} or more, {file_size(free)} are free; nothing was "
                "unpacked. Free space there; if the size is implausible, download it from its publisher"
            )
        yield entry
        num_entries += 1
    if not num_entries:
        raise DamagedError("it is empty")


def _write_all(entries: Iterable[Entry], root: Path, tick: Callable[[], object]) -> None:
    links: dict[Path, str] = {}
    for entry in entries:
        parts = _safe_parts(entry.name)
        path = root.joinpath(*parts)
        if entry.kind == "folder":
            _make_folder(path, entry)
            continue
        if not parts or entry.kind == "special file":
            raise _UnsafeEntryError(f"{entry.name!r} is a {entry.kind}, expected files, folders and links")
        _make_folder(path.parent, entry)
        if entry.kind == "symbolic link":
            _check_link(entry, depth=len(parts) - 1)
            links[path] = entry.link
        elif entry.kind == "hard link":
            _make_hard_link(path, root.joinpath(*_safe_parts(entry.link)), entry)
        else:
            _write_file(path, entry, tick)
        tick()
    for path, target in links.items():
        if os.path.lexists(path):
            raise _UnsafeEntryError(f"{path.relative_to(root).as_posix()!r} is both a link and another entry")
        path.symlink_to(target)


def _safe_parts(name: str) -> tuple[str, ...]:
    """Return the folders and the name of a path; refuse one that leads out of the root on any system."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or any(re.match(r"[A-Za-z]:", part) for part in parts):
        raise _UnsafeEntryError(f"{name!r} is an absolute path")
    if ".." in parts:
        raise _UnsafeEntryError(f"{name!r} leads out of the folder")
    if "\\" in name or "\0" in name:
        raise _UnsafeEntryError(f"{name!r} is not a valid path on every system")
    if len(parts) > MAX_DEPTH:
        raise _UnsafeEntryError(
            f"{name[:40]!r}... is {len(parts)} folders deep, expected {MAX_DEPTH} at most"
        )
    return parts


def _check_link(entry: Entry, depth: int) -> None:
    """Refuse a link that leads out of the root, by itself or through other links.

    If `..` is at the beginning only, going up passes real folders only, never links.
    """
    parts = [part for part in entry.link.split("/") if part not in ("", ".")]
    num_up = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    _safe_parts("/" * entry.link.startswith("/") + "/".join(parts[num_up:]))
    if num_up > depth or not entry.link:
        raise _UnsafeEntryError(f"the link {entry.name!r} leads out of the folder, to {entry.link!r}")


def _make_folder(path: Path, entry: Entry) -> None:
    if path.is_dir():
        return
    try:
        path.mkdir(parents=True)
    except (FileExistsError, NotADirectoryError):
        raise _UnsafeEntryError(f"{entry.name!r} is both a file and a folder") from None


def _make_hard_link(path: Path, source: Path, entry: Entry) -> None:
    if source == path or not source.is_file():
        raise _UnsafeEntryError(
            f"the hard link {entry.name!r} refers to {entry.link!r}, expected an earlier file"
        )
    _clear(path, entry)
    path.hardlink_to(source)


def _write_file(path: Path, entry: Entry, tick: Callable[[], object]) -> None:
    _clear(path, entry)
    num_bytes = 0
    with entry.open() as source, path.open("xb") as file:
        while data := source.read(CHUNK_BYTES):
            num_bytes += len(data)
            if num_bytes > entry.num_bytes:
                break
            file.write(data)
            tick()
    if num_bytes != entry.num_bytes:
        expected = counted(entry.num_bytes, "byte")
        raise DamagedError(f"{entry.name!r}: expected {expected}, received {num_bytes:,} or more")


def _clear(path: Path, entry: Entry) -> None:
    """Remove an earlier entry of the same name, since the later one is used."""
    if path.is_dir():
        raise _UnsafeEntryError(f"{entry.name!r} is both a file and a folder")
    path.unlink(missing_ok=True)


def _moves(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield pairs of paths to rename, so that the content of one folder is merged into another."""
    for path in sorted(source.iterdir()):
        goal = target / path.name
        if not os.path.lexists(goal) or _is_same_file(path, goal):
            yield path, goal
        elif _is_folder(path) and _is_folder(goal):
            yield from _moves(path, goal)
        else:
            raise UserError(
                f"{goal}: differs from the archive's file of this name; move it, and run this again"
            )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_same_file(path: Path, other: Path) -> bool:
    if path.is_symlink() or other.is_symlink():
        return path.is_symlink() and other.is_symlink() and path.readlink() == other.readlink()
    return path.is_file() and other.is_file() and filecmp.cmp(path, other, shallow=False)


def _content(root: Path) -> Iterator[str]:
    """Return what is in a folder and one level below, up to `MAX_RECORDED`, to detect removed files."""
    paths = (path for pattern in ("*", "*/*") for path in root.glob(pattern))
    return (path.relative_to(root).as_posix() for path in islice(paths, MAX_RECORDED))


def _record_path(archive: Path, folder: Path) -> Path:
    return folder / f".{archive.name}.unpacked"


def _fingerprint(archive: Path) -> dict[str, int]:
    status = archive.stat()
    return {"num_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
