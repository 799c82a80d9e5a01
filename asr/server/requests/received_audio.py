"""Read recordings that were received: from bytes, within limits, in memory only."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, audio_blocks, audio_header
from asr.base.errors import UserError
from asr.base.text.wording import duration
from asr.server.requests.limits import MAX_CHANNELS
from asr.server.requests.request_errors import invalid, too_large

BLOCK_S = 30.0
SAMPLE_BYTES = 2
FIELD = "file"  # of a form, in all protocols that have one


class _Received(io.BytesIO):
    name = FIELD  # in error messages


def received_waveform(data: bytes, max_audio_s: float, reserve: Callable[[int], None]) -> Waveform:
    """Decode a recording of any container, rate and number of channels, as `asr.audio.recording.read_audio`.

    What is longer than it declares is decoded no further than the limit.

    Args:
        data: the contents of an audio file.
        max_audio_s: longest recording.
        reserve: receives the bytes of all samples before they are decoded, and as they are.

    Returns:
        (S,) int16 samples at 16 kHz.

    Raises:
        RefusalError: it is not audio, damaged, too short or too long; or by `reserve`.
    """
    try:
        header = audio_header(_Received(data))
        if header.num_channels > MAX_CHANNELS:
            raise invalid(f"expected at most {MAX_CHANNELS} channels, received {header.num_channels}", FIELD)
        refuse_too_long(header.duration_s, max_audio_s, FIELD)
        reserve(SAMPLE_BYTES * round(header.duration_s * SAMPLE_RATE_HZ))
        blocks, num_samples = [], 0
        for block in audio_blocks(_Received(data), BLOCK_S):
            blocks.append(block)
            num_samples += len(block)
            refuse_too_long(num_samples / SAMPLE_RATE_HZ, max_audio_s, FIELD)
            reserve(SAMPLE_BYTES * num_samples)
    except UserError as error:
        raise invalid(str(error), FIELD, code="invalid_audio") from None
    return np.concatenate(blocks)


def pcm_waveform(data: bytes, num_channels: int = 1, byte_width: int = 2) -> Waveform:
    """Return the first channel of plain samples.

    Args:
        data: interleaved little-endian integers; an incomplete last frame is left out.
        num_channels: at least 1.
        byte_width: of a sample, 2 or 4.
    """
    whole = data[: len(data) // (byte_width * num_channels) * byte_width * num_channels]
    samples = np.frombuffer(whole, f"<i{byte_width}").reshape(-1, num_channels)[:, 0]
    first: Waveform = (samples >> 16 if byte_width == 4 else samples).astype(np.int16)
    return first


def refuse_too_long(duration_s: float, max_audio_s: float, param: str | None = None) -> None:
    """Raise a RefusalError for a recording that is longer than the limit."""
    if duration_s > max_audio_s:
        raise too_large(f"expected at most {duration(max_audio_s)} of audio; cut the recording", param)
