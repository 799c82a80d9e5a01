"""How corpora lie on disks: files of a kind below a folder, and text files with all their quirks."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from asr.types import UserError

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif", ".au", ".sph", ".w64")
BYTE_ORDER_MARK = "\ufeff"


def files_below(folder: Path, suffixes: Iterable[str]) -> Iterator[Path]:
    """Files whose names end so, in upper case or lower; sorted within each folder, hidden ones left aside.

    Links to folders are followed, once each.
    """
    endings = tuple(suffix.lower() for suffix in suffixes)
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(endings) and not name.startswith("."):
                yield Path(parent, name)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a transcript with their numbers from 1, without those that are empty.

    UTF-8 with or without a byte order mark, UTF-16 with one, else GB 18030; any line ends; white space at
    both ends, full-width too, is cut.

    Raises:
        UserError: the file cannot be read, or is in none of these encodings.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot read this transcript ({error.strerror})") from None
    encodings = ["utf-16"] if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", "gb18030"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
            if stripped := line.strip().strip(BYTE_ORDER_MARK).strip():
                yield number, stripped
        return
    raise UserError(f"{path}: neither UTF-8 nor GB 18030; save this transcript again as UTF-8")


def plain_spaces(text: str) -> str:
    """A text with every run of white space, full-width included, as one space, in composed form (NFC)."""
    return " ".join(unicodedata.normalize("NFC", text).replace(BYTE_ORDER_MARK, "").split())
