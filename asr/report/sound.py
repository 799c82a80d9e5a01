"""Places the tokens of hypothesis and reference at their times on a spectrogram.

`templates/cards.html` shows it. The spectrogram is a picture; the tokens on it are HTML, so that they can be
searched, copied and read aloud.
"""

from __future__ import annotations

import base64
import io
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import soundfile

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform, read_audio, refuse_pipe
from asr.base.types import Utterance
from asr.evaluation.errors.metrics import AlignedPair
from asr.pages.charts import round_up
from asr.pages.pictures import png_bytes, spectrogram_picture

MARKS = {"equal": "", "substitution": "S", "deletion": "D", "insertion": "I"}
HEIGHT_PX = 96  # mel bands
MAX_SOUND_S = 20.0  # longer recordings are not embedded, to keep the page small
MAX_COLUMNS = 1200  # of the picture; that of a longer clip is coarser in time, to keep the page small
PIXELS_PER_S = 75.0  # at least: a clip of more than 12 s is wider than the page, and scrolls
NARROW_PX, WIDE_PX = 270.0, 640.0
LANES = 3
LANE_EM = 1.5
CHARACTER_PX, BESIDE_PX = 7.5, 9.0  # width of a token's characters (a hanzi counts as two) and padding
SECONDS_PX = 70.0  # minimal distance between two time marks


@dataclass(frozen=True)
class Flag:
    """A token, its edit, and the time that it points to."""

    token: str
    edit: str
    time_s: float

    @property
    def mark(self) -> str:
        """Return the letter of the edit."""
        return MARKS[self.edit]

    @property
    def width_px(self) -> float:
        """Return the approximate width of the flag on the page."""
        wide = sum(unicodedata.east_asian_width(char) in "WF" for char in self.token)
        return (len(self.token) + wide + len(self.mark)) * CHARACTER_PX + BESIDE_PX


@dataclass(frozen=True)
class Placed:
    """A flag and its lane (0 is nearest to the picture), to the right of its time or to the left."""

    flag: Flag
    lane: int
    left: bool

    @property
    def height_em(self) -> float:
        """Return the distance from the picture to the far side of the lane."""
        return LANE_EM * (self.lane + 1)


@dataclass(frozen=True)
class FlagRow:
    """One row of flags, above or below the picture.

    Attributes:
        kind: "hypothesis" or "said", a class in the stylesheet.
        flags: placed in lanes.
    """

    kind: str
    flags: Sequence[Placed]

    @property
    def height_em(self) -> float:
        """Return the height of all lanes."""
        return max((one.height_em for one in self.flags), default=LANE_EM)


@dataclass(frozen=True)
class SoundFigure:
    """The spectrogram of an utterance, with the hypothesis above it and the reference below.

    Attributes:
        utterance_id: of the utterance.
        duration_s: of the sound.
        width_px: minimal width at which the flags have room.
        png_base64: the spectrogram.
        hypothesis: tokens that were recognized.
        reference: tokens of the label.
        seconds: times to label.
        player: data URL of the sound; empty for a long recording.
    """

    utterance_id: str
    duration_s: float
    width_px: float
    png_base64: str
    hypothesis: FlagRow
    reference: FlagRow
    seconds: Sequence[float]
    player: str

    def left_percent(self, time_s: float) -> float:
        """Return the position of a time, in percent from the left."""
        return 100 * time_s / self.duration_s


def sound_figure(
    utterance: Utterance, pairs: Sequence[AlignedPair], times_s: Sequence[float], *, wide: bool
) -> SoundFigure:
    """Return the spectrogram of an utterance with its tokens.

    Args:
        utterance: whose recording is read.
        pairs: reference and hypothesis, aligned.
        times_s: of each token of the hypothesis.
        wide: whether the figure spans the page, or only half of it.

    Raises:
        UserError: the recording cannot be read.
    """
    refuse_pipe(utterance.audio_path)
    waveform = read_audio(utterance.audio_path)
    duration_s = len(waveform) / SAMPLE_RATE_HZ
    times_s = times_of_pairs(pairs, times_s, duration_s)
    aligned = list(zip(pairs, times_s, strict=True))
    hypothesis = [Flag(pair.hypothesis, pair.edit, at_s) for pair, at_s in aligned if pair.edit != "deletion"]
    reference = [Flag(pair.reference, pair.edit, at_s) for pair, at_s in aligned if pair.edit != "insertion"]
    width_px = fitting_width_px([hypothesis, reference], duration_s, WIDE_PX if wide else NARROW_PX)
    picture = spectrogram_picture(waveform, HEIGHT_PX)
    data = base64.b64encode(png_bytes(picture[:, :: -(-picture.shape[1] // MAX_COLUMNS)])).decode()
    return SoundFigure(
        utterance.id,
        duration_s,
        width_px,
        data,
        FlagRow("hypothesis", in_lanes(hypothesis, duration_s, width_px)),
        FlagRow("said", in_lanes(reference, duration_s, width_px)),
        seconds(duration_s, width_px),
        data_url(waveform) if duration_s <= MAX_SOUND_S else "",
    )


def data_url(waveform: Waveform) -> str:
    """Return a waveform as a data URL: MP3, or WAV where libsndfile writes no MP3."""
    kind = "mp3" if "MP3" in soundfile.available_formats() else "wav"
    file = io.BytesIO()
    soundfile.write(file, waveform, SAMPLE_RATE_HZ, format=kind.upper())
    return f"data:audio/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def times_of_pairs(pairs: Sequence[AlignedPair], times_s: Sequence[float], duration_s: float) -> list[float]:
    """Return the time of each pair; deleted tokens are spread evenly between their recognized neighbours."""
    recognized = iter(times_s)
    known = [None if pair.edit == "deletion" else min(next(recognized), duration_s) for pair in pairs]
    times: list[float] = []
    for index, time_s in enumerate(known):
        if time_s is None:
            before_s = times[-1] if times else 0.0
            rest = known[index:]
            missing = next((n for n, later in enumerate(rest) if later is not None), len(rest))
            after_s = next((later for later in rest if later is not None), duration_s)
            time_s = before_s + (after_s - before_s) / (missing + 1)
        times.append(time_s)
    return times


def fitting_width_px(rows: Sequence[Sequence[Flag]], duration_s: float, least_px: float) -> float:
    """Return a width at which the flags fit into a few lanes; crowded ones get twice the minimal width."""
    least_px = max(least_px, duration_s * PIXELS_PER_S)
    widths = [least_px * (1 + step / 5) for step in range(6)]
    fits = (
        width_px
        for width_px in widths
        if all(placed.lane < LANES for row in rows for placed in in_lanes(row, duration_s, width_px))
    )
    return next(fits, widths[-1])


def in_lanes(row: Sequence[Flag], duration_s: float, width_px: float) -> list[Placed]:
    """Place each flag in the first lane where it covers no other flag."""
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
    """Return the times to label: round, and as close as their labels have room."""
    step_s = round_up(duration_s / max(1.0, width_px / SECONDS_PX))
    count = math.ceil(duration_s / step_s - 0.4)  # none at the very end, where its label has no room
    return [number * step_s for number in range(1, count)]
