"""Keep decoded recordings in memory from one epoch to the next."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import BinaryIO

from asr.audio.recording import Waveform, read_audio

KEPT_BYTES = 512 << 20  # of samples, 4.6 hours


class DecodedRecordings:
    """Recordings; those that take long to decode are kept in memory, up to a limit.

    What is kept stays, unlike in a `SoundCache`: an epoch needs every recording once, so whatever made room
    for another would be needed again before that one.

    Args:
        limit: bytes of samples that may be kept.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._room = limit
        self._kept: dict[str, Waveform] = {}
        self._lock = threading.Lock()

    def __contains__(self, path: str) -> bool:
        return path in self._kept

    def read(self, path: str, fetched: BinaryIO | None = None) -> Waveform:
        """Return the (S,) int16 samples of a recording, read-only where it was kept; see `read_audio`.

        Args:
            path: of the recording.
            fetched: its contents, where they are in memory.
        """
        if path in self._kept:
            return self._kept[path]
        waveform = read_audio(path if fetched is None else fetched)
        # a WAV on a disk is in the system's own cache
        if Path(path).suffix.lower() != ".wav" or fetched is not None:
            with self._lock:
                if path not in self._kept and waveform.nbytes <= self._room:
                    self._room -= waveform.nbytes
                    self._kept[path] = waveform.copy()  # without what the decoder may have after its end
                    self._kept[path].flags.writeable = False
        return waveform
