"""Cut segments of longer recordings into WAV files of their own, and read parts of long recordings."""

from __future__ import annotations

import dataclasses
import functools
import re
import socket
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, audio_blocks, read_audio, write_wav
from asr.base.cluster import Cluster
from asr.base.errors import UserError
from asr.base.system.storage.refusals import StorageError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.types import LeftOut, Recording
from data_pipeline.work import Threads, in_parallel

END_TOLERANCE_S = 0.1  # because times in lists are rounded
MAX_NAME_BYTES = 150
MAX_IN_MEMORY = 4  # long recordings
SHARED_FOLDER = "choose an output folder that all workers share, such as one on a network disk"
BLOCK_S = 30.0  # of a long recording, read at once


def cut_segments(
    recordings: Sequence[Recording],
    folder: Path,
    on_progress: OnProgress = ignore_progress,
    cluster: Cluster | None = None,
) -> Iterator[Recording | LeftOut]:
    """Write segments as 16 kHz WAV files below `folder`; recordings that are whole files pass unchanged.

    A file is read once for all its segments.

    Raises:
        UserError: a worker of the cluster does not share the folder.
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
    files = [_LongRecording(path, tuple(of_file)) for path, of_file in segments.items()]
    cut = (
        functools.partial(_cut_there, folder=folder.absolute())
        if cluster
        else functools.partial(_cut_file, folder=folder)
    )
    results = in_parallel(
        cut, files, "cutting long recordings", 1, on_progress, cluster or Threads(max_threads=MAX_IN_MEMORY)
    )
    for of_file in results:
        for one in of_file:
            if cluster and isinstance(one, Recording) and one.audio_path not in segments:
                one = _as_seen_here(one, folder)
            yield one


@dataclass(frozen=True, slots=True)
class _LongRecording:
    """A file that is cut, and its segments."""

    audio_path: str
    segments: Sequence[Recording]


def _as_seen_here(segment: Recording, folder: Path) -> Recording:
    """Return a segment that a worker has cut, with its path as it is without a cluster.

    Raises:
        UserError: the worker wrote it to a folder of its own.
    """
    path = folder / Path(segment.audio_path).name
    if not path.exists():
        raise UserError(f"{path}: was written by a worker, but is not there; {SHARED_FOLDER}")
    return dataclasses.replace(segment, audio_path=str(path))


_of_worker = threading.BoundedSemaphore(MAX_IN_MEMORY)  # whose threads may be more


def _cut_there(recording: _LongRecording, folder: Path) -> list[Recording | LeftOut]:
    """Cut a file on a worker of a cluster."""
    if not folder.is_dir():
        raise UserError(f"worker on {socket.gethostname()}: does not find {folder}; {SHARED_FOLDER}")
    with _of_worker:
        return _cut_file(recording, folder)


def _cut_file(recording: _LongRecording, folder: Path) -> list[Recording | LeftOut]:
    path, segments = recording.audio_path, recording.segments
    try:
        waveform = read_audio(path)
    except StorageError:
        raise
    except UserError as error:
        return [LeftOut(segment.id, "unreadable long recording", str(error)) for segment in segments]
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    results: list[Recording | LeftOut] = []
    for segment in segments:
        end_s = duration_s if segment.end_s is None else segment.end_s
        if not 0 <= segment.begin_s < end_s <= duration_s + END_TOLERANCE_S:
            where = f"{segment.begin_s:g} to {end_s:g} s of {duration_s:.2f} s"
            results.append(LeftOut(segment.id, "segment outside its recording", f"{path}: {where}"))
            continue
        if segment.begin_s == 0 and end_s >= duration_s - END_TOLERANCE_S:  # the whole recording
            results.append(dataclasses.replace(segment, end_s=None))
            continue
        samples = waveform[round(segment.begin_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)]
        wav = folder / f"{file_name(segment.id)}-{_checksum(segment)}.wav"
        write_wav(wav, samples)
        results.append(dataclasses.replace(segment, audio_path=str(wav), begin_s=0.0, end_s=None))
    return results


def _checksum(segment: Recording) -> str:
    """Return a checksum of a segment's place, so that an earlier manifest never names other audio."""
    place = f"{segment.audio_path}\n{segment.begin_s}\n{segment.end_s}"
    return f"{zlib.crc32(place.encode(errors='surrogateescape')):08x}"


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
