"""Writes tokens as words: as they are, in hanzi, or in hanzi with numbers in digits."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr.base.text.hanzi_text import is_hanzi
from asr.base.text.mixed import is_latin, mixed_words
from asr.base.types import Hypothesis
from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from asr.transcription.transcript import Segment, Span, joined

if TYPE_CHECKING:
    from asr.language.hanzi.converter import Converter


@dataclass(frozen=True)
class TextWriter:
    """A writer of the hypotheses of a search.

    Attributes:
        vocabulary: of their tokens.
        converter: of syllables to hanzi, by which numbers become digits if it does that; None to write the
            tokens.
    """

    vocabulary: Vocabulary
    converter: Converter | None = None

    @property
    def without_itn(self) -> TextWriter:
        """Return the writer that writes numbers as they are spoken."""
        return self if self.converter is None else TextWriter(self.vocabulary, self.converter.without_itn)

    def text(self, tokens: Sequence[str]) -> str:
        """Return tokens as readable text."""
        return joined(self.spans(tokens))

    def spans(self, tokens: Sequence[str]) -> list[Span]:
        """Return the words that tokens are written as."""
        if self.vocabulary.unit == "mixed":
            return _of_mixed(tokens, self.converter)
        if self.converter is not None:
            return [Span(word.text, word.start, word.end) for word in self.converter.convert(tokens).words]
        if self.vocabulary.unit == "pieces":
            return _of_pieces(tokens)
        if WORD_BOUNDARY in self.vocabulary:
            return _spelled(tokens)
        gap = " " if self.vocabulary.is_spaced else ""
        return [Span(token, index, index + 1, gap) for index, token in enumerate(tokens)]

    def segment(self, hypotheses: Sequence[Hypothesis], start_s: float, end_s: float) -> Segment:
        """Return the transcript of a clip, or of a part of a recording.

        Args:
            hypotheses: best first, with times from the start of the clip.
            start_s: of the clip, in seconds from the recording's start.
            end_s: of the clip.
        """
        best, *others = (
            dataclasses.replace(one, times_s=tuple(round(time_s + start_s, 3) for time_s in one.times_s))
            for one in hypotheses
        )
        alternatives = [Segment.of(other, self.spans(other.tokens), start_s, end_s) for other in others]
        return Segment.of(best, self.spans(best.tokens), start_s, end_s, tuple(alternatives))


def _of_mixed(tokens: Sequence[str], converter: Converter | None) -> list[Span]:
    """Return the words of syllables and Latin words; in hanzi, there are spaces between Latin words only."""
    said = mixed_words(tokens)
    if converter is None:
        return [Span(word.text, word.begin, word.end, " ") for word in said]
    words = converter.convert([word.name for word in said]).words
    spans = [Span(word.text, said[word.start].begin, said[word.end - 1].end) for word in words]
    return [
        span._replace(gap=" " if is_latin(span.text[-1]) and is_latin(following.text[0]) else "")
        for span, following in itertools.pairwise([*spans, Span(" ", 0, 0)])
    ]


def _of_pieces(tokens: Sequence[str]) -> list[Span]:
    """Return the words of pieces. As hanzi are written without spaces, a piece of hanzi is a word."""
    spans: list[Span] = []
    gap = ""  # before the next word
    for index, token in enumerate(tokens):
        text = token.replace(WORD_BOUNDARY, "")
        gap += " " * token.count(WORD_BOUNDARY)
        if not text:
            continue
        if spans and not gap and not any(map(is_hanzi, (spans[-1].text[-1], text[0]))):
            last = spans.pop()
            spans.append(Span(last.text + text, last.begin, index + 1, last.gap))
        else:
            if spans:
                spans[-1] = spans[-1]._replace(gap=gap)
            spans.append(Span(text, index, index + 1, "" if is_hanzi(text[-1]) else " "))
        gap = ""
    return spans


def _spelled(tokens: Sequence[str]) -> list[Span]:
    """Return the words of characters with boundaries between them."""
    spans, index = [], 0
    for is_boundary, group in itertools.groupby(tokens, lambda token: token == WORD_BOUNDARY):
        letters = list(group)
        if not is_boundary:
            spans.append(Span("".join(letters), index, index + len(letters), " "))
        elif spans:
            spans[-1] = spans[-1]._replace(gap=" " * len(letters))
        index += len(letters)
    return spans
