"""Find the files of a corpus on disk, and read its text files in any common encoding."""

from __future__ import annotations

import contextlib
import itertools
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from asr.audio.formats import AUDIO_SUFFIXES
from asr.base.errors import UserError
from asr.base.system.files import visible_files
from asr.base.text.encodings import file_lines

PACKED_SUFFIXES = (".tgz", ".tar.gz", ".tar", ".zip")
BYTE_ORDER_MARK = "\ufeff"
PREPARED = "prepared.json"  # in every folder that `asr prepare` made
MAX_SEARCHED = 200_000  # recordings, where a list's are not where it says


def files_below(folder: Path, suffixes: Iterable[str]) -> Iterator[Path]:
    """Yield the `visible_files` with these suffixes, in any case.

    Folders made by `asr prepare` below this folder are skipped.

    Raises:
        UserError: a folder cannot be read.
    """
    endings = tuple(suffix.lower() for suffix in suffixes)

    def is_prepared(parent: Path, names: Sequence[str]) -> bool:
        return PREPARED in names and parent != folder

    for path in visible_files(folder, is_prepared):
        if path.name.lower().endswith(endings):
            yield path


class FilesByName:
    """The recordings below a folder by their names, whatever the case and the Unicode form.

    Args:
        folder: searched until MAX_SEARCHED recordings are found, or a folder that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, list[Path]] = {}
        with contextlib.suppress(UserError):
            for path in itertools.islice(files_below(folder, AUDIO_SUFFIXES), MAX_SEARCHED):
                for key in (path.name, path.stem):
                    self._files.setdefault(comparable(key), []).append(path)

    def named(self, name: str) -> list[Path]:
        """Return the recordings of this name; of a name without a recording's suffix, those with any."""
        return self._files.get(comparable(name), [])


def comparable(name: str) -> str:
    """Return a file's name in one case and one Unicode form."""
    return unicodedata.normalize("NFC", name).casefold()


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-empty lines of a transcript with their numbers from 1.

    White space at both ends, full-width too, is removed; encodings and line ends are those of `file_text`.

    Raises:
        UserError: the file cannot be read, or is in none of the encodings.
    """
    for number, line in raw_lines(path, "transcript"):
        if stripped := line.strip().strip(BYTE_ORDER_MARK).strip():
            yield number, stripped


def raw_lines(path: Path, what: str = "list") -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank with their numbers from 1, white space kept.

    Args:
        path: of the file, in one of the encodings of `file_text`.
        what: the kind of file, for the error.

    Raises:
        UserError: the file cannot be read, or is in none of the encodings.
    """
    for number, line in enumerate(file_lines(path, what), start=1):
        if line.strip().strip(BYTE_ORDER_MARK):
            yield number, line


def plain_spaces(text: str) -> str:
    """Return the text in NFC with every run of white space, full-width included, as one space."""
    return " ".join(unicodedata.normalize("NFC", text).replace(BYTE_ORDER_MARK, "").split())


def corpus_folder(source: Path, entries: Sequence[str], layout: str, *, at_least: int = 0) -> Path:
    """Return the folder that holds a corpus: the one given, or one directly below it.

    Args:
        source: the folder given by the user.
        entries: files and folders that identify the corpus.
        layout: everything that it should hold, for the error.
        at_least: how many of the entries must exist; 0 for all of them.

    Raises:
        UserError: there is no such folder; the message lists what is missing, and archives to unpack.
    """
    if not source.is_dir():
        raise UserError(f"{source}: expected a folder that holds {layout}")
    needed = at_least or len(entries)
    if _num_held(source, entries) >= needed:
        return source
    with os.scandir(source) as found:
        children = sorted((entry.name, entry.is_dir()) for entry in found)
    below = [source / name for name, is_folder in children if is_folder and not name.startswith(".")]
    fullest = max(below, key=lambda folder: _num_held(folder, entries), default=source)
    if _num_held(fullest, entries) >= needed:
        return fullest
    nearest = fullest if _num_held(fullest, entries) > _num_held(source, entries) else source
    missing = [entry for entry in entries if not (nearest / entry).exists()]
    packed = [name for name, is_folder in children if not is_folder and name.endswith(PACKED_SUFFIXES)]
    raise UserError(
        f"{nearest}: no {', no '.join(missing)} below this folder; expected {layout}"
        + (f"; unpack {', '.join(packed)} first" if packed else "")
    )


def _num_held(folder: Path, entries: Sequence[str]) -> int:
    return sum((folder / entry).exists() for entry in entries)
