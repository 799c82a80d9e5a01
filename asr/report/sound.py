"""What was recognized, and what was said, at its time on the picture of the sound.

`templates/cards.html` shows it. The spectrogram is a picture; the tokens on it are HTML, so that they can be
searched, copied and read aloud.
"""

from __future__ import annotations

import base64
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, refuse_pipe
from asr.base.types import Utterance
from asr.evaluation.metrics import AlignedPair
from asr.pages.charts import round_up
from asr.pages.pictures import png_bytes, spectrogram_picture

MARKS = {"equal": "", "substitution": "S", "deletion": "D", "insertion": "I"}
HEIGHT_PX = 96  # mel bands
MOST_COLUMNS = 1200  # of the picture; a longer clip's is coarser in time, so that the page stays small
PIXELS_PER_S = 75.0  # at least: a clip of more than 12 s is wider than the page, and scrolls
NARROW_PX, WIDE_PX = 270.0, 640.0
LANES = 3
LANE_EM = 1.5
CHARACTER_PX, BESIDE_PX = 7.5, 9.0  # of a token as it is shown: a hanzi takes two characters
SECONDS_PX = 70.0  # between two marks of the time


@dataclass(frozen=True)
class Flag:
    """A token at its time; `time_s` is where it points to."""

    token: str
    edit: str
    time_s: float

    @property
    def mark(self) -> str:
        """The letter of its edit."""
        return MARKS[self.edit]

    @property
    def width_px(self) -> float:
        """About as wide as it is drawn."""
        wide = sum(unicodedata.east_asian_width(char) in "WF" for char in self.token)
        return (len(self.token) + wide + len(self.mark)) * CHARACTER_PX + BESIDE_PX


@dataclass(frozen=True)
class Placed:
    """A flag in its lane, 0 being nearest to the picture, to the right of its time or to the left."""

    flag: Flag
    lane: int
    left: bool

    @property
    def height_em(self) -> float:
        """From the picture to the far side of its lane."""
        return LANE_EM * (self.lane + 1)


@dataclass(frozen=True)
class FlagRow:
    """One row of flags, above or below the picture.

    Attributes:
        kind: "heard" or "said".
        flags: in their lanes.
    """

    kind: str
    flags: Sequence[Placed]

    @property
    def height_em(self) -> float:
        """Of all its lanes."""
        return max((one.height_em for one in self.flags), default=LANE_EM)


@dataclass(frozen=True)
class SoundFigure:
    """The spectrogram, what was recognized above it and what was said below.

    Attributes:
        utterance_id: whose sound it is.
        duration_s: of the sound.
        width_px: at least, so that the flags have room.
        png_base64: the spectrogram.
        heard: the tokens that were recognized.
        said: those of the reference.
        seconds: times to be named.
    """

    utterance_id: str
    duration_s: float
    width_px: float
    png_base64: str
    heard: FlagRow
    said: FlagRow
    seconds: Sequence[float]

    def left_percent(self, time_s: float) -> float:
        """Return where a moment is, from the left."""
        return 100 * time_s / self.duration_s


def sound_figure(
    utterance: Utterance, pairs: Sequence[AlignedPair], times_s: Sequence[float], *, wide: bool
) -> SoundFigure:
    """Return the picture of an utterance's sound with its tokens.

    Args:
        utterance: whose recording is read.
        pairs: its reference beside what was recognized.
        times_s: of each token that was recognized.
        wide: whether it may fill the page, or only a half of it.

    Raises:
        UserError: the recording cannot be read.
    """
    refuse_pipe(utterance.audio_path)
    waveform = read_audio(utterance.audio_path)
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    times_s = times_of_pairs(pairs, times_s, duration_s)
    aligned = list(zip(pairs, times_s, strict=True))
    heard = [Flag(pair.hypothesis, pair.edit, at_s) for pair, at_s in aligned if pair.edit != "deletion"]
    said = [Flag(pair.reference, pair.edit, at_s) for pair, at_s in aligned if pair.edit != "insertion"]
    width_px = fitting_width_px([heard, said], duration_s, WIDE_PX if wide else NARROW_PX)
    picture = spectrogram_picture(waveform, HEIGHT_PX)
    data = base64.b64encode(png_bytes(picture[:, :: -(-picture.shape[1] // MOST_COLUMNS)])).decode()
    return SoundFigure(
        utterance.id,
        duration_s,
        width_px,
        data,
        FlagRow("heard", in_lanes(heard, duration_s, width_px)),
        FlagRow("said", in_lanes(said, duration_s, width_px)),
        seconds(duration_s, width_px),
    )


def times_of_pairs(pairs: Sequence[AlignedPair], times_s: Sequence[float], duration_s: float) -> list[float]:
    """When each pair is; what was not heard is spread evenly between its neighbours that were."""
    heard = iter(times_s)
    known = [None if pair.edit == "deletion" else min(next(heard), duration_s) for pair in pairs]
    times: list[float] = []
    for place, time_s in enumerate(known):
        if time_s is None:
            before_s = times[-1] if times else 0.0
            rest = known[place:]
            missing = next((n for n, later in enumerate(rest) if later is not None), len(rest))
            after_s = next((later for later in rest if later is not None), duration_s)
            time_s = before_s + (after_s - before_s) / (missing + 1)
        times.append(time_s)
    return times


def fitting_width_px(rows: Sequence[Sequence[Flag]], duration_s: float, least_px: float) -> float:
    """A width at which a few lanes hold the flags; where they crowd, twice the least and more lanes."""
    least_px = max(least_px, duration_s * PIXELS_PER_S)
    widths = [least_px * (1 + step / 5) for step in range(6)]
    fits = (
        width_px
        for width_px in widths
        if all(placed.lane < LANES for row in rows for placed in in_lanes(row, duration_s, width_px))
    )
    return next(fits, widths[-1])


def in_lanes(row: Sequence[Flag], duration_s: float, width_px: float) -> list[Placed]:
    """Each flag in the first lane where it covers no other one."""
    lanes: list[list[tuple[float, float]]] = []
    placed = []
    for flag in row:
        x = flag.time_s / duration_s * width_px
        left = x + flag.width_px > width_px
        begin, end = (x - flag.width_px, x) if left else (x, x + flag.width_px)
        free = (
            number
            for number, taken in enumerate(lanes)
            if all(end <= other_begin or begin >= other_end for other_begin, other_end in taken)
        )
        lane = next(free, len(lanes))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((begin, end))
        placed.append(Placed(flag, lane, left))
    return placed


def seconds(duration_s: float, width_px: float) -> list[float]:
    """Return the times to be named: round, and as close as their names have room."""
    step_s = round_up(duration_s / max(1.0, width_px / SECONDS_PX))
    count = math.ceil(duration_s / step_s - 0.4)  # none at the very end, where its name has no room
    return [number * step_s for number in range(1, count)]
