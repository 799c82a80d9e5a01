"""Manifests: one utterance a line, as JSON.

    {"id": "a-1", "audio": "audio/a-1.wav", "duration_s": 1.595, "text": "你好", "tokens": "ni3 hao3",
     "speaker": "a"}

`audio` is relative to the manifest's folder, or absolute. `tokens` are separated by spaces; `text` and
`speaker` may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from asr.files import is_utf8, read_lines, whole_file
from asr.types import UserError, Utterance

LONGEST_S = 1e6  # eleven days: what is longer is a mistake in the unit


def write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest, with audio paths relative to it where they lie below it.

    The file appears whole or not at all.
    """
    folder = path.parent.resolve()
    with whole_file(path, "manifest") as file:
        for utterance in utterances:
            file.write(f"{json.dumps(_record(utterance, folder), ensure_ascii=False)}\n".encode())


def read_manifest(path: Path) -> list[Utterance]:
    """Read a manifest; audio paths come back usable from the current folder.

    Raises:
        UserError: the file is missing or empty, a line is not such a record, or an id stands twice.
    """
    lines = read_lines(path, "manifest")
    utterances = [
        _utterance(line, path, number) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not utterances:
        raise UserError(f"{path}: no utterance in this manifest; prepare the corpus again")
    seen: dict[str, int] = {}
    for number, utterance in enumerate(utterances, start=1):
        if utterance.id in seen:
            raise UserError(
                f"{path}: id {utterance.id!r} stands twice, as record {seen[utterance.id]} and {number}"
            )
        seen[utterance.id] = number
    return utterances


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
    }


def _utterance(line: str, path: Path, number: int) -> Utterance:
    where = f"{path}:{number}"
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{where}: not a JSON object ({error})") from None
    if not isinstance(record, dict):
        raise UserError(f"{where}: expected a JSON object, received {line[:40]!r}")
    duration_s = record.get("duration_s")
    # a boolean is an int to Python
    if (
        isinstance(duration_s, bool)
        or not isinstance(duration_s, int | float)
        or not 0 < duration_s < LONGEST_S
    ):
        raise UserError(f"{where}: duration_s: expected seconds above 0, received {duration_s!r}")
    return Utterance(
        id=_text(where, record, "id"),
        audio_path=str(path.parent / _text(where, record, "audio")),
        duration_s=float(duration_s),
        text=_text(where, record, "text", default=""),
        tokens=tuple(_text(where, record, "tokens").split()),
        speaker=_text(where, record, "speaker", default=""),
    )


def _text(where: str, record: dict[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise UserError(f"{where}: {key}: expected a string, received {value!r}")
    if "\0" in value or not is_utf8(value):
        raise UserError(f"{where}: {key}: {value!r} cannot be written as UTF-8 text; rename it")
    return value
