"""Make transcripts without a model."""

from asr.base.types import Hypothesis
from asr.transcription.transcript import Segment, Span, Transcript


def segment_of(
    tokens,
    text="",
    *,
    times_s=None,
    score=0.0,
    acoustic_score=0.0,
    confidences=(),
    end_s=10.0,
    alternatives=(),
):
    """Return a segment from 0 s on whose text is one word."""
    times_s = tuple(0.3 * index for index in range(len(tokens))) if times_s is None else times_s
    hypothesis = Hypothesis(tuple(tokens), times_s, score, acoustic_score, confidences)
    spans = [Span(text, 0, len(tokens))] if text else []
    return Segment.of(hypothesis, spans, 0.0, end_s)


def transcript_of(tokens, text="", **fields):
    """Return the transcript of a clip that is one segment."""
    segment = segment_of(tokens, text, **fields)
    return Transcript.of([segment], segment.end_s, "syllables")


def streamed(stream, waveform, num_samples):
    """Feed a waveform in parts, and return all segments of the stream and its updates."""
    updates = [
        stream.feed(waveform[begin : begin + num_samples]) for begin in range(0, len(waveform), num_samples)
    ]
    ended = [segment for update in updates for segment in update.segments]
    return [*ended, *stream.finish()], updates


def tokens_of(segments):
    """Return the tokens of segments in a row."""
    return tuple(token for segment in segments for token in segment.tokens)
