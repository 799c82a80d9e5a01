"""Transcripts: segments between pauses, their words, and the tokens of each word with times and confidences.

They are complete: what formats, serves or reports one needs neither vocabulary nor hanzi model.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from asr.base.text.pieces import text_of_pieces
from asr.base.text.units import Unit
from asr.base.types import Hypothesis

# A CTC model emits a token within it, but not its end: that is the next token's beginning, or at most this.
MAX_TOKEN_S = 0.4
# mean confidence: at 0.55 of greedy decoding, half of the syllables were wrong in speech of many kinds
# (docs/experiments.md); what a language model has corrected has higher ones
DOUBTFUL = 0.55


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the vocabulary and when it is spoken.

    Attributes:
        text: as in the vocabulary.
        start_s: seconds from the recording's start.
        end_s: at or after `start_s`; at or before the next token's `start_s`.
        confidence: from 0 to 1; None if the decoder gives none.
    """

    text: str
    start_s: float
    end_s: float
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is written, and the tokens that were spoken for it.

    Attributes:
        text: hanzi, letters or digits, with the punctuation of a given text around them.
        tokens: at least one.
        gap: white space before the next word.
    """

    text: str
    tokens: tuple[Token, ...]
    gap: str = ""

    @property
    def start_s(self) -> float:
        """Return when its first token begins."""
        return self.tokens[0].start_s

    @property
    def end_s(self) -> float:
        """Return when its last token ends."""
        return self.tokens[-1].end_s

    @property
    def confidence(self) -> float | None:
        """Return that of the least sure token; None if the decoder gives none."""
        return min((one.confidence for one in self.tokens if one.confidence is not None), default=None)

    @property
    def spoken(self) -> str:
        """Return its tokens as one string: letters and pieces in a row, syllables with spaces."""
        names = [token.text for token in self.tokens]
        return text_of_pieces(names) if self._is_spelled else " ".join(names)

    @property
    def units(self) -> tuple[Word, ...]:
        """Return each token with the character it is written with, if there are as many; else the word."""
        if len(self.tokens) == 1 or len(self.text) != len(self.tokens) or self._is_spelled:
            return (self,)
        pairs = zip(self.text, self.tokens, strict=True)
        return tuple(Word(char, (token,)) for char, token in pairs)

    @property
    def _is_spelled(self) -> bool:
        """Return whether the tokens are letters or pieces; a given text may have capitals and punctuation."""
        return _letters(text_of_pieces(token.text for token in self.tokens)) == _letters(self.text)


class Span(NamedTuple):
    """The tokens that a word is written for: those from index `begin` to before `end`."""

    text: str
    begin: int
    end: int
    gap: str = ""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def joined(words: Sequence[Word | Span]) -> str:
    """Return words as one string."""
    return "".join(word.text + word.gap for word in words).strip()


@dataclass(frozen=True, slots=True)
class Segment:
    """The transcript of a clip, or of the speech between two pauses of a recording.

    Attributes:
        words: in order.
        start_s: seconds from the recording's start.
        end_s: seconds from the recording's start.
        hypothesis: that the words were written from, with times from the recording's start; its tokens
            include the boundaries between spelled words.
        alternatives: the other hypotheses of the N-best list, best first; empty if only one was requested.
    """

    words: tuple[Word, ...]
    start_s: float
    end_s: float
    hypothesis: Hypothesis
    alternatives: tuple[Segment, ...] = ()

    @classmethod
    def of(
        cls,
        hypothesis: Hypothesis,
        spans: Sequence[Span],
        start_s: float,
        end_s: float,
        alternatives: tuple[Segment, ...] = (),
    ) -> Segment:
        """Return the segment of a hypothesis; each token ends where the next begins, or after `MAX_TOKEN_S`.

        Args:
            hypothesis: with times from the recording's start.
            spans: the words.
            start_s: of the segment.
            end_s: of the segment.
            alternatives: the other hypotheses.
        """
        ends_s = (*hypothesis.times_s[1:], end_s)
        confidences = hypothesis.confidences or itertools.repeat(None, len(ends_s))
        tokens = tuple(
            Token(text, begin_s, max(begin_s, min(begin_s + MAX_TOKEN_S, until_s)), confidence)
            for text, begin_s, until_s, confidence in zip(
                hypothesis.tokens, hypothesis.times_s, ends_s, confidences, strict=False
            )
        )
        words = tuple(Word(text, tokens[begin:end], gap) for text, begin, end, gap in spans)
        return cls(words, start_s, end_s, hypothesis, alternatives)

    @property
    def text(self) -> str:
        """Return the words as one string."""
        return joined(self.words)

    @property
    def units(self) -> tuple[Word, ...]:
        """Return what one can click: each word, or each syllable of one with its character."""
        return tuple(itertools.chain.from_iterable(word.units for word in self.words))

    @property
    def spoken_s(self) -> tuple[float, float]:
        """Return when the first word begins and the last one ends."""
        return self.words[0].start_s, self.words[-1].end_s

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the units of the vocabulary."""
        return self.hypothesis.tokens

    @property
    def times_s(self) -> tuple[float, ...]:
        """Return when each token was first emitted."""
        return self.hypothesis.times_s

    @property
    def score(self) -> float:
        """Return the score of the hypothesis."""
        return self.hypothesis.score

    @property
    def acoustic_score(self) -> float:
        """Return the acoustic score of the hypothesis."""
        return self.hypothesis.acoustic_score

    @property
    def confidences(self) -> tuple[float, ...]:
        """Return the confidence of each token; empty if the decoder gives none."""
        return self.hypothesis.confidences


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of a recording.

    Attributes:
        segments: in order, those without speech left out.
        duration_s: of the recording.
        unit: of its tokens.
        score: natural logarithm, see `asr.base.types.Hypothesis`; the sum of all segments.
    """

    segments: tuple[Segment, ...]
    duration_s: float
    unit: Unit
    score: float

    @classmethod
    def of(cls, segments: Sequence[Segment], duration_s: float, unit: Unit) -> Transcript:
        """Return the transcript of a recording with these segments; those without words count only scores."""
        spoken = tuple(segment for segment in segments if segment.words)
        return cls(spoken, duration_s, unit, sum((segment.score for segment in segments), 0.0))

    @property
    def words(self) -> tuple[Word, ...]:
        """Return the words of all segments."""
        return tuple(itertools.chain.from_iterable(segment.words for segment in self.segments))

    @property
    def units(self) -> tuple[Word, ...]:
        """Return what one can click, see `Segment.units`."""
        return tuple(itertools.chain.from_iterable(segment.units for segment in self.segments))

    @property
    def text(self) -> str:
        """Return the texts of the segments, with spaces between them."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the units of the vocabulary."""
        return tuple(itertools.chain.from_iterable(segment.tokens for segment in self.segments))

    @property
    def times_s(self) -> tuple[float, ...]:
        """Return when each token was first emitted."""
        return tuple(itertools.chain.from_iterable(segment.times_s for segment in self.segments))

    @property
    def confidences(self) -> tuple[float, ...]:
        """Return the confidence of each token; empty if the decoder gives none."""
        return tuple(itertools.chain.from_iterable(segment.confidences for segment in self.segments))

    @property
    def is_doubtful(self) -> bool:
        """Return whether half of the tokens or more are probably wrong: the model knows other speech."""
        confidences = self.confidences
        return bool(confidences) and sum(confidences) / len(confidences) < DOUBTFUL

    @property
    def alternatives(self) -> tuple[Segment, ...]:
        """Return the other hypotheses of a recording with one segment, best first."""
        return self.segments[0].alternatives if len(self.segments) == 1 else ()
