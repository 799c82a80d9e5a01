"""Read JSON Lines, one object per line, as NeMo, WeNet, FunASR, PaddleSpeech and this project write them.

    {"audio_filepath": "a.wav", "duration": 1.6, "text": "你好", "offset": 3.2, "speaker": "a"}   NeMo
    {"key": "a-1", "wav": "a.wav", "txt": "你好", "start": 3.2, "end": 4.8}                      WeNet
    {"key": "a-1", "source": "a.wav", "target": "你好"}                                        FunASR
    {"utt": "a-1", "utt2spk": "a", "feat": "a.wav", "text": "你好"}                            PaddleSpeech
    {"id": "a-1", "audio": "a.wav", "text": "你好", "tokens": "ni3 hao3", "speaker": "a"}        ours

With `offset`, an utterance is `duration` seconds of its file; without it, the whole file. Audio paths are
relative to the list's folder, else to one above it, else to the current folder. A list may be compressed,
`.jsonl.gz`.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from asr.base.errors import UserError
from asr.base.system.shards import is_manifest_name
from asr.base.text.wording import counted
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.clip_lists import (
    NOT_A_TIME,
    ListedClip,
    Listing,
    assign_splits,
    contents,
    list_name,
    reading_of,
    refuse_missing,
)
from data_pipeline.corpora.layout import files_below, text_lines
from data_pipeline.corpora.matching import NO_TRANSCRIPT
from data_pipeline.manifests.left_out import partition
from data_pipeline.manifests.record import machine_label
from data_pipeline.types import Corpus, CorpusReading, LeftOut

AUDIO = ("audio_filepath", "audio", "wav", "audio_path", "path", "source", "feat")
TEXT = ("text", "txt", "sentence", "transcript", "transcription", "target")
ID = ("id", "key", "utt", "utt_id")
SPEAKER = ("speaker", "speaker_id", "spk", "utt2spk")
BEGIN = ("start", "offset")
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".list", ".manifest")
NUM_PROBED_LINES = 20
NOT_AN_OBJECT = "not a JSON object"
EXPECTED = 'one object per line, such as {"audio_filepath": "a.wav", "text": "你好"}'
LAYOUT = "one list, or {train,dev,test}.jsonl, or {train,dev,test}/data.list"

Record = dict[str, Any]


def read(source: Path, target: Path, on_progress: OnProgress = ignore_progress) -> CorpusReading:
    """Return the recordings of one list, or of all below a folder; the other parameters are not used.

    Raises:
        UserError: no list was found, or a list has no usable line.
    """
    refuse_missing(source)
    if source.is_file():
        return reading_of([_read_list(source, "all")])
    files = list(files_below(source, SUFFIXES))
    lists = {path: list_name(path, source) for path in files if _is_list(path)}
    if not lists:
        in_files = f"; no such object in the first lines of {counted(len(files), 'JSON file')}"
        others = in_files if files else ""
        raise UserError(
            f"{source}: no JSON Lines list below this folder; expected {LAYOUT}, {EXPECTED}; "
            f"{contents(source)}{others}"
        )
    chosen, left_out = assign_splits(lists)
    return reading_of((_read_list(path, split) for path, split in chosen), left_out)


def _is_list(path: Path) -> bool:
    """Say whether a file is a list of recordings, not other JSON such as settings."""
    if is_manifest_name(path.name):
        return True
    try:
        lines = [line for _, line in itertools.islice(text_lines(path), NUM_PROBED_LINES)]
    except UserError:
        return False
    records = [_record(line) for line in lines]
    return any(isinstance(record, dict) and first_of(record, AUDIO) is not None for record in records)


def _read_list(path: Path, split: str) -> Listing:
    entries, left_out = partition(_entry(f"{path}:{number}", line) for number, line in text_lines(path))
    return Listing(path, split, EXPECTED, entries, left_out)


def _record(line: str) -> Record | str:
    """Return the JSON object of a line, or the reason why it is not one."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return str(error)
    return record if isinstance(record, dict) else f"received {line[:40]}"


def _entry(where: str, line: str) -> ListedClip | LeftOut:
    record = _record(line)
    if isinstance(record, str):
        return LeftOut(where, NOT_AN_OBJECT, record)
    audio = first_of(record, AUDIO)
    if isinstance(audio, dict):  # the form of the Hugging Face datasets library
        audio = audio.get("path")
    if not isinstance(audio, str):
        return LeftOut(where, "no audio path", f"found {', '.join(record) or 'no key'}")
    text, tokens = first_of(record, TEXT), record.get("tokens")
    if text is None and tokens is None:
        return LeftOut(where, NO_TRANSCRIPT, f"found {', '.join(record)}")
    tokens = tokens.split() if isinstance(tokens, str) else tokens or []
    if not isinstance(text or "", str) or not _are_strings(tokens):
        return LeftOut(where, "text is not a string")
    try:
        begin_s, end_s = _span(record)
    except (TypeError, ValueError):
        return LeftOut(where, NOT_A_TIME)
    try:
        labelled_by = machine_label(record.get("labelled_by"))
    except UserError as error:
        return LeftOut(where, "labelled_by is not a description of a model", str(error))
    speaker = name_of(record, SPEAKER)
    return ListedClip(
        where,
        audio,
        text or "",
        name_of(record, ID),
        speaker,
        tuple(tokens),
        begin_s,
        end_s,
        labelled_by,
    )


def _are_strings(tokens: object) -> bool:
    return isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)


def first_of(record: Record, keys: tuple[str, ...]) -> Any:
    """Return the first value of these keys that is not null; None if there is none."""
    return next((record[key] for key in keys if record.get(key) is not None), None)


def name_of(record: Record, keys: tuple[str, ...]) -> str:
    """Return an id or a speaker as a string, since some lists write them as numbers."""
    name = first_of(record, keys)
    return str(name).strip() if isinstance(name, str | int) else ""


def _span(record: Record) -> tuple[float, float | None]:
    """Return begin and end in seconds; the whole file if no begin is given."""
    begin, end = first_of(record, BEGIN), record.get("end")
    if begin is None and end is None:
        return 0.0, None
    begin_s = float(begin or 0)
    if end is not None:
        return begin_s, float(end)
    duration = first_of(record, ("duration", "duration_s"))
    return begin_s, None if duration is None else begin_s + float(duration)


CORPUS = Corpus(
    read=read,
    about="your own recordings in JSON Lines, as written by NeMo, WeNet, FunASR, PaddleSpeech or Polyphone",
    layout=LAYOUT,
)
