"""One recording, listened to: what is wrong with its file, and what can be told of its sound."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asr.audio.recording import (
    INT16_SCALE,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    AudioHeader,
    Waveform,
    audio_header,
    read_audio,
)
from asr.base.types import UserError
from data_pipeline.doctor.findings import Entry, Finding, about
from data_pipeline.doctor.quick import DURATION_TOLERANCE_S

MOST_SAMPLES = 1 << 26  # 70 minutes of 16 kHz mono; a worker needs up to 16 bytes for each
SILENCE_DB = -80.0  # about three steps of 16 bits: dither, hum of a dead line
QUIET_PEAK = 0.01
OFFSET = 0.01
CLIP_PEAK = 0.25  # flat tops lower than this are coarse steps, not clipping
CLIP_RUN = 3
CLIPPED_SHARE = 2e-4
CLIPPED_SAMPLES = 10
ZERO_TAIL_S = 1.0
ZERO_TAIL_SHARE = 0.3

# how asr.audio.recording begins what it says of a file, behind the file's name
REASONS = {
    "cannot read this file": "missing-audio",
    "a folder": "missing-audio",
    "empty file": "empty-audio",
    "cut off": "truncated-audio",
}


@dataclass(frozen=True, slots=True)
class Heard:
    """What listening to a file told. Levels are shares of full scale, taken at 16 kHz mono.

    Attributes:
        problem: a key of findings.KINDS where the file cannot be used; all else may be missing then.
        detail: of the problem.
        rate_hz: the file's own.
        num_channels: the file's own.
        duration_s: seconds that are there.
        peak: the highest sample.
        level_db: root mean square around the mean, in decibels below full scale.
        mean: the constant offset.
        num_clipped: samples inside flat tops.
        zero_tail_s: seconds of exact zeros at the end.
        digest: of the samples; the same for the same sound in another container.
    """

    problem: str = ""
    detail: str = ""
    rate_hz: int = 0
    num_channels: int = 0
    duration_s: float = 0.0
    peak: float = 0.0
    level_db: float = 0.0
    mean: float = 0.0
    num_clipped: int = 0
    zero_tail_s: float = 0.0
    digest: bytes = b""


def listen(path: str) -> Heard:
    """Decode a whole recording and measure it; whatever happens is told, never raised."""
    try:
        header = audio_header(path)
        if header.duration_s * header.rate_hz * header.num_channels > MOST_SAMPLES:
            return Heard(
                "oversized-audio",
                f"{header.duration_s:,.0f} s, {header.num_channels} channels at {header.rate_hz} Hz "
                "by its header; not listened to",
            )
        if header.duration_s * SAMPLE_RATE_HZ < WINDOW_SAMPLES:
            return Heard("too-short", f"{header.duration_s * 1000:.1f} ms")
        return measure(read_audio(path), header)
    except UserError as error:
        reason = str(error).removeprefix(f"{path}: ")
        codes = (code for start, code in REASONS.items() if reason.startswith(start))
        return Heard(next(codes, "corrupt-audio"), reason)
    except MemoryError:
        return Heard("oversized-audio", "its sound does not fit into memory")
    except Exception as error:  # a decoder may fail in any way: the other files are still to be heard
        return Heard("corrupt-audio", f"the decoder failed: {type(error).__name__}: {error}")


def measure(waveform: Waveform, header: AudioHeader) -> Heard:
    """What a recording's samples tell.

    Args:
        waveform: (S,) int16 at 16 kHz, not empty.
        header: what the file says of itself.
    """
    low, high = int(waveform.min()), int(waveform.max())
    mean = float(waveform.mean(dtype=np.float64))
    spread = float(waveform.std(dtype=np.float32)) / INT16_SCALE
    return Heard(
        rate_hz=header.rate_hz,
        num_channels=header.num_channels,
        duration_s=len(waveform) / SAMPLE_RATE_HZ,
        peak=max(-low, high) / INT16_SCALE,
        level_db=20 * float(np.log10(spread + 1e-6)),
        mean=mean / INT16_SCALE,
        num_clipped=_flat_samples(waveform, low) + _flat_samples(waveform, high),
        zero_tail_s=_zero_tail(waveform) / SAMPLE_RATE_HZ,
        digest=hashlib.sha256(waveform.tobytes()).digest()[:16],  # processors have it built in
    )


def sound_findings(entry: Entry, heard: Heard) -> Iterator[Finding]:
    """What is wrong with a recording that was listened to."""
    if heard.problem:
        yield about(entry, heard.problem, heard.detail)
        return
    yield from _length_findings(entry, heard)
    yield from _level_findings(entry, heard)
    if heard.rate_hz < SAMPLE_RATE_HZ:
        yield about(entry, "narrow-band", f"{heard.rate_hz:,} Hz: no sound above {heard.rate_hz / 2:,.0f} Hz")
    elif heard.rate_hz > SAMPLE_RATE_HZ:
        yield about(entry, "resampled", f"{heard.rate_hz:,} Hz")
    if heard.num_channels > 1:
        yield about(entry, "mixed-down", f"{heard.num_channels} channels")


def is_silent(heard: Heard) -> bool:
    """Whether nothing can be heard; a constant offset is no sound."""
    return heard.level_db < SILENCE_DB


def _length_findings(entry: Entry, heard: Heard) -> Iterator[Finding]:
    given_s = entry.utterance.duration_s
    if abs(heard.duration_s - given_s) > DURATION_TOLERANCE_S:
        yield about(
            entry, "wrong-duration", f"{heard.duration_s:.2f} s long, the manifest says {given_s:.2f} s"
        )
    tail_s = heard.zero_tail_s
    if not is_silent(heard) and tail_s > max(ZERO_TAIL_S, ZERO_TAIL_SHARE * heard.duration_s):
        yield about(entry, "zero-tail", f"the last {tail_s:.2f} s of {heard.duration_s:.2f} s")


def _level_findings(entry: Entry, heard: Heard) -> Iterator[Finding]:
    if is_silent(heard):
        yield about(entry, "silent", f"{heard.level_db:.0f} dBFS")
        return
    if heard.peak < QUIET_PEAK:
        yield about(entry, "quiet", f"peaks at {heard.peak:.2%} of full scale")
    share = heard.num_clipped / (heard.duration_s * SAMPLE_RATE_HZ)
    if heard.num_clipped >= CLIPPED_SAMPLES and share >= CLIPPED_SHARE:
        yield about(entry, "clipped", f"{share:.2%} of its samples")
    if abs(heard.mean) > OFFSET:
        yield about(entry, "offset", f"{heard.mean:+.1%} of full scale")


def _flat_samples(waveform: Waveform, extreme: int) -> int:
    """Samples that stay at the extreme for CLIP_RUN in a row: a wave that is whole has a single peak."""
    if abs(extreme) < CLIP_PEAK * INT16_SCALE:
        return 0
    at = waveform == extreme
    if np.count_nonzero(at) < CLIP_RUN:
        return 0
    middles = at[:-2] & at[1:-1] & at[2:]
    return int(np.count_nonzero(middles)) + 2 * int(np.count_nonzero(middles[1:] & ~middles[:-1]))


def _zero_tail(waveform: Waveform) -> int:
    if waveform[-1]:
        return 0
    backwards = waveform[::-1] != 0
    return int(backwards.argmax()) if backwards.any() else len(waveform)
