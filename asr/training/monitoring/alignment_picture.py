"""Draw a CTC alignment: how probable each token is in every frame, below the spectrogram.

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
from asr.base.text.wording import counted
from asr.base.vocabulary import BLANK_ID, Vocabulary
from asr.ctc.greedy import collapse
from asr.evaluation.errors.metrics import AlignedPair, align
from asr.pages.pictures import HOP_SAMPLES, Picture, heatmap, spectrogram_picture

PX_PER_S = 200
WIDEST_PX = 3000
NARROWEST_PX = 400  # room for the legend below the picture
SPECTROGRAM_PX, ROW_PX, GAP_PX, LINE_PX = 128, 18, 4, 16
FONT_PX = 12
TICKS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
TICK_GAP_PX = 80

PAPER, INK, FAINT, MARK = (20, 22, 26), (233, 230, 224), (130, 136, 146), (64, 224, 255)
REFERENCE_INK, HYPOTHESIS_INK = (255, 159, 180), (255, 208, 138)


@dataclass(frozen=True)
class PictureRow:
    """A token's probability in every frame.

    Attributes:
        token: of the vocabulary, or of the reference only.
        sign: "" if reference and hypothesis have it; "-" only the reference; "+" only the hypothesis.
        probabilities: (T,)
        frame: in which it was recognized; -1 if it was not.
    """

    token: str
    sign: str
    probabilities: npt.NDArray[np.float32]
    frame: int = -1


@dataclass(frozen=True)
class Alignment:
    """The posteriors and the alignment of one utterance.

    Attributes:
        pairs: reference and hypothesis side by side.
        rows: their tokens in this order.
        blank: (T,) probabilities of the blank.
        blank_share: share of the frames in which the blank is most probable.
        frame_s: seconds from one frame to the next.
    """

    pairs: Sequence[AlignedPair]
    rows: Sequence[PictureRow]
    blank: npt.NDArray[np.float32]
    blank_share: float
    frame_s: float

    @property
    def num_errors(self) -> int:
        """Return the number of tokens that differ."""
        return sum(pair.edit != "equal" for pair in self.pairs)


def alignment_of(
    probabilities: npt.NDArray[np.float32],
    reference: Sequence[str],
    vocabulary: Vocabulary,
    frame_s: float,
) -> Alignment:
    """Return the greedy alignment of an utterance.

    Args:
        probabilities: (T, V), at least one frame; NaN counts as 0.
        reference: tokens, some of which may not be in the vocabulary.
        vocabulary: of the V outputs.
        frame_s: seconds from one frame to the next.
    """
    probabilities = np.nan_to_num(probabilities)
    frame_ids = probabilities.argmax(axis=1)  # (T,)
    ids, frames = collapse(frame_ids)
    pairs = align(reference, vocabulary.decode(ids.tolist()))
    hypothesis_frames = iter(frames.tolist())

    def row(token: str, sign: str, frame: int = -1) -> PictureRow:
        known = vocabulary.encode_known([token])
        return PictureRow(token, sign, probabilities[:, known].sum(axis=1), frame)

    rows: list[PictureRow] = []
    for pair in pairs:
        if pair.edit == "equal":
            rows.append(row(pair.reference, "", next(hypothesis_frames)))
            continue
        if pair.reference:
            rows.append(row(pair.reference, "-"))
        if pair.hypothesis:
            rows.append(row(pair.hypothesis, "+", next(hypothesis_frames)))
    blank_share = float(np.mean(frame_ids == BLANK_ID))
    return Alignment(pairs, rows, probabilities[:, BLANK_ID], blank_share, frame_s)


def alignment_picture(waveform: Waveform, alignment: Alignment, title: str = "") -> Picture:
    """Draw the spectrogram, below it a row for each token and one for the blank, and a time axis.

    Args:
        waveform: (S,) int16 samples at 16 kHz.
        alignment: of the same utterance.
        title: ASCII text before the number of errors.
    """
    return _Drawing(waveform, alignment).picture(title)


def labels_of_tokens(tokens: Sequence[str]) -> list[str]:
    """Return tokens as the built-in font can draw them: each itself, or else its pinyin, or its number."""
    labels = []
    for number, token in enumerate(tokens, start=1):
        pinyin = "".join(lazy_pinyin(token, style=Style.TONE3, neutral_tone_with_five=True))
        choices = (token, pinyin, f"#{number}")
        labels.append(next(choice for choice in choices if choice.isascii() and choice.isprintable()))
    return labels


class _Drawing:
    """The layout of one picture; x is 0 where the clip begins, to the right of the labels."""

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
        self._draw_legend(title)
        return np.asarray(image)

    def _spectrogram(self) -> Picture:
        """Return the spectrogram stretched to the frames' width; it is dark beyond the clip's end."""
        columns = spectrogram_picture(self.waveform, SPECTROGRAM_PX)
        px_s = self.alignment.frame_s / self.frame_px
        indices = ((np.arange(self.width) + 0.5) * px_s * SAMPLE_RATE_HZ / HOP_SAMPLES).astype(int)
        dark: Picture = np.broadcast_to(np.array(PAPER, np.uint8), (SPECTROGRAM_PX, self.width, 3)).copy()
        inside = indices < columns.shape[1]
        dark[:, inside] = columns[:, indices[inside]]
        return dark

    def _heat(self, values: npt.NDArray[np.float32]) -> Picture:
        picture = heatmap(values, ROW_PX, self.width).copy()
        picture[ROW_PX - 1 :: ROW_PX] = PAPER  # a gap between rows
        return picture

    def _draw_labels(self) -> None:
        colours = [
            {"": INK, "-": REFERENCE_INK, "+": HYPOTHESIS_INK}[row.sign] for row in self.alignment.rows
        ]
        tops = [self.rows_top + ROW_PX * index for index in range(len(colours))]
        for label, colour, top in zip(self.labels, [*colours, FAINT], [*tops, self.blank_top], strict=True):
            self._text(self.margin - 8, top + ROW_PX // 2, label, colour, "rm")

    def _draw_marks(self) -> None:
        """Draw a box where each token is recognized, and a tick at the bottom of the spectrogram."""
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

    def _draw_legend(self, title: str) -> None:
        """Write the title, the error count and the meaning of the marks on the two lines at the bottom."""
        num_tokens = sum(bool(pair.reference) for pair in self.alignment.pairs)
        facts = [
            title,
            f"{counted(self.alignment.num_errors, 'error')} in {num_tokens}",
            f"blank in {self.alignment.blank_share:.0%} of the frames",
        ]
        line = self.axis_top + GAP_PX + LINE_PX + LINE_PX // 2
        self._text(8, line, "   ".join(fact for fact in facts if fact), INK, "lm")
        x = 8.0
        for words, colour in (
            ("box: recognized here", MARK),
            ("- only reference", REFERENCE_INK),
            ("+ only hypothesis", HYPOTHESIS_INK),
        ):
            self._text(x, line + LINE_PX, words, colour, "lm")
            x += self.font.getlength(words) + 16

    def _text(self, x: float, y: float, words: str, colour: tuple[int, int, int], anchor: str) -> None:
        self.draw.text((x, y), words, fill=colour, font=self.font, anchor=anchor)
