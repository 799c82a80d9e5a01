"""Transcribe waveforms as whole clips, as a server and `transcribe_files` do with what they have opened."""

import functools

from asr.transcription.clips import ClipRecognizer


@functools.lru_cache(maxsize=4)  # compiled once for each recognizer
def _clips_of(recognizer):
    return ClipRecognizer(recognizer.runner, recognizer.decoder)


def clip_segments(recognizer, waveforms):
    """Return the segment of each waveform."""
    return _clips_of(recognizer).segments(waveforms)
