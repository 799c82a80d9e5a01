"""Say when the words of a transcript are spoken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from asr.language.hanzi.converter import Converter
from asr.recognition.alignment.time_formats import TimedToken
from asr.recognition.long_audio import Segment

# A CTC model emits a token within it, but not its end: that is the next token's beginning, or at most this.
MAX_TOKEN_S = 0.4


def timed_tokens(segment: Segment) -> list[TimedToken]:
    """Return the tokens of a segment; each ends where the next begins, or after `MAX_TOKEN_S`."""
    hypothesis = segment.hypothesis
    starts_s = hypothesis.times_s
    follows_s = [*starts_s[1:], segment.end_s]
    confidences = hypothesis.confidences or (1.0,) * len(starts_s)
    return [
        TimedToken(token, start_s, max(start_s, min(start_s + MAX_TOKEN_S, end_s)), confidence, token)
        for token, start_s, end_s, confidence in zip(
            hypothesis.tokens, starts_s, follows_s, confidences, strict=True
        )
    ]


def timed_words(segment: Segment, vocabulary: Vocabulary, converter: Converter | None) -> list[TimedToken]:
    """Return the words of a segment, with their times.

    Args:
        segment: of a recording.
        vocabulary: of its tokens.
        converter: that wrote its text; None if that is the tokens.
    """
    tokens = timed_tokens(segment)
    if converter is not None:
        words = converter.convert(segment.hypothesis.tokens).words
        return [_joined(tokens[word.start : word.end], word.text, "") for word in words]
    spells = WORD_BOUNDARY in vocabulary
    groups = _spelled_words(tokens) if spells else [[token] for token in tokens]
    gap = " " if spells or any(len(token) > 1 for token in vocabulary.tokens[1:]) else ""
    return [_joined(group, "".join(token.token for token in group), gap) for group in groups]


def _spelled_words(tokens: Sequence[TimedToken]) -> Iterator[list[TimedToken]]:
    """Yield the characters of each word."""
    word: list[TimedToken] = []
    for token in tokens:
        if token.token != WORD_BOUNDARY:
            word.append(token)
        elif word:
            yield word
            word = []
    if word:
        yield word


def _joined(tokens: Sequence[TimedToken], text: str, gap: str) -> TimedToken:
    confidence = min(token.confidence for token in tokens)
    return TimedToken(text, tokens[0].start_s, tokens[-1].end_s, confidence, text + gap)
