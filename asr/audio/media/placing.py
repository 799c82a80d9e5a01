"""Find where in a recording the decoded frames of a container belong."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

GAP_S = 0.1  # less is the rounding of times, or an uneven clock
# by the decoder: samples before the first one where the container states none; of MP3, 529 are the decoder's
# own, 576 LAME's
PRIMING = {"mp3": 1105, "mp3float": 1105, "mp2": 481, "mp2float": 481}
PRIMING_FRAME = {"aac", "aac_latm", "wmav1", "wmav2"}  # a frame, whose window overlaps with nothing before it
DELAYED = {"wmav1", "wmav2"}  # by that frame; the times are those of packets

Samples: TypeAlias = npt.NDArray[Any]


class PlacedSamples(NamedTuple):
    """Samples, (S, channels), that begin at sample `begin` of the recording."""

    begin: int
    samples: Samples


class Placing:
    """The place of the next frame: after the one before it, unless their times leave a gap.

    Attributes:
        position: sample of the recording at which the next frame begins.
        num_silent: samples of all gaps so far.
        is_primed: whether all that comes before the first sample has been left out.
    """

    def __init__(self) -> None:
        self.position = self.num_silent = 0
        self.is_primed = self._begins_section = self._follows_skipped = False
        self._ahead_s = 0.0  # by which samples run ahead of their times, as after a clock was set back

    def begin_section(self, follows_skipped: bool) -> None:
        """Place the next frame where its time says, to the sample."""
        self._begins_section, self._follows_skipped = True, follows_skipped

    def num_priming(self, num_samples: int, codec: str) -> int:
        """Return how many samples of a frame come before the first one of the recording."""
        if self.is_primed:
            return 0
        self.is_primed = True
        return num_samples if codec in PRIMING_FRAME else min(num_samples, PRIMING.get(codec, 0))

    def num_missing(self, at_s: float, rate_hz: int) -> int:
        """Return how many samples of silence come before a frame; negative: how many of its own to drop."""
        target, most = round((at_s + self._ahead_s) * rate_hz), round(GAP_S * rate_hz)
        if self._follows_skipped:
            self.position = max(0, target)
        missing = target - self.position
        if missing < -most:
            self._ahead_s -= missing / rate_hz
            missing = 0
        elif missing <= most and not self._begins_section:
            missing = 0
        self._begins_section = self._follows_skipped = False
        self.num_silent += max(0, missing)
        return missing

    def next_piece(self, samples: Samples) -> PlacedSamples:
        """Return samples as the next piece."""
        self.position += len(samples)
        return PlacedSamples(self.position - len(samples), samples)
