"""Finds when the words of a transcript are spoken, and formats transcripts with their times.

recognized = recognizer.recognize("lecture.mp3")
print(format_recognized(recognized, recognizer.vocabulary, converter_of(recognizer.decoder), "srt"))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from asr.base.vocabulary import WORD_BOUNDARY, Vocabulary
from asr.language.hanzi.converter import Converter
from asr.transcription.long_audio import Segment
from asr.transcription.recognized import MAX_TOKEN_S, Recognized
from asr.transcription.time_formats import TimedToken, TimeFormat, format_tokens


def format_recognized(
    recognized: Recognized, vocabulary: Vocabulary, converter: Converter | None, format_name: TimeFormat
) -> str:
    """Return the contents of a file of a transcript with its times.

    Subtitles never end inside a word; the other formats have the time of every syllable.

    Args:
        recognized: the transcript of a recording.
        vocabulary: of its tokens.
        converter: that wrote its text; None if that is the tokens.
        format_name: of the file.
    """
    timed = timed_words if format_name in ("srt", "vtt") else timed_units
    tokens = chain.from_iterable(timed(segment, vocabulary, converter) for segment in recognized.segments)
    return format_tokens(list(tokens), recognized.duration_s, format_name, vocabulary.unit)


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


def spoken_span(segment: Segment) -> tuple[float, float]:
    """Return when a segment's first token begins and its last one ends: the times of its subtitles."""
    tokens = timed_tokens(segment)
    return tokens[0].start_s, tokens[-1].end_s


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
        return [_joined(tokens[word.start : word.end], word.text, word.text) for word in words]
    spells = WORD_BOUNDARY in vocabulary
    groups = _spelled_words(tokens) if spells else [[token] for token in tokens]
    gap = " " if spells or vocabulary.is_spaced else ""
    names = (("".join(token.token for token in group), group) for group in groups)
    return [_joined(group, name, name + gap) for name, group in names]


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


def _joined(tokens: Sequence[TimedToken], token: str, text: str) -> TimedToken:
    """Return successive tokens as one, as sure as the least sure of them."""
    confidence = min(one.confidence for one in tokens)
    return TimedToken(token, tokens[0].start_s, tokens[-1].end_s, confidence, text)


def timed_units(segment: Segment, vocabulary: Vocabulary, converter: Converter | None) -> list[TimedToken]:
    """Return the syllables of a segment with the characters they are written with, or its words.

    A word that does not have one character for each of its syllables is one unit. The arguments are those of
    `timed_words`.
    """
    if converter is None:
        return timed_words(segment, vocabulary, None)
    tokens = timed_tokens(segment)
    units = []
    for word in converter.convert(segment.hypothesis.tokens).words:
        spoken = tokens[word.start : word.end]
        if len(word.text) == len(spoken):
            units += [_joined([one], one.token, char) for one, char in zip(spoken, word.text, strict=True)]
        else:
            units.append(_joined(spoken, " ".join(word.syllables), word.text))
    return units
