"""Transcribe many files in chunks, by a recognizer of this process or by the workers of a cluster.

for path, result in zip(paths, recognizer.transcribe_files(paths)):
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
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.transcript import Transcript


class LoadedFrom(NamedTuple):
    """What a recognizer was loaded from, to detect that another one differs."""

    files: tuple[Path, ...]  # of the model and the decoder
    decoder: str  # its settings

    @classmethod
    def of(cls, run: Run, checkpoint: Path, choice: DecoderChoice) -> LoadedFrom:
        """Return what a recognizer of a checkpoint and a decoder is loaded from."""
        described_by = (checkpoint, run.directory / "config.toml", run.directory / "vocabulary.txt")
        return cls((*described_by, *choice.files()), choice.identity())


class FileRecognizer(Protocol):
    """A recognizer of files: a `Recognizer`, or the workers of a cluster with the same model.

    Attributes:
        origin: what the model and its decoder were loaded from; None if unknown.
        num_devices: which share the files of a chunk.
    """

    @property
    def origin(self) -> LoadedFrom | None: ...  # noqa: D102

    @property
    def num_devices(self) -> int: ...  # noqa: D102

    def transcribe_files(
        self,
        paths: Sequence[Path],
        on_progress: OnProgress = ignore_progress,
        chunk_sizes: Sequence[int] | None = None,
    ) -> Iterator[Transcript | UserError]:
        """Yield the transcript of each file, in order, or the error of a file that cannot be read.

        The last digits of scores depend on what shares a batch, so only the same chunk gives the same scores.

        Args:
            paths: of the files.
            on_progress: receives how many recordings are done, beginning with 0; a chunk counts when the next
                one is requested. The note is how much of a long recording has been read.
            chunk_sizes: numbers of neighbouring files to read together; None for those of `file_chunks`.
        """
        ...


def file_chunks(
    paths: Sequence[Path], num_devices: int, chunk_sizes: Sequence[int] | None = None
) -> list[list[Path]]:
    """Split files into chunks to read together: of given sizes, or else limited in number and in bytes."""
    if chunk_sizes is not None:
        if sum(chunk_sizes) != len(paths):
            raise ValueError(
                f"`chunk_sizes`: expected {len(paths)} files in all, received {sum(chunk_sizes)}"
            )
        remaining = iter(paths)
        return [list(itertools.islice(remaining, size)) for size in chunk_sizes]
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
