"""Read a take that was received: a WAV file with one channel of 16-bit samples, at the device's rate."""

from __future__ import annotations

import io

from asr.audio.recording import WINDOW_SAMPLES, Waveform
from asr.audio.wav import checked_wav, read_plain
from asr.server.requests.request_errors import invalid, too_large

RATES_HZ = (8000, 192_000)  # of microphones
LONGEST_S = 60.0


def received_take(body: bytes) -> tuple[Waveform, int]:
    """Return the (S,) samples of a take, and their rate.

    Raises:
        RefusalError: it is no such file, cut off, too short or too long.
    """
    stream = io.BytesIO(body)
    wav, reason = checked_wav(stream)
    if reason:
        raise invalid(f"the take is {reason}", code="invalid_audio")
    if wav is None or not wav.is_plain or wav.num_channels != 1:
        raise invalid("expected a WAV file with one channel of 16-bit samples", code="invalid_audio")
    if not RATES_HZ[0] <= wav.rate_hz <= RATES_HZ[1]:
        lowest, highest = RATES_HZ
        raise invalid(f"expected {lowest} to {highest} Hz, received {wav.rate_hz}", code="invalid_audio")
    if wav.num_frames < WINDOW_SAMPLES:
        raise invalid(f"expected at least {WINDOW_SAMPLES} samples, received {wav.num_frames}")
    if wav.num_frames > LONGEST_S * wav.rate_hz:
        raise too_large(f"expected a take of at most {LONGEST_S:g} s; read one sentence a take")
    return read_plain(stream, wav)[:, 0], wav.rate_hz
