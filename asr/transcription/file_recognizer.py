"""Transcribe many files in chunks, by a recognizer of this process or by the workers of a cluster.

for path, result in zip(paths, transcribe_files(recognizer, paths)):
    print(path, result)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from asr.model.runner import BYTES_AT_ONCE, FILES_AT_ONCE
from asr.transcription.transcript import Transcript


class LoadedFrom(NamedTuple):
    """Identifies what a recognizer was loaded from, to detect that another one differs."""

    files: tuple[Path, ...]  # of the model and the decoder
    decoder: str  # its settings


class FileRecognizer(Protocol):
    """Transcribes files: a `Recognizer`, or the workers of a cluster with the same model.

    Attributes:
        origin: what the model and its decoder were loaded from; None if unknown.
        num_devices: which share the files of a chunk.
    """

    @property
    def origin(self) -> LoadedFrom | None: ...  # noqa: D102

    @property
    def num_devices(self) -> int: ...  # noqa: D102

    def transcribe_chunks(
        self, chunks: Sequence[Sequence[Path]], on_progress: OnProgress
    ) -> Iterator[Sequence[Transcript | UserError]]:
        """Yield the transcripts of the files of each chunk, or the errors of files that cannot be read.

        The last digits of scores depend on what shares a batch, so only the same chunk gives the same scores.

        Args:
            chunks: see `file_chunks`.
            on_progress: receives how many recordings are done, beginning with 0; a chunk counts when the next
                one is requested. The note is how much of a long recording has been read.
        """
        ...


def transcribe_files(
    recognizer: FileRecognizer, paths: Sequence[Path], on_progress: OnProgress = ignore_progress
) -> Iterator[Transcript | UserError]:
    """Yield the transcript of each file, in order, or the error of a file that cannot be read."""
    chunks = file_chunks(paths, recognizer.num_devices)
    return itertools.chain.from_iterable(recognizer.transcribe_chunks(chunks, on_progress))


def file_chunks(paths: Sequence[Path], num_devices: int) -> list[list[Path]]:
    """Split files into chunks to read together, limited in number and in bytes."""
    max_files, max_bytes = FILES_AT_ONCE * num_devices, BYTES_AT_ONCE * num_devices
    chunks: list[list[Path]] = []
    num_bytes = 0
    for path in paths:
        size = _size_bytes(path)
        if not chunks or len(chunks[-1]) == max_files or num_bytes + size > max_bytes:
            chunks.append([])
            num_bytes = 0
        chunks[-1].append(path)
        num_bytes += size
    return chunks


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0  # reading the file reports why
