"""Damaged MP3s write nothing of the decoder's to the terminal; what else is written there arrives."""

from __future__ import annotations

import ctypes
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio.decoder_notes import decoder_notes_logged
from asr.audio.recording import audio_blocks, audio_header, read_audio
from asr.base.errors import UserError

pytestmark = [
    pytest.mark.skipif("MP3" not in soundfile.available_formats(), reason="libsndfile without MP3"),
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="C's stderr can be set on Linux alone"),
]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Write an MP3 with zeros in its middle, for which libmpg123 has notes."""
    path = tmp_path / "damaged.mp3"
    soundfile.write(path, (0.1 * np.sin(np.arange(48000) * 0.05)).astype(np.float32), 16000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 300] = bytes(300)
    path.write_bytes(content)
    return path


def test_notes_about_a_damaged_recording_are_logged(
    damaged: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "asr.audio"):
        for read in (read_audio, audio_header, lambda path: list(audio_blocks(path, 1.0))):
            try:
                read(damaged)
            except UserError as error:
                assert "damaged.mp3" in str(error)  # noqa: PT017 (not each of them reads that far)
    assert capfd.readouterr().err == ""
    assert "libmpg123: Note" in caplog.text


def test_many_threads_decode_without_a_note_on_the_terminal(
    damaged: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def read(_: int) -> bool:
        try:
            read_audio(damaged)
        except UserError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(read, range(40)))) == 1
    assert capfd.readouterr().err == ""


def test_lines_of_other_libraries_arrive(capfd: pytest.CaptureFixture[str]) -> None:
    def write(line: bytes) -> None:
        stderr = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")
        ctypes.CDLL(None).fputs(line, stderr)

    with decoder_notes_logged():
        write(b"Note: Skipped 36 bytes in input.\n")
        with decoder_notes_logged():
            write(b"W0000 of another library\n")
    write(b"Note: this one is written afterwards\n")
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().err == "W0000 of another library\nNote: this one is written afterwards\n"
