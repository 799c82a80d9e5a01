"""How corpora lie on disks: files of a kind below a folder, and text files with all their quirks."""

from __future__ import annotations

import contextlib
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from asr.base.types import UserError

PACKED_SUFFIXES = (".tgz", ".tar.gz", ".tar", ".zip")
BYTE_ORDER_MARK = "\ufeff"
PREPARED = "prepared.json"  # stands in every folder that `asr prepare` made
USUAL_SHARE = 0.9  # of the characters in a text in GB 18030, that the smaller GB 2312 has


def files_below(folder: Path, suffixes: Iterable[str]) -> Iterator[Path]:
    """Files whose names end so, in upper case or lower; sorted within each folder, hidden ones left aside.

    Links to folders are followed, once each; what `asr prepare` made inside of the folder is left aside.

    Raises:
        UserError: a folder cannot be read.
    """
    endings = tuple(suffix.lower() for suffix in suffixes)
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen or (PREPARED in names and Path(parent) != folder):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(endings) and not name.startswith("."):
                yield Path(parent, name)


def _refuse(error: OSError) -> None:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return  # nothing lies below it
    raise UserError(f"{error.filename}: cannot read this folder ({error.strerror})") from None


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a transcript with their numbers from 1, without those that are empty.

    White space at both ends, full-width too, is cut; encodings and line ends are those of `raw_lines`.

    Raises:
        UserError: the file cannot be read, or is in none of the encodings.
    """
    for number, line in raw_lines(path, "transcript"):
        if stripped := line.strip().strip(BYTE_ORDER_MARK).strip():
            yield number, stripped


def raw_lines(path: Path, what: str = "list") -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, white space kept, without those that are blank.

    UTF-8 with or without a byte order mark, UTF-16 with one, else GB 18030; any line ends.

    Args:
        path: of the file.
        what: the file is, for the error.

    Raises:
        UserError: the file cannot be read, or is in none of these encodings.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot read this {what} ({error.strerror})") from None
    text = _decoded(data, path, what).replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip().strip(BYTE_ORDER_MARK):
            yield number, line


def _decoded(data: bytes, path: Path, what: str) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    else:
        _refuse_damaged_utf8(data, path, what)
        encodings = ["utf-8-sig", "gb18030"]
    for encoding in encodings:
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            if encoding != "gb18030" or _looks_chinese(text):
                return text
    raise UserError(f"{path}: neither UTF-8 nor GB 18030; save this {what} again as UTF-8")


def _looks_chinese(text: str) -> bool:
    """Whether a text holds the characters people write: any bytes are something in GB 18030."""
    beyond = [char for char in text if not char.isascii()]
    usual = sum(bool(char.encode("gb2312", errors="ignore")) for char in beyond)
    return usual >= USUAL_SHARE * len(beyond)


def _refuse_damaged_utf8(data: bytes, path: Path, what: str) -> None:
    """A file that is UTF-8 but for a few bytes, which GB 18030 would take for other hanzi throughout."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", errors="replace")
        num_bad = text.count("\ufffd")
        if num_bad * 10 < sum(not char.isascii() for char in text):
            line = data.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{path}:{line}: UTF-8 with a damaged byte in this line ({num_bad} in all); mend this {what}"
            ) from None


def plain_spaces(text: str) -> str:
    """A text with every run of white space, full-width included, as one space, in composed form (NFC)."""
    return " ".join(unicodedata.normalize("NFC", text).replace(BYTE_ORDER_MARK, "").split())


def corpus_folder(source: Path, entries: Sequence[str], layout: str, *, at_least: int = 0) -> Path:
    """The folder that holds a corpus: the one a user names, or one right below it.

    Args:
        source: the folder named.
        entries: files and folders by which the corpus is known.
        layout: all that it should hold, for the error.
        at_least: how many of the entries do; 0 for all of them.

    Raises:
        UserError: there is no such folder; the message tells what is missing, and of archives not unpacked.
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
        f"{nearest}: no {', no '.join(missing)} below this folder, expected {layout}"
        + (f"; unpack {', '.join(packed)} first" if packed else "")
    )


def _num_held(folder: Path, entries: Sequence[str]) -> int:
    return sum((folder / entry).exists() for entry in entries)
