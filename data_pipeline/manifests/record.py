"""One line of a manifest: checked, read and written."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

from asr.base.errors import UserError
from asr.base.system.files import is_utf8
from asr.base.system.paths import path_on_disk
from asr.base.system.storage.address import is_address, path_of
from asr.base.types import MachineLabel, Utterance

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
LONGEST_S = 1e6  # eleven days: a longer duration is a mistake in the unit
PLAIN_PATH = re.compile(r"(?:[^/.][^/]*/)*[^/.][^/]*")  # which pathlib leaves as it is
ESCAPE = "\\u"  # without it, a line that is UTF-8 holds neither NUL nor half a surrogate pair
JSON_SPACE = " \t\n\r"
TEXTS = {"id": None, "audio": None, "text": "", "tokens": None, "speaker": "", "corpus": ""}  # with defaults

Record: TypeAlias = dict[str, Any]
Identity: TypeAlias = tuple[str, float, tuple[str, ...]]  # id, duration_s, tokens

_decoder = json.JSONDecoder()


def checked_record(line: str) -> Record:
    """Return the record of a line.

    Raises:
        UserError: the line is not a valid record.
    """
    record = _json(line)
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
        if {"audio", "wav"} & record.keys() and not {"tokens", "duration_s"} & record.keys():
            raise UserError("a line without tokens; `asr prepare json_lines` makes manifests of such a list")
        raise UserError(f"duration_s: expected seconds above 0, received {duration_s!r}")
    is_plain = ESCAPE not in line
    for name, default in TEXTS.items():
        value: Any = record.get(name)
        if not (isinstance(value, str) and is_plain):
            _check_text(value, name, default)
        if name == "audio" and "://" in value and URL.match(value) and not is_address(value):
            raise UserError(
                f"audio: expected a path, or an address in object storage such as s3://, received {value}; "
                "download the recording first"
            )
    if record.get("labelled_by") is not None:
        machine_label(record["labelled_by"])
    return record


def utterance_of(line: bytes, folder: str) -> Utterance:
    """Return the utterance of a line that has been checked.

    Args:
        line: of a manifest.
        folder: of the manifest, "" for the current one, with a slash at its end otherwise.
    """
    record = _json(line.decode())
    return Utterance(
        id=record["id"],
        audio_path=path_on_disk(_audio_path(folder, record["audio"])),
        duration_s=float(record["duration_s"]),
        text=record.get("text") or "",
        # the same few tokens recur: one copy of each takes a third of the memory
        tokens=tuple(map(sys.intern, record["tokens"].split())),
        speaker=sys.intern(record.get("speaker") or ""),
        corpus=sys.intern(record.get("corpus") or ""),
        labelled_by=machine_label(record.get("labelled_by")),
    )


def identity_of(line: bytes) -> Identity:
    """Return what decides, in a line that has been checked, whether an utterance is still the same."""
    record = _json(line.decode())
    return record["id"], float(record["duration_s"]), tuple(record["tokens"].split())


def line_of(utterance: Utterance, folder: Path) -> bytes:
    """Return the line of an utterance in a manifest of a folder, the line feed included."""
    return f"{json.dumps(_record(utterance, folder), ensure_ascii=False)}\n".encode()


def folder_prefix(folder: Path) -> str:
    """Return what is before a relative path to make it one within a folder."""
    name = str(folder)
    return "" if name == "." else name if name.endswith("/") else f"{name}/"


def _json(line: str) -> Any:
    try:
        value, end = _decoder.raw_decode(line)
        if not line[end:].strip(JSON_SPACE):
            return value
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(line)  # with white space before it, or with an error to report
    except (ValueError, RecursionError) as error:  # a ValueError where a number has thousands of digits
        raise UserError(f"not a JSON object ({error})") from None


def audio_in(folder: Path, audio_path: str) -> str:
    """Return how a manifest of a folder, an absolute path, names a recording."""
    audio = path_of(audio_path).resolve()
    return (audio.relative_to(folder) if audio.is_relative_to(folder) else audio).as_posix()


def _record(utterance: Utterance, folder: Path) -> Record:
    return {
        "id": utterance.id,
        "audio": audio_in(folder, utterance.audio_path),
        "duration_s": round(utterance.duration_s, 4),
        "text": utterance.text,
        "tokens": " ".join(utterance.tokens),
        "speaker": utterance.speaker,
        **({"corpus": utterance.corpus} if utterance.corpus else {}),
        **({"labelled_by": dataclasses.asdict(label)} if (label := utterance.labelled_by) else {}),
    }


def _audio_path(folder: str, audio: str) -> str:
    if PLAIN_PATH.fullmatch(audio):
        return folder + audio
    return audio if is_address(audio) else str(path_of(folder) / audio)


def machine_label(record: Any) -> MachineLabel | None:
    """Return the description of the model that labelled an utterance; None where people did.

    Raises:
        UserError: it is not such a description.
    """
    if record is None:
        return None
    if not isinstance(record, dict):
        raise UserError(f"labelled_by: expected a JSON object, received {record!r}")
    names = ("run", "model", "version", "date", "source")
    return MachineLabel(
        **{name: sys.intern(_check_text(record.get(name), name, "")) for name in names},
        confidence=_number(record, "confidence"),
        begin_s=_number(record, "begin_s"),
    )


def _number(record: Record, key: str) -> float:
    value = record.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"labelled_by: {key}: expected a number, received {value!r}")
    return float(value)


def _check_text(value: Any, key: str, default: str | None) -> str:
    """Return a field's text, or its default where it is missing."""
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise UserError(f"{key}: expected a string, received {value!r}")
    if "\0" in value or not is_utf8(value):
        raise UserError(f"{key}: UTF-8 cannot encode {value!r}; rename it")
    return value
