"""A model in one file, which is used wherever a run is; `asr export --format polyphone` writes it.

general.polyphone                  a zip archive
    model.json                     what it is: version of the format, digest of the weights, error rates
    card.md                        the same for people, with the licence
    config.toml                    [features] and [model]
    vocabulary.txt                 one token a line, the blank first
    units.model                    how words are split, where tokens are pieces of words
    decoder.toml                   decoder settings, if the run has some
    checkpoints/epoch-0012.npz     the weights

Unpacked, it is a run's directory. A file may be a stranger's: nothing in it is decompressed, so that it
cannot grow; no other name is accepted, so that no path leads out of the folder; the weights are numbers of
the size that their headers state, and no Python objects.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import io
import json
import math
import os
import re
import shutil
import struct
import tempfile
import tokenize
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from asr.base.errors import UserError
from asr.base.system.files import sha256_of, whole_file, whole_folder
from asr.base.system.lock import exclusive_lock
from asr.base.text.pieces import UNITS_MODEL
from asr.base.text.wording import file_size

SUFFIX = ".polyphone"
FORMAT = "polyphone"
VERSION = 1
ABOUT, CARD, CONFIG = "model.json", "card.md", "config.toml"
VOCABULARY, DECODER = "vocabulary.txt", "decoder.toml"
REQUIRED = (ABOUT, CONFIG, VOCABULARY)
OPTIONAL = (CARD, UNITS_MODEL, DECODER)
WEIGHTS = re.compile(r"checkpoints/epoch-\d{4,9}(-batch-\d{5,9})?\.npz")
SECTIONS = {"features", "model"}  # of the configuration; others name paths and functions
# of the decoder settings; another would be a path on the user's machine
LANGUAGE_MODELS = ("", "general", "not exported")
MAX_TEXT_BYTES = 4 << 20  # of a member other than the weights

# RuntimeError: an encrypted or compressed zip file; SyntaxError and TokenError: the header of an array
DAMAGE = (
    *(zipfile.BadZipFile, struct.error, ValueError, KeyError, EOFError, RuntimeError, RecursionError),
    *(OverflowError, MemoryError, SyntaxError, tokenize.TokenError, TypeError),
)


def pack(folder: Path, target: Path) -> None:
    """Write the files of a folder that belong to a model as one file; the digest is that of the weights.

    Raises:
        UserError: the file cannot be written.
    """
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    chosen = [name for name in names if name in (*REQUIRED, *OPTIONAL) or WEIGHTS.fullmatch(name)]
    with whole_file(target, "model file") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(chosen, key=lambda name: name != ABOUT):
            member = zipfile.ZipInfo(name)  # dated 1980, so that equal models are equal files
            member.external_attr = 0o644 << 16
            archive.writestr(member, (folder / name).read_bytes())


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return sha256_of(path).hex()
    except OSError as error:
        raise UserError(f"{path}: cannot read this model file ({error.strerror})") from None


def about_of(path: Path) -> Mapping[str, Any]:
    """Return what a model file says about itself.

    Raises:
        UserError: it is not such a file, or is one of a later version.
    """
    with _opened(path) as archive:
        return _about(path, archive)


def unpacked(path: Path) -> Path:
    """Return the folder with the contents of a model file, which is that of a run; unpack it at first use.

    It is in the cache, under the digest of the file.

    Raises:
        UserError: the file is damaged, not a model file, or of a later version.
    """
    folder = models_folder() / digest_of(path)[:16]
    target = folder / path.stem
    if (target / CONFIG).is_file():
        return target
    with _opened(path) as archive:
        contents = _checked(path, archive)
    with exclusive_lock(folder, "unpack", on_wait=lambda: None):
        if not target.is_dir():  # another process may have made it meanwhile
            with whole_folder(target, "model") as made:
                for name, content in contents.items():
                    (made / name).parent.mkdir(exist_ok=True)
                    (made / name).write_bytes(content)
    return target


def models_folder() -> Path:
    """Return the folder of models in the cache, or of this process where the cache cannot be written."""
    from asr.base.system.cache import cache_folder

    try:
        folder = cache_folder() / "models"
        folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else _folder_of_this_process()
    except (OSError, RuntimeError):
        return _folder_of_this_process()


@functools.cache
def _folder_of_this_process() -> Path:
    folder = tempfile.mkdtemp(prefix="polyphone-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a model file; whatever is wrong with it becomes a UserError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"{path}: cannot read this model file ({error.strerror or error})") from None
    except DAMAGE as error:
        raise UserError(
            f"{path}: expected a run's directory, or a model file that `asr export --format polyphone` "
            f"wrote, received another or a damaged file ({error or type(error).__name__}); download or "
            "export it again"
        ) from None


def _about(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    about = json.loads(_content(archive, archive.getinfo(ABOUT)))
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f'{ABOUT} does not state "format": "{FORMAT}"')
    version = about.get("file_version")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"{ABOUT} states no version")
    if version > VERSION:
        raise UserError(
            f"{path}: a model file of version {version}, from Polyphone {about.get('polyphone')}; this one "
            f"reads up to version {VERSION}: update it (pip install --upgrade polyphone)"
        )
    return about


def _checked(path: Path, archive: zipfile.ZipFile) -> dict[str, bytes]:
    """Return the content of each member by its name."""
    about = _about(path, archive)
    members = archive.infolist()
    names = [member.filename for member in members]
    weights = [name for name in names if WEIGHTS.fullmatch(name)]
    if unknown := [name for name in names if name not in (*REQUIRED, *OPTIONAL, *weights)]:
        raise ValueError(f"it has a member {unknown[0]!r}")
    if missing := [name for name in REQUIRED if name not in names]:
        raise ValueError(f"it has no {missing[0]}")
    if len(set(names)) < len(names) or len(weights) != 1:
        raise ValueError("expected each member once, and one of weights")
    if sum(member.file_size for member in members) > path.stat().st_size:
        raise ValueError("its members are larger than the file")
    contents = {member.filename: _content(archive, member) for member in members}
    if hashlib.sha256(contents[weights[0]]).hexdigest() != about.get("weights_sha256"):
        raise ValueError(f"the weights have another digest than {ABOUT} states")
    _check_arrays(contents[weights[0]])
    table = tomllib.loads(contents[CONFIG].decode("utf-8"))
    if foreign := sorted(table.keys() - SECTIONS):
        raise ValueError(f"{CONFIG} has {foreign[0]!r}, expected {' and '.join(sorted(SECTIONS))} alone")
    _check_decoder(tomllib.loads(contents.get(DECODER, b"").decode("utf-8")))
    return contents


def _check_decoder(settings: Mapping[str, Any]) -> None:
    """Raise an error unless decoder settings are numbers and a language model of every installation."""
    for key, value in settings.items():
        if key == "language_model":
            if value not in LANGUAGE_MODELS:
                raise ValueError(f'{DECODER} names the language model {value!r}, expected "" or "general"')
        elif not isinstance(value, int | float):
            raise ValueError(f"{DECODER}: expected a number for {key!r}, received {value!r}")


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a stored member, which are no more than the file has."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{member.filename} is compressed")
    if not WEIGHTS.fullmatch(member.filename) and member.file_size > MAX_TEXT_BYTES:
        most = file_size(MAX_TEXT_BYTES)
        raise ValueError(f"{member.filename} has {file_size(member.file_size)}, at most {most} is expected")
    return archive.read(member)


def _check_arrays(weights: bytes) -> None:
    """Raise an error unless an archive of arrays has numbers only, as many as it states."""
    with zipfile.ZipFile(io.BytesIO(weights)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > len(weights):
            raise ValueError("the weights are larger than their file")
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} of the weights is compressed")
            with archive.open(member) as file:
                _check_array(file, member)


def _check_array(file: IO[bytes], member: zipfile.ZipInfo) -> None:
    import numpy as np

    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file)
    if dtype.kind not in "fui":
        raise ValueError(f"{member.filename} of the weights has no numbers, but {dtype}")
    if min((0, *shape)) < 0 or len(file.read()) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{member.filename} of the weights has another size than it states")
