"""A picture of a CTC alignment: how probable each token is in every frame, under the spectrogram.

picture = alignment_picture(waveform, alignment_of(probabilities, reference, vocabulary, frame_s))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from pypinyin import Style, lazy_pinyin

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.evaluation.metrics import AlignedPair, align
from asr.pages.pictures import HOP_SAMPLES, Picture, heat_picture, spectrogram_picture
from asr.recognition.decoding.greedy import collapse

PX_PER_S = 200
WIDEST_PX = 3000
NARROWEST_PX = 400  # the words below the picture need as much
SPECTROGRAM_PX, ROW_PX, GAP_PX, LINE_PX = 128, 18, 4, 16
FONT_PX = 12
TICKS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
TICK_GAP_PX = 80

PAPER, INK, FAINT, MARK = (20, 22, 26), (233, 230, 224), (130, 136, 146), (64, 224, 255)
SAID_INK, HEARD_INK = (255, 159, 180), (255, 208, 138)


@dataclass(frozen=True)
class Row:
    """A token in every frame.

    Attributes:
        token: of the vocabulary, or of the reference alone.
        sign: "" where it was said and heard; "-" said, not heard; "+" heard, not said.
        probabilities: (T,)
        frame: in which it was heard; -1 where it was not.
    """

    token: str
    sign: str
    probabilities: npt.NDArray[np.float32]
    frame: int = -1


@dataclass(frozen=True)
class Alignment:
    """What a model makes of one utterance.

    Attributes:
        pairs: reference and hypothesis side by side.
        rows: their tokens in this order.
        blank: (T,) probabilities of no token.
        blank_share: of the frames, where no token is more probable than the blank.
        frame_s: seconds from one frame to the next.
    """

    pairs: Sequence[AlignedPair]
    rows: Sequence[Row]
    blank: npt.NDArray[np.float32]
    blank_share: float
    frame_s: float

    @property
    def num_errors(self) -> int:
        """Tokens that differ."""
        return sum(pair.edit != "equal" for pair in self.pairs)


def alignment_of(
    probabilities: npt.NDArray[np.float32],
    reference: Sequence[str],
    vocabulary: Vocabulary,
    frame_s: float,
) -> Alignment:
    """Greedy alignment of an utterance.

    Args:
        probabilities: (T, V), at least one frame; what is not a number counts as none.
        reference: tokens, of which some may not be in the vocabulary.
        vocabulary: of the V outputs.
        frame_s: seconds from one frame to the next.
    """
    probabilities = np.nan_to_num(probabilities)
    frame_ids = probabilities.argmax(axis=1)  # (T,)
    ids, frames = collapse(frame_ids)
    pairs = align(reference, vocabulary.decode(ids.tolist()))
    heard_in = iter(frames.tolist())

    def row(token: str, sign: str, frame: int = -1) -> Row:
        known = vocabulary.encode_known([token])
        return Row(token, sign, probabilities[:, known].sum(axis=1), frame)

    rows: list[Row] = []
    for pair in pairs:
        if pair.edit == "equal":
            rows.append(row(pair.reference, "", next(heard_in)))
            continue
        if pair.reference:
            rows.append(row(pair.reference, "-"))
        if pair.hypothesis:
            rows.append(row(pair.hypothesis, "+", next(heard_in)))
    blank_share = float(np.mean(frame_ids == BLANK_ID))
    return Alignment(pairs, rows, probabilities[:, BLANK_ID], blank_share, frame_s)


def alignment_picture(waveform: Waveform, alignment: Alignment, title: str = "") -> Picture:
    """The spectrogram, below it a row for each token and one for the blank, and the time.

    Args:
        waveform: (S,) int16 samples at 16 kHz.
        alignment: of the same utterance.
        title: ASCII, put before the number of errors.
    """
    return _Drawing(waveform, alignment).picture(title)


def labels_of_tokens(tokens: Sequence[str]) -> list[str]:
    """Tokens as the built-in font can write them: each itself, or else its pinyin, or else its number."""
    labels = []
    for number, token in enumerate(tokens, start=1):
        pinyin = "".join(lazy_pinyin(token, style=Style.TONE3, neutral_tone_with_five=True))
        choices = (token, pinyin, f"#{number}")
        labels.append(next(choice for choice in choices if choice.isascii() and choice.isprintable()))
    return labels


class _Drawing:
    """One picture in the making; x is 0 where the clip begins, right of the labels."""

    def __init__(self, waveform: Waveform, alignment: Alignment) -> None:
        self.waveform, self.alignment = waveform, alignment
        self.font = ImageFont.load_default(size=FONT_PX)
        num_frames = len(alignment.blank)
        widest = max(1, WIDEST_PX // num_frames)
        self.frame_px = int(np.clip(round(PX_PER_S * alignment.frame_s), 1, widest))
        self.width = num_frames * self.frame_px
        signs = [row.sign for row in alignment.rows]
        tokens = labels_of_tokens([row.token for row in alignment.rows])
        self.labels = [*(sign + token for sign, token in zip(signs, tokens, strict=True)), "blank"]
        self.margin = max(60, int(max(map(self.font.getlength, self.labels))) + 14)
        self.rows_top = SPECTROGRAM_PX + GAP_PX
        self.blank_top = self.rows_top + ROW_PX * len(alignment.rows) + (GAP_PX if alignment.rows else 0)
        self.axis_top = self.blank_top + ROW_PX

    def picture(self, title: str) -> Picture:
        size = (
            max(self.margin + self.width + GAP_PX, NARROWEST_PX),
            self.axis_top + GAP_PX + 3 * LINE_PX + GAP_PX,
        )
        image = Image.new("RGB", size, PAPER)
        self.draw = ImageDraw.Draw(image)
        image.paste(Image.fromarray(self._spectrogram()), (self.margin, 0))
        if self.alignment.rows:
            values = np.stack([row.probabilities for row in self.alignment.rows])
            image.paste(Image.fromarray(self._heat(values)), (self.margin, self.rows_top))
        image.paste(Image.fromarray(self._heat(self.alignment.blank[None])), (self.margin, self.blank_top))
        self._draw_labels()
        self._draw_marks()
        self._draw_time()
        self._draw_words(title)
        return np.asarray(image)

    def _spectrogram(self) -> Picture:
        """At the pace of the frames; dark beyond the clip's end."""
        columns = spectrogram_picture(self.waveform, SPECTROGRAM_PX)
        px_s = self.alignment.frame_s / self.frame_px
        places = ((np.arange(self.width) + 0.5) * px_s * SAMPLE_RATE_HZ / HOP_SAMPLES).astype(int)
        dark: Picture = np.broadcast_to(np.array(PAPER, np.uint8), (SPECTROGRAM_PX, self.width, 3)).copy()
        inside = places < columns.shape[1]
        dark[:, inside] = columns[:, places[inside]]
        return dark

    def _heat(self, values: npt.NDArray[np.float32]) -> Picture:
        picture = heat_picture(values, ROW_PX, self.width).copy()
        picture[ROW_PX - 1 :: ROW_PX] = PAPER  # rows apart
        return picture

    def _draw_labels(self) -> None:
        colours = [{"": INK, "-": SAID_INK, "+": HEARD_INK}[row.sign] for row in self.alignment.rows]
        tops = [self.rows_top + ROW_PX * index for index in range(len(colours))]
        for label, colour, top in zip(self.labels, [*colours, FAINT], [*tops, self.blank_top], strict=True):
            self._text(self.margin - 8, top + ROW_PX // 2, label, colour, "rm")

    def _draw_marks(self) -> None:
        """A box where a token is heard, and a line above it across the spectrogram."""
        for index, row in enumerate(self.alignment.rows):
            if row.frame < 0:
                continue
            left, top = self.margin + row.frame * self.frame_px, self.rows_top + ROW_PX * index
            self.draw.rectangle((left, top, left + self.frame_px - 1, top + ROW_PX - 2), outline=MARK)
            middle = left + self.frame_px // 2
            self.draw.line((middle, SPECTROGRAM_PX - 10, middle, SPECTROGRAM_PX - 1), fill=MARK)

    def _draw_time(self) -> None:
        px_per_s = self.frame_px / self.alignment.frame_s
        tick_s = next((s for s in TICKS_S if s * px_per_s >= TICK_GAP_PX), TICKS_S[-1])
        for index in range(int(self.width / px_per_s / tick_s) + 1):
            x = self.margin + round(index * tick_s * px_per_s)
            self.draw.line((x, self.axis_top, x, self.axis_top + GAP_PX), fill=FAINT)
            self._text(x, self.axis_top + GAP_PX + LINE_PX // 2, f"{index * tick_s:g} s", FAINT, "mm")

    def _draw_words(self, title: str) -> None:
        """What is seen, on the two lines at the bottom."""
        said = sum(bool(pair.reference) for pair in self.alignment.pairs)
        errors = self.alignment.num_errors
        facts = [
            title,
            f"{errors} error{'s' * (errors != 1)} in {said}",
            f"blank in {self.alignment.blank_share:.0%} of the frames",
        ]
        line = self.axis_top + GAP_PX + LINE_PX + LINE_PX // 2
        self._text(8, line, "   ".join(fact for fact in facts if fact), INK, "lm")
        x = 8.0
        for words, colour in (
            ("box: heard here", MARK),
            ("- said, not heard", SAID_INK),
            ("+ heard, not said", HEARD_INK),
        ):
            self._text(x, line + LINE_PX, words, colour, "lm")
            x += self.font.getlength(words) + 16

    def _text(self, x: float, y: float, words: str, colour: tuple[int, int, int], anchor: str) -> None:
        self.draw.text((x, y), words, fill=colour, font=self.font, anchor=anchor)
