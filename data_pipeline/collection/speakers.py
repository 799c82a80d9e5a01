"""The speakers of a corpus that is being recorded, each with the key of a link that nobody can guess.

speakers.tsv has a line for each: name, tab, key. Only its owner can read the file. The keys stay the same, so
that a link works after a restart.
"""

from __future__ import annotations

import os
import secrets
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from asr.base.errors import UserError
from asr.base.system.files import read_lines, whole_file
from asr.base.text.encodings import file_lines

SPEAKERS = "speakers.tsv"
KEY_BYTES = 16  # 128 random bits
MAX_NAME_CHARS = 40
IN_NAMES = " -_."  # besides letters, marks and digits: names become folders


def read_names(path: Path) -> list[str]:
    """Return the names in a file, the first column of each line.

    Raises:
        UserError: there is none, or one cannot be the name of a folder.
    """
    lines = [line.split("\t")[0].strip() for line in file_lines(path, "list of speakers")]
    names = [checked_name(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line]
    if not names:
        raise UserError(f"{path}: expected the name of a speaker in each line, found none")
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:  # some disks do not distinguish them
            raise UserError(f"{path}: the speaker {name!r} appears twice; give each a name")
        seen.add(name.casefold())
    return names


def checked_name(name: str, where: str = "`speaker`") -> str:
    """Return a name in its composed form.

    Args:
        name: of a speaker.
        where: it was given, for the error.

    Raises:
        UserError: it cannot be the name of a folder.
    """
    name = unicodedata.normalize("NFC", name)
    is_usual = all(char in IN_NAMES or unicodedata.category(char)[0] in "LMN" for char in name)
    if not is_usual or not 0 < len(name) <= MAX_NAME_CHARS or name[0] in IN_NAMES or name[-1] in IN_NAMES:
        raise UserError(
            f"{where}: expected a name of up to {MAX_NAME_CHARS} letters and digits, such as anna or 小明, "
            f"received {name!r:.60}"
        )
    return name


def keys_of(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the key of each speaker; new speakers get one, which is stored.

    Args:
        folder: of the corpus.
        names: of the speakers.

    Raises:
        UserError: the stored keys cannot be read, or new ones cannot be written.
    """
    path = folder / SPEAKERS
    stored = _read(path) if path.exists() else {}
    new = {name: secrets.token_urlsafe(KEY_BYTES) for name in names if name not in stored}
    for name in new:
        for other in stored:
            if other.casefold() == name.casefold():  # some disks do not distinguish them
                raise UserError(f"{folder}: received the speaker {name}, but has {other}; write it like that")
    if new:
        with whole_file(path, "list of speakers and keys") as file:
            os.chmod(file.name, 0o600)  # noqa: PTH101 (before the keys are in it)
            file.write("".join(f"{name}\t{key}\n" for name, key in {**stored, **new}.items()).encode())
    return {name: {**stored, **new}[name] for name in names}


def _read(path: Path) -> dict[str, str]:
    keys: dict[str, str] = {}
    for number, line in enumerate(read_lines(path, "list of speakers and keys"), 1):
        name, tab, key = line.partition("\t")
        if not (name and tab and len(key) >= KEY_BYTES):
            raise UserError(f"{path}:{number}: expected name, tab and key; remove the line to get a new key")
        keys[name] = key
    return keys
