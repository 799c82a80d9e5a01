"""Manifests of one corpus in several files, its shards, which a name with wildcards stands for.

for shard in shards_of(Path("data/mine/train-*.jsonl.gz")):  # or an address, s3://corpus/train-*.jsonl.gz
    with open_shard(shard) as file:
        ...
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from asr.base.errors import UserError
from asr.base.system.storage.address import Address, path_of

MANIFEST_SUFFIX, COMPRESSED = ".jsonl", ".gz"
SUFFIXES = (MANIFEST_SUFFIX, MANIFEST_SUFFIX + COMPRESSED)
WILDCARDS = re.compile(r"[*?\[]")
NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.jsonl(?:\.gz)?)")
UNNAMED = "all"  # what a corpus is called whose name begins with a wildcard


def is_pattern(path: Path) -> bool:
    """Return whether a path stands for files by wildcards in its last name, and does not exist itself."""
    return bool(WILDCARDS.search(path.name)) and not path.exists()


def is_manifest_name(name: str) -> bool:
    """Return whether a file is a manifest by its suffix."""
    return name.lower().endswith(SUFFIXES)


def is_compressed(path: Path) -> bool:
    """Return whether a manifest is compressed, by its suffix."""
    return path.name.lower().endswith(COMPRESSED)


def shards_of(path: Path) -> list[Path]:
    """Return the files of a manifest: itself, or those its wildcards stand for, in the order of their names.

    Other files, such as `train.jsonl.checked`, are not among them, whatever the wildcards.

    Of numbered shards, `train-00003-of-00012.jsonl.gz`, all that the wildcards stand for must be there.

    Raises:
        UserError: no file has such a name, or a numbered shard is missing.
    """
    path = path_of(path)
    if not is_pattern(path):
        if WILDCARDS.search(str(path.parent)) and not path.exists() and not path.parent.exists():
            raise UserError(f"{path}: expected wildcards in the name of the files only; name one folder")
        return [path]
    found = _found(path)
    if not found:
        raise UserError(
            f"{path}: no manifest has such a name; expected files that end in {' or '.join(SUFFIXES)}, such "
            f"as {path.with_name('train-00000.jsonl')}"
        )
    _refuse_incomplete(path, [shard.name for shard in found])
    return found


def numbered(name: str, number: int, count: int, suffix: str) -> str:
    """Return the name of one of several shards, numbered from 0: `train-00003-of-00012.jsonl.gz`."""
    return f"{name}-{number:05d}-of-{count:05d}{suffix}"


def _refuse_incomplete(pattern: Path, found: Sequence[str]) -> None:
    """Raise a UserError if shards are missing, such as those that an interrupted command did not write."""
    matches = list(filter(None, map(NUMBERED.fullmatch, found)))
    sets = {(match["name"], match["suffix"], int(match["count"])) for match in matches}
    for name, suffix, count in sorted(sets):
        names = [numbered(name, number, count, suffix) for number in range(count)]
        missing = [one for one in names if fnmatch.fnmatchcase(one, pattern.name) and one not in found]
        if missing:
            raise UserError(
                f"{pattern}: {len(missing):,} of {count:,} shards missing, such as {missing[0]}; copy them, "
                "or prepare the corpus again"
            )
    if len({name for name, _, _ in sets}) < len(sets):
        counts = ", ".join(f"{count:,}" for count in sorted({count for _, _, count in sets}))
        raise UserError(
            f"{pattern}: shards of different sets ({counts} shards); remove those of the older one"
        )


def has_manifest(path: Path) -> bool:
    """Return whether a manifest, or a shard of it, is there."""
    path = path_of(path)
    return bool(_found(path)) if is_pattern(path) else path.exists()


def _found(path: Path) -> list[Path]:
    if isinstance(path, Address):
        return sorted(found for found in path.parent.glob(path.name) if is_manifest_name(found.name))
    names = glob.glob(path.name, root_dir=path.parent)  # noqa: PTH207 (pathlib finds hidden files, too)
    return [path.parent / name for name in sorted(names) if is_manifest_name(name)]


def single_file(path: Path) -> Path:
    """Return what a manifest is called in one file: `train.jsonl` for `train-*.jsonl` or `train.jsonl.gz`."""
    if not is_pattern(path):
        return path.with_suffix("") if path.name.lower().endswith(SUFFIXES[1]) else path
    before, *_ = WILDCARDS.split(path.name)
    return path.with_name((before.rstrip("-_.") or UNNAMED) + MANIFEST_SUFFIX)


@contextlib.contextmanager
def open_shard(path: Path) -> Iterator[BinaryIO]:
    """Open a manifest of one file for reading; one in `.gz` is decompressed.

    Raises:
        UserError: it is damaged or cut off; an OSError for a file that cannot be read.
    """
    if not is_compressed(path):
        with path.open("rb") as file:
            yield file
        return
    try:
        with path.open("rb") as file, gzip.open(file) as compressed:
            yield cast(BinaryIO, compressed)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path}: expected a whole gzip file, found one that is damaged or half-written ({error}); "
            "write it again"
        ) from None
