"""Make the recordings that clients send from a run's test set, with their transcripts by `asr transcribe`."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from data_pipeline.manifests.manifest import read_manifest


@dataclass(frozen=True)
class Recording:
    """A recording and its transcript.

    Attributes:
        path: of a WAV file.
        waveform: its samples, (S,) int16 at 16 kHz.
        text: that `asr transcribe` writes.
        tokens: of the text.
    """

    path: Path
    waveform: Any
    text: str
    tokens: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Return the length of the recording."""
        return len(self.waveform) / SAMPLE_RATE_HZ


def clips_of(manifest: Path, count: int, seconds: float) -> list[Any]:
    """Return the clips of a test set whose length is nearest to this one."""
    near = sorted(read_manifest(manifest), key=lambda one: abs(one.duration_s - seconds))
    return [read_audio(one.audio_path) for one in near[:count]]


def joined_clips(manifest: Path, count: int, seconds: float, pause_s: float) -> list[Any]:
    """Return recordings of this length, each of other clips with pauses between them."""
    clips = [read_audio(one.audio_path) for one in read_manifest(manifest)]
    pause = np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.int16)
    endless = itertools.cycle(clips)
    found = []
    for _ in range(count):
        parts: list[Any] = []
        while sum(map(len, parts)) < seconds * SAMPLE_RATE_HZ:
            parts += [next(endless), pause]
        found.append(np.concatenate(parts)[: round(seconds * SAMPLE_RATE_HZ)])
    return found


def transcribed(run: Path, waveforms: Sequence[Any], folder: Path) -> list[Recording]:
    """Write recordings to files, and let `asr transcribe` transcribe them."""
    folder.mkdir()
    paths = [folder / f"{number:04}.wav" for number in range(len(waveforms))]
    for path, waveform in zip(paths, waveforms, strict=True):
        write_wav(path, waveform)
    command = [sys.executable, "-m", "asr", "transcribe", str(run), *map(str, paths), "--format", "jsonl"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    results = [json.loads(line) for line in lines]
    return [
        Recording(path, waveform, result["text"], tuple(result["tokens"]))
        for path, waveform, result in zip(paths, waveforms, results, strict=True)
    ]
