"""Converts the frames that CTC aligns tokens to into the interval of time of each token.

A CTC model emits a token in one frame or two, soon after the token begins, and blanks for the rest of it. So
the boundary between two tokens lies nearer to the frame of the second. Where the recording is quiet between
them, the first token ends with the sound before the pause, and the second begins with the sound after it.

Measured on spoken digits of an unseen speaker joined without a gap (415 joins, frames of 80 ms): the mean
error of a boundary is 29 ms, where the middle between the two frames has 69 ms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.audio.voice_activity import stretches
from asr.ctc.forced_alignment import TokenAlignment

BOUNDARY_SHARE = 0.75  # of the way from a token's last frame to the next one's first
LONGEST_LEAD_S, LONGEST_TAIL_S = 0.12, 0.35  # before a token's first frame, and after its last
QUIET_DB = 25.0  # below the loudest sound nearby
NEAR_S = 1.5
SHORTEST_PAUSE_S = 0.08
STEP_S = 0.01

Bools = npt.NDArray[np.bool_]
Seconds = npt.NDArray[np.float64]


def token_intervals(
    alignment: TokenAlignment, frame_s: float, first_middle_s: float, duration_s: float, quiet: Bools
) -> tuple[Seconds, Seconds]:
    """Return when each token begins and ends, in order and without overlap; pauses belong to no token.

    Args:
        alignment: of U tokens.
        frame_s: seconds from one frame to the next.
        first_middle_s: the second that the first frame is about.
        duration_s: of the recording.
        quiet: see `quiet_steps`.

    Returns:
        (U,) and (U,) seconds.
    """
    first = np.minimum(alignment.starts * frame_s + first_middle_s, duration_s)
    last = np.minimum((alignment.ends - 1) * frame_s + first_middle_s, duration_s)
    starts, ends = np.maximum(first - LONGEST_LEAD_S, 0.0), np.minimum(last + LONGEST_TAIL_S, duration_s)
    boundaries = last[:-1] + BOUNDARY_SHARE * (first[1:] - last[:-1])
    starts[1:], ends[:-1] = np.maximum(starts[1:], boundaries), np.minimum(ends[:-1], boundaries)
    # the first and the last pause between two tokens, before the first token, and after the last one
    begins, stops = _pauses(quiet)
    first_pauses = np.searchsorted(begins, np.concatenate([[-1.0], last]), side="right")  # (U + 1,)
    last_pauses = np.searchsorted(stops, np.concatenate([first, [duration_s]]), side="right") - 1
    for gap in np.flatnonzero(first_pauses <= last_pauses):
        if gap > 0:
            ends[gap - 1] = begins[first_pauses[gap]]
        if gap < len(first):
            starts[gap] = stops[last_pauses[gap]]
    return starts, ends


def quiet_steps(waveform: Waveform) -> Bools:
    """Return which steps of 10 ms are far quieter than the loudest step nearby.

    Args:
        waveform: (S,) int16 at 16 kHz.
    """
    size = round(STEP_S * SAMPLE_RATE_HZ)
    steps = waveform[: len(waveform) // size * size].reshape(-1, size)
    energy_db = 10 * np.log10(np.square(steps, dtype=np.float32).mean(axis=1) + 1.0)
    import scipy.ndimage

    loudest_db = scipy.ndimage.maximum_filter1d(energy_db, 2 * round(NEAR_S / STEP_S) + 1, mode="nearest")
    quiet: Bools = energy_db < loudest_db - QUIET_DB
    return quiet


def _pauses(quiet: Bools) -> tuple[Seconds, Seconds]:
    """Return when each stretch of quiet that is long enough for a pause begins and ends."""
    begins, stops = np.array(stretches(quiet), np.float64).reshape(-1, 2).T * STEP_S
    long = stops - begins >= SHORTEST_PAUSE_S
    return begins[long], stops[long]
