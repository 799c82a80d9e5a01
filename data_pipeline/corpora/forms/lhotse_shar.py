"""Read lhotse's Shar: cuts.000000.jsonl.gz with a cut a line, and recording.000000.tar with their audio.

A supervision of a cut is an utterance; its times are those in the cut, whose audio is a file of the archive.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from asr.base.errors import UserError
from data_pipeline.corpora.clip_lists import NOT_A_TIME, ListedClip
from data_pipeline.corpora.layout import files_below
from data_pipeline.corpora.matching import NO_AUDIO, NO_TRANSCRIPT
from data_pipeline.corpora.tar_members import Member, members_of
from data_pipeline.types import LeftOut

CUTS = re.compile(r"cuts\.(\w+)\.jsonl(\.gz)?")
MANIFEST = (".json", ".nometa", ".nodata")  # beside the audio of a cut
SAME_S = 0.005  # by which the end of a cut and of its only supervision may differ


def cuts_below(source: Path) -> list[Path]:
    """Return the lists of cuts below a folder."""
    if source.is_file():
        return []
    return [path for path in files_below(source, (".jsonl", ".jsonl.gz")) if CUTS.fullmatch(path.name)]


def number_of(path: Path) -> str:
    """Return the number of a list of cuts, as in its name; of another file, its name without suffixes."""
    found = CUTS.fullmatch(path.name)
    return found[1] if found else path.name.split(".")[0]


def archive_of(path: Path) -> Path:
    """Return the archive with the recordings of a list of cuts."""
    return path.with_name(f"recording.{number_of(path)}.tar")


def read_cuts(path: Path) -> Iterator[ListedClip | LeftOut]:
    """Yield the supervisions of a list of cuts, with their audio in the archive of the same number.

    Raises:
        UserError: the archive is not there, or a file is damaged.
    """
    archive = archive_of(path)
    if not archive.exists():
        raise UserError(f"{archive}: not there, but {path.name} is; copy both")
    members, damaged = members_of(archive)
    recordings = [member for member in members if not member.name.endswith(MANIFEST)]
    # a cut's id may hold dots and slashes
    audio = {str(PurePosixPath(member.name).with_suffix("")): member for member in recordings}
    for where, cut in _lines(path):
        if isinstance(cut, LeftOut):
            yield cut
        elif (member := audio.get(str(cut.get("id")))) is None:
            yield LeftOut(where, NO_AUDIO, f"no recording of {cut.get('id')} in {archive}")
        elif isinstance(supervisions := cut.get("supervisions"), list) and supervisions:
            alone = len(supervisions) == 1
            for supervision in supervisions:
                yield _utterance(where, cut, supervision, member, alone)
        else:
            yield LeftOut(where, NO_TRANSCRIPT, str(cut.get("id")))
    yield from damaged


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any] | LeftOut]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{path}:{number}"
                try:
                    cut = json.loads(line)
                except (ValueError, RecursionError) as error:
                    cut = LeftOut(where, "not a JSON object", str(error))
                yield where, cut if isinstance(cut, dict | LeftOut) else LeftOut(where, "not a JSON object")
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cut off or damaged ({error}); copy it again") from None


def _utterance(
    where: str, cut: dict[str, Any], supervision: Any, member: Member, alone: bool
) -> ListedClip | LeftOut:
    if not isinstance(supervision, dict) or not isinstance(supervision.get("text"), str):
        return LeftOut(where, NO_TRANSCRIPT, str(cut.get("id")))
    try:
        begin_s, length_s = float(supervision["start"]), float(supervision["duration"])
        duration_s = float(cut["duration"])
    except (KeyError, TypeError, ValueError):
        return LeftOut(where, NOT_A_TIME, str(cut.get("id")))
    name = str(cut["id"] if alone else supervision.get("id") or f"{cut['id']}-{begin_s:.2f}")
    speaker = supervision.get("speaker")
    speaker = speaker if isinstance(speaker, str) else ""
    if abs(begin_s) < SAME_S and abs(begin_s + length_s - duration_s) < SAME_S:
        return ListedClip(where, member.path, supervision["text"], name, speaker)
    begin_s, end_s = max(0.0, begin_s), min(duration_s, begin_s + length_s)
    return ListedClip(where, member.path, supervision["text"], name, speaker, (), begin_s, end_s)
