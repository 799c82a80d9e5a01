"""Convert audio of any format to 16 kHz WAV files, on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.work import in_parallel


def convert_to_wav(
    pairs: Sequence[tuple[Path, Path]], task: str, on_progress: OnProgress = ignore_progress
) -> list[float | UserError]:
    """Write each source as a 16 kHz mono 16-bit WAV file.

    Args:
        pairs: (source, target) files; the targets' folders exist.
        task: its name in progress reports.
        on_progress: receives how many files are written.

    Returns:
        For each pair its duration in seconds, or the error of a source that cannot be read.
    """

    def convert(pair: tuple[Path, Path]) -> float | UserError:
        source, target = pair
        try:
            waveform = read_audio(source)
        except UserError as error:
            return error
        # a target that cannot be written is not this recording's fault: it stops everything
        write_wav(target, waveform)
        return len(waveform) / SAMPLE_RATE_HZ

    # libsndfile and SciPy release the interpreter lock while they work
    return list(in_parallel(convert, pairs, task, at_once=1, on_progress=on_progress))
