"""Read and write manifests: one utterance per line, as JSON.

    {"id": "a-1", "audio": "audio/a-1.wav", "duration_s": 1.595, "text": "你好", "tokens": "ni3 hao3",
     "speaker": "a"}

`audio` is relative to the manifest's folder, or absolute. `tokens` are separated by spaces; `text`, `speaker`
and `corpus`, which only joint manifests have, may be missing. In manifests of `asr label`, `labelled_by`
describes the model that made text and tokens; see `asr.base.types.MachineLabel`.
"""

from __future__ import annotations

import codecs
import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from asr.base.system.files import is_utf8, whole_file
from asr.base.system.paths import path_on_disk
from asr.base.text.wording import listed
from asr.base.types import MachineLabel, Utterance

NUM_ERRORS = 20  # of broken lines in one message; `asr doctor` lists all
URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
LONGEST_S = 1e6  # eleven days: a longer duration is a mistake in the unit


@dataclass(frozen=True)
class Scan:
    """The utterances of a manifest and the errors in its broken lines.

    Attributes:
        utterances: by line number, from 1.
        broken: the error of each line without a valid utterance, by line number.
        has_byte_order_mark: whether the file begins with one, which is not part of the first line.
    """

    utterances: dict[int, Utterance] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    has_byte_order_mark: bool = False


def write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest, with audio paths relative to its folder if they are below it.

    The file appears complete or not at all.
    """
    folder = path.parent.resolve()
    with whole_file(path, "manifest") as file:
        for utterance in utterances:
            file.write(_line(utterance, folder))


def holds_utterances(path: Path, utterances: Iterable[Utterance]) -> bool:
    """Return whether a file is what `write_manifest` would write; a file that cannot be read is not."""
    folder = path.parent.resolve()
    try:
        with path.open("rb") as file:
            both = itertools.zip_longest(file, (_line(utterance, folder) for utterance in utterances))
            return all(line == expected for line, expected in both)
    except OSError:
        return False


def read_manifest(path: Path) -> list[Utterance]:
    """Read a manifest; audio paths are returned relative to the current folder, or absolute.

    Raises:
        UserError: the file is missing or empty, a line is not a valid record, or an id appears twice.
    """
    scan = scan_manifest(path)
    if scan.broken:
        errors = [f"{path}:{number}: {reason}" for number, reason in scan.broken.items()]
        raise UserError(listed(errors, NUM_ERRORS, separator="\n"))
    if not scan.utterances:
        raise UserError(f"{path}: no utterances in this manifest; prepare the corpus again")
    seen: dict[str, int] = {}
    for number, utterance in scan.utterances.items():
        if utterance.id in seen:
            raise UserError(
                f"{path}: duplicate id {utterance.id!r} in lines {seen[utterance.id]} and {number}; "
                "give each recording a unique id"
            )
        seen[utterance.id] = number
    return list(scan.utterances.values())


def scan_manifest(path: Path) -> Scan:
    """Read the valid lines of a manifest, and report the errors of the others.

    Only line feeds (and carriage returns before them) end a line: a transcript may hold other line breaks.

    Raises:
        UserError: the file cannot be read.
    """
    utterances: dict[int, Utterance] = {}
    broken: dict[int, str] = {}
    marked = False
    path = Path(path_on_disk(str(path)))
    if path.is_fifo() and path.parent.name != "fd":  # a shell's <(...) is /dev/fd/63, and has a writer
        raise UserError(f"{path}: expected a manifest, received a pipe; save its data to a file")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    return Scan(broken={1: "expected UTF-8, found UTF-16; save this file as UTF-8"})
                if number == 1 and line.startswith(codecs.BOM_UTF8):
                    marked, line = True, line.removeprefix(codecs.BOM_UTF8)
                try:
                    text = _decoded(line)
                    if text.strip():
                        utterances[number] = _utterance(text, path.parent)
                except UserError as error:
                    broken[number] = str(error)
    except OSError as error:
        raise UserError(f"{path}: cannot read this manifest ({error.strerror})") from None
    return Scan(utterances, broken, marked)


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        pass
    try:
        line.decode("gb18030")
    except UnicodeDecodeError:
        raise UserError("not UTF-8; save this file as UTF-8") from None
    raise UserError("expected UTF-8, found what looks like GB 18030; save this file as UTF-8")


def _line(utterance: Utterance, folder: Path) -> bytes:
    return f"{json.dumps(_record(utterance, folder), ensure_ascii=False)}\n".encode()


def _record(utterance: Utterance, folder: Path) -> dict[str, Any]:
    audio = Path(utterance.audio_path).resolve()
    if audio.is_relative_to(folder):
        audio = audio.relative_to(folder)
    return {
        "id": utterance.id,
        "audio": audio.as_posix(),
        "duration_s": round(utterance.duration_s, 4),
        "text": utterance.text,
        "tokens": " ".join(utterance.tokens),
        "speaker": utterance.speaker,
        **({"corpus": utterance.corpus} if utterance.corpus else {}),
        **({"labelled_by": dataclasses.asdict(label)} if (label := utterance.labelled_by) else {}),
    }


def _utterance(line: str, folder: Path) -> Utterance:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # a ValueError where a number has thousands of digits
        raise UserError(f"not a JSON object ({error})") from None
    if not isinstance(record, dict):
        raise UserError(f"expected a JSON object, received {line[:40]!r}")
    if "audio_filepath" in record and "audio" not in record:
        raise UserError("a line of NeMo's manifests; convert them with `asr prepare json_lines FOLDER`")
    duration_s = record.get("duration_s")
    # a boolean is an int to Python
    if (
        isinstance(duration_s, bool)
        or not isinstance(duration_s, int | float)
        or not 0 < duration_s < LONGEST_S
    ):
        raise UserError(f"duration_s: expected seconds above 0, received {duration_s!r}")
    return Utterance(
        id=_text(record, "id"),
        audio_path=path_on_disk(str(folder / _audio(record))),
        duration_s=float(duration_s),
        text=_text(record, "text", default=""),
        # the same few tokens recur: one copy of each takes a third of the memory
        tokens=tuple(map(sys.intern, _text(record, "tokens").split())),
        speaker=sys.intern(_text(record, "speaker", default="")),
        corpus=sys.intern(_text(record, "corpus", default="")),
        labelled_by=_machine_label(record.get("labelled_by")),
    )


def _machine_label(record: Any) -> MachineLabel | None:
    if record is None:
        return None
    if not isinstance(record, dict):
        raise UserError(f"labelled_by: expected a JSON object, received {record!r}")
    names = ("run", "model", "version", "date", "source")
    return MachineLabel(
        **{name: sys.intern(_text(record, name, default="")) for name in names},
        confidence=_number(record, "confidence"),
        begin_s=_number(record, "begin_s"),
    )


def _number(record: dict[str, Any], key: str) -> float:
    value = record.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"labelled_by: {key}: expected a number, received {value!r}")
    return float(value)


def _audio(record: dict[str, Any]) -> str:
    path = _text(record, "audio")
    if URL.match(path):
        raise UserError(f"audio: expected a path, received the address {path}; download the recording first")
    return path


def _text(record: dict[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise UserError(f"{key}: expected a string, received {value!r}")
    if "\0" in value or not is_utf8(value):
        raise UserError(f"{key}: UTF-8 cannot encode {value!r}; rename it")
    return value
