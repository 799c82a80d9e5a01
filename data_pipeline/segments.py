"""Pieces of longer recordings -> WAV files of their own."""

from __future__ import annotations

import dataclasses
import functools
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.types import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.types import LeftOut, Recording
from data_pipeline.work import in_threads

END_TOLERANCE_S = 0.1  # times in lists are rounded
LONGEST_NAME_BYTES = 150
MOST_AT_ONCE = 4  # long recordings in memory


def cut_segments(
    recordings: Sequence[Recording], folder: Path, on_progress: OnProgress = ignore_progress
) -> Iterator[Recording | LeftOut]:
    """Write recordings that are pieces of a file below `folder`, at 16 kHz; whole files pass unchanged.

    A file is read once for all its pieces.
    """
    pieces: dict[str, list[Recording]] = {}
    for recording in recordings:
        if recording.begin_s or recording.end_s is not None:
            pieces.setdefault(recording.audio_path, []).append(recording)
        else:
            yield recording
    if not pieces:
        return
    folder.mkdir(parents=True, exist_ok=True)
    files = list(pieces)
    cut = functools.partial(_cut_file, pieces=pieces, folder=folder)
    results = in_threads(
        cut, files, "cutting long recordings", at_once=1, most_threads=MOST_AT_ONCE, on_progress=on_progress
    )
    for of_file in results:
        yield from of_file


def _cut_file(path: str, pieces: dict[str, list[Recording]], folder: Path) -> list[Recording | LeftOut]:
    try:
        waveform = read_audio(path)
    except UserError as error:
        return [
            LeftOut(piece.id, "a long recording that cannot be read", str(error)) for piece in pieces[path]
        ]
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    results: list[Recording | LeftOut] = []
    for piece in pieces[path]:
        end_s = duration_s if piece.end_s is None else piece.end_s
        if not 0 <= piece.begin_s < end_s <= duration_s + END_TOLERANCE_S:
            where = f"{piece.begin_s:g} to {end_s:g} s of {duration_s:.2f} s"
            results.append(LeftOut(piece.id, "times outside its recording", f"{path}: {where}"))
            continue
        if piece.begin_s == 0 and end_s >= duration_s - END_TOLERANCE_S:  # all of it
            results.append(dataclasses.replace(piece, end_s=None))
            continue
        samples = waveform[round(piece.begin_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)]
        wav = folder / f"{file_name(piece.id)}.wav"
        write_wav(wav, samples)
        results.append(dataclasses.replace(piece, audio_path=str(wav), begin_s=0.0, end_s=None))
    return results


def file_name(utterance_id: str) -> str:
    """A name for a file: the id, where every system can write it, else what can be, and a checksum."""
    plain = re.sub(r"[^\w.-]", "_", utterance_id).lstrip(".")
    plain = plain.encode()[:LONGEST_NAME_BYTES].decode(errors="ignore")
    changed = f"-{zlib.crc32(utterance_id.encode(errors='backslashreplace')):08x}"
    return plain if plain == utterance_id else plain + changed
