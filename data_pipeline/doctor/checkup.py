"""Checks one recording: decodes its file, measures its audio, and reports defects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.audio.levels import QUIET_PEAK, SILENCE_DBFS, is_clipped, level_dbfs, num_clipped
from asr.audio.recording import (
    INT16_SCALE,
    SAMPLE_RATE_HZ,
    AudioHeader,
    Waveform,
    audio_header,
    read_audio,
    refuse_pipe,
)
from asr.base.errors import UserError
from asr.base.system.storage.refusals import MISSING, StorageError
from asr.base.text.wording import counted
from data_pipeline.doctor.findings import Finding, ManifestLine, about
from data_pipeline.doctor.quick import DURATION_TOLERANCE_S, LONGEST_S, is_too_short

MAX_SAMPLES = 1 << 26  # 70 minutes of 16 kHz mono; a worker needs up to 16 bytes for each
OFFSET = 0.01
ZERO_TAIL_S = 1.0
ZERO_TAIL_SHARE = 0.3
NO_STORAGE = "no-storage"  # no finding about a recording: the check ends

# a table's columns, in the order of Checkup's attributes
ROW = np.dtype(
    [
        ("rate_hz", "i8"),
        ("num_channels", "i4"),
        ("length_is_stated", "?"),
        ("duration_s", "f8"),
        ("peak", "f8"),
        ("level_db", "f8"),
        ("mean", "f8"),
        ("num_clipped", "i8"),
        ("zero_tail_s", "f8"),
        ("digest", "V16"),
    ]
)
NO_DIGEST = np.void(bytes(16))

# the beginnings of the errors of asr.audio.recording, after the file's name
REASONS = {
    "cannot read this file": "missing-audio",
    "expected an audio file": "missing-audio",
    "expected a file, received a pipe": "missing-audio",
    MISSING: "missing-audio",
    "empty file": "empty-audio",
    "cut off": "truncated-audio",
}


@dataclass(frozen=True, slots=True)
class Checkup:
    """Measurements of a recording. Levels are relative to full scale, measured at 16 kHz mono.

    Attributes:
        problem: a key of findings.KINDS, or NO_STORAGE, if the file cannot be used; all else may be missing
            then.
        detail: detail of the problem.
        rate_hz: sample rate of the file.
        num_channels: number of channels of the file.
        length_is_stated: whether a missing end of the file would be noticed.
        duration_s: duration of the decoded audio.
        peak: absolute value of the highest sample.
        level_db: root mean square around the mean, in dBFS.
        mean: mean of the samples, the constant offset (DC).
        num_clipped: number of samples in flat tops.
        zero_tail_s: seconds of exact zeros at the end.
        digest: digest of the samples, the same for the same audio in another container.
    """

    problem: str = ""
    detail: str = ""
    rate_hz: int = 0
    num_channels: int = 0
    length_is_stated: bool = True
    duration_s: float = 0.0
    peak: float = 0.0
    level_db: float = 0.0
    mean: float = 0.0
    num_clipped: int = 0
    zero_tail_s: float = 0.0
    digest: bytes = b""


class Checkups(Sequence[Checkup]):
    """Checkups of many recordings, in a table: 75 bytes each.

    Args:
        number: of the recordings; until one's checkup is set, it is an empty one.
    """

    def __init__(self, number: int) -> None:
        self.rows: npt.NDArray[np.void] = np.zeros(number, ROW)
        self.rows["length_is_stated"] = True
        self._problems: dict[int, tuple[str, str]] = {}

    @classmethod
    def of(cls, checkups: Sequence[Checkup]) -> Checkups:
        """Return a table of checkups."""
        table = cls(len(checkups))
        for index, one in enumerate(checkups):
            table[index] = one
        return table

    def __setitem__(self, index: int, one: Checkup) -> None:
        """Set the checkup of a recording."""
        self.rows[index] = tuple(getattr(one, name) for name in ROW.names or ())
        if one.problem:
            self._problems[index] = (one.problem, one.detail)

    def is_decoded(self) -> npt.NDArray[np.bool_]:
        """Return which recordings could be decoded, (N,)."""
        decoded: npt.NDArray[np.bool_] = self.rows["digest"] != NO_DIGEST
        return decoded

    def is_audible(self) -> npt.NDArray[np.bool_]:
        """Return which recordings were decoded and are not silent, (N,)."""
        return self.is_decoded() & ~(self.rows["level_db"] < SILENCE_DBFS)

    @override
    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Checkup: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Checkup]: ...
    @override
    def __getitem__(self, index: int | slice) -> Checkup | Sequence[Checkup]:
        if isinstance(index, slice):
            return [self[one] for one in range(len(self))[index]]
        index = range(len(self))[index]
        values = dict(zip(ROW.names or (), self.rows[index].item(), strict=True))
        values["digest"] = values["digest"].rstrip(b"\0") and values["digest"]
        problem, detail = self._problems.get(index, ("", ""))
        return Checkup(problem, detail, **values)


def check_recording(path: str) -> Checkup:
    """Decode a whole recording and measure it; failures are returned as a problem, never raised."""
    try:
        refuse_pipe(path)
        header = audio_header(path)
        if header.duration_s > LONGEST_S:
            return Checkup("oversized-audio", f"{header.duration_s:,.0f} s, expected at most {LONGEST_S} s")
        if header.duration_s * header.rate_hz * header.num_channels > MAX_SAMPLES:
            return Checkup(
                "oversized-audio",
                f"{header.duration_s:,.0f} s, {counted(header.num_channels, 'channel')} at {header.rate_hz} "
                "Hz by its header; not decoded",
            )
        if is_too_short(header.duration_s):
            return Checkup("too-short", f"{header.duration_s * 1000:.1f} ms")
        return measure(read_audio(path), header)
    except StorageError as error:
        return Checkup(NO_STORAGE, str(error))
    except UserError as error:
        reason = str(error).removeprefix(f"{path}: ")
        codes = (code for start, code in REASONS.items() if reason.startswith(start))
        return Checkup(next(codes, "corrupt-audio"), reason)
    except MemoryError:
        return Checkup("oversized-audio", "its audio does not fit into memory")
    except Exception as error:  # a decoder may fail in any way, and the other files must still be checked
        return Checkup("corrupt-audio", f"the decoder failed: {type(error).__name__}: {error}")


def measure(waveform: Waveform, header: AudioHeader) -> Checkup:
    """Measure a recording's samples.

    Args:
        waveform: (S,) int16 at 16 kHz, not empty.
        header: header of the file.
    """
    low, high = int(waveform.min()), int(waveform.max())
    mean = float(waveform.mean(dtype=np.float64))
    return Checkup(
        rate_hz=header.rate_hz,
        num_channels=header.num_channels,
        length_is_stated=header.length_is_stated,
        duration_s=len(waveform) / SAMPLE_RATE_HZ,
        peak=max(-low, high) / INT16_SCALE,
        level_db=level_dbfs(waveform),
        mean=mean / INT16_SCALE,
        num_clipped=num_clipped(waveform),
        zero_tail_s=_zero_tail(waveform) / SAMPLE_RATE_HZ,
        digest=hashlib.sha256(waveform.tobytes()).digest()[:16],  # accelerated by processors
    )


def audio_findings(entry: ManifestLine, checkup: Checkup) -> Iterator[Finding]:
    """Yield the defects of a recording that was checked."""
    if checkup.problem:
        yield about(entry, checkup.problem, checkup.detail)
        return
    yield from _length_findings(entry, checkup)
    yield from _level_findings(entry, checkup)
    if checkup.rate_hz < SAMPLE_RATE_HZ:
        yield about(
            entry, "narrow-band", f"{checkup.rate_hz:,} Hz: no content above {checkup.rate_hz / 2:,.0f} Hz"
        )
    elif checkup.rate_hz > SAMPLE_RATE_HZ:
        yield about(entry, "resampled", f"{checkup.rate_hz:,} Hz")
    if checkup.num_channels > 1:
        yield about(entry, "mixed-down", f"{checkup.num_channels} channels")
    if not checkup.length_is_stated:
        yield about(entry, "unstated-length", f"{checkup.duration_s:.2f} s are there")


def is_silent(checkup: Checkup) -> bool:
    """Return whether a recording is silent; a constant offset counts as silence."""
    return checkup.level_db < SILENCE_DBFS


def _length_findings(entry: ManifestLine, checkup: Checkup) -> Iterator[Finding]:
    manifest_s = entry.utterance.duration_s
    if abs(checkup.duration_s - manifest_s) > DURATION_TOLERANCE_S:
        yield about(
            entry, "wrong-duration", f"{checkup.duration_s:.2f} s long, the manifest says {manifest_s:.2f} s"
        )
    tail_s = checkup.zero_tail_s
    if not is_silent(checkup) and tail_s > max(ZERO_TAIL_S, ZERO_TAIL_SHARE * checkup.duration_s):
        yield about(entry, "zero-tail", f"the last {tail_s:.2f} s of {checkup.duration_s:.2f} s")


def _level_findings(entry: ManifestLine, checkup: Checkup) -> Iterator[Finding]:
    if is_silent(checkup):
        yield about(entry, "silent", f"{checkup.level_db:.0f} dBFS")
        return
    if checkup.peak < QUIET_PEAK:
        yield about(entry, "quiet", f"peaks at {checkup.peak:.2%} of full scale")
    num_samples = round(checkup.duration_s * SAMPLE_RATE_HZ)
    if is_clipped(checkup.num_clipped, num_samples):
        yield about(entry, "clipped", f"{checkup.num_clipped / num_samples:.2%} of its samples")
    if abs(checkup.mean) > OFFSET:
        yield about(entry, "offset", f"{checkup.mean:+.1%} of full scale")


def _zero_tail(waveform: Waveform) -> int:
    if waveform[-1]:
        return 0
    backwards = waveform[::-1] != 0
    return int(backwards.argmax()) if backwards.any() else len(waveform)
