"""Cut segments of longer recordings into WAV files of their own, and read parts of long recordings."""

from __future__ import annotations

import dataclasses
import functools
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, audio_blocks, read_audio, write_wav
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.types import LeftOut, Recording
from data_pipeline.work import in_threads

END_TOLERANCE_S = 0.1  # because times in lists are rounded
MAX_NAME_BYTES = 150
MAX_IN_MEMORY = 4  # long recordings
BLOCK_S = 30.0  # of a long recording, read at once


def cut_segments(
    recordings: Sequence[Recording], folder: Path, on_progress: OnProgress = ignore_progress
) -> Iterator[Recording | LeftOut]:
    """Write segments as 16 kHz WAV files below `folder`; recordings that are whole files pass unchanged.

    A file is read once for all its segments.
    """
    segments: dict[str, list[Recording]] = {}
    for recording in recordings:
        if recording.begin_s or recording.end_s is not None:
            segments.setdefault(recording.audio_path, []).append(recording)
        else:
            yield recording
    if not segments:
        return
    folder.mkdir(parents=True, exist_ok=True)
    files = list(segments)
    cut = functools.partial(_cut_file, segments=segments, folder=folder)
    results = in_threads(
        cut, files, "cutting long recordings", at_once=1, max_threads=MAX_IN_MEMORY, on_progress=on_progress
    )
    for of_file in results:
        yield from of_file


def _cut_file(path: str, segments: dict[str, list[Recording]], folder: Path) -> list[Recording | LeftOut]:
    try:
        waveform = read_audio(path)
    except UserError as error:
        return [LeftOut(segment.id, "unreadable long recording", str(error)) for segment in segments[path]]
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    results: list[Recording | LeftOut] = []
    for segment in segments[path]:
        end_s = duration_s if segment.end_s is None else segment.end_s
        if not 0 <= segment.begin_s < end_s <= duration_s + END_TOLERANCE_S:
            where = f"{segment.begin_s:g} to {end_s:g} s of {duration_s:.2f} s"
            results.append(LeftOut(segment.id, "segment outside its recording", f"{path}: {where}"))
            continue
        if segment.begin_s == 0 and end_s >= duration_s - END_TOLERANCE_S:  # the whole recording
            results.append(dataclasses.replace(segment, end_s=None))
            continue
        samples = waveform[round(segment.begin_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)]
        wav = folder / f"{file_name(segment.id)}.wav"
        write_wav(wav, samples)
        results.append(dataclasses.replace(segment, audio_path=str(wav), begin_s=0.0, end_s=None))
    return results


def read_spans(path: str | Path, spans: Sequence[tuple[int, int]]) -> Iterator[Waveform]:
    """Yield the samples of spans of a recording of any length, reading one block after the other.

    Args:
        path: of the recording.
        spans: begin and end of each in samples at 16 kHz, in order and without overlaps.

    Raises:
        UserError: it cannot be read, or ends before a span does.
    """
    blocks = audio_blocks(path, BLOCK_S)
    held, begin = np.zeros(0, np.int16), 0  # what has been read and is still needed, and where it begins
    for first, last in spans:
        while begin + len(held) < last:
            kept = held[max(0, first - begin) :]
            begin += len(held) - len(kept)
            block = next(blocks, None)
            if block is None:
                raise UserError(f"{path}: the recording has become shorter; run the command again")
            held = np.concatenate([kept, block])
        yield held[first - begin : last - begin]


def file_name(utterance_id: str) -> str:
    """Return a file name for an id: the id if it is portable, else its portable part and a checksum."""
    plain = re.sub(r"[^\w.-]", "_", utterance_id).lstrip(".")
    plain = plain.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    checksum = f"-{zlib.crc32(utterance_id.encode(errors='backslashreplace')):08x}"
    return plain if plain == utterance_id else plain + checksum
