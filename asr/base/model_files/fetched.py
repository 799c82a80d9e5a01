"""Copy a run, or a model file, from object storage into the cache, to use it there.

fetched("s3://runs/mandarin")
fetched("s3://models/mine.polyphone")
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from asr.base.errors import UserError
from asr.base.model_files.model_file import models_folder
from asr.base.system.files import cannot_write, whole_file
from asr.base.system.lock import exclusive_lock
from asr.base.system.storage.file_systems import file_system
from asr.base.system.storage.refusals import absent, as_user_errors
from asr.base.system.storage.store import Stored, files_below, find

logger = logging.getLogger(__name__)

LIST = "files.json"  # what is copied: size and version of each file
NOT_COPIED = ("tensorboard/",)


def fetched(address: str) -> Path:
    """Return a copy of what is at an address: the directory of a run, or a model file.

    Each file is copied once, and again when its size or its version has changed; one that is no longer there
    is removed. So the copy is what the address has now.

    Raises:
        UserError: nothing is there, or it cannot be read or written.
    """
    folder = models_folder() / "fetched" / hashlib.sha256(address.encode()).hexdigest()[:16]
    if find(address) is None:
        raise UserError(f"{address}: no run is there; correct the address, or copy the run there again")
    with exclusive_lock(folder, "fetch", on_wait=lambda: None):
        _copy(address, folder)
    return folder / _name(address)


def _name(address: str) -> str:
    return address.rstrip("/").rpartition("/")[2]


def _files_at(address: str) -> dict[str, Stored]:
    """Return the files to copy, named as their addresses end."""
    found, name = find(address), _name(address)
    if found is None:
        raise absent(address)
    if not found.is_folder:
        return {name: found}
    below = files_below(address).items()
    return {f"{name}/{one}": stored for one, stored in below if not one.startswith(NOT_COPIED)}


def _copy(address: str, folder: Path) -> None:
    """Make a folder hold the files at an address."""
    files = _files_at(address)
    wanted = {name: [stored.num_bytes, stored.version] for name, stored in files.items()}
    known = _known(folder)
    changed = [name for name in wanted if known.get(name) != wanted[name] or not (folder / name).exists()]
    if changed:
        logger.info("%s: copying it into %s", address, folder)
    for name in known.keys() - wanted.keys():
        (folder / name).unlink(missing_ok=True)
    for name in changed:
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{address}: {name}: expected a name within the run; rename it")
        _copy_file(f"{address.rstrip('/').rpartition('/')[0]}/{name}", path)
    after = _files_at(address) if changed else files
    for name in changed:
        if after.get(name) != files[name] or (folder / name).stat().st_size != files[name].num_bytes:
            raise UserError(f"{address}: {name} has changed while it was copied; try again")
    with whole_file(folder / LIST, "list of files") as file:
        file.write(json.dumps(wanted).encode())


def _copy_file(address: str, path: Path) -> None:
    """Copy a file; it appears complete or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()  # so that an error of the disk is not taken for one of the storage
    except OSError as error:
        raise cannot_write(path, "copy", error) from None
    with as_user_errors(address):
        file_system(address).get_file(address, str(part))
    part.replace(path)


def _known(folder: Path) -> dict[str, list[object]]:
    """Return what was copied before; nothing where that is not known."""
    try:
        known: dict[str, list[object]] = json.loads((folder / LIST).read_bytes())
    except (OSError, ValueError):
        return {}
    return known
