"""Aligns a recording of any length with its text: finds when each token is said.

recognizer = Recognizer.load("runs/demo")
aligned = align_recording(recognizer, read_audio("a.wav"), [("ni3", "你"), ("hao3", "好")], "a.wav")
for word in aligned.words:
    print(word.start_s, word.end_s, word.text)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asr.audio.recording import SAMPLE_RATE_HZ, Waveform
from asr.base.errors import UserError
from asr.base.vocabulary import BLANK_ID
from asr.base.work import OnProgress, Work, ignore_progress
from asr.ctc.forced_alignment import align_tokens
from asr.transcription.alignment.fit import misfits
from asr.transcription.alignment.intervals import quiet_steps, token_intervals
from asr.transcription.recognizer import Recognizer
from asr.transcription.streaming.stream_logits import StreamingRunner
from asr.transcription.transcript import Token, Word

WINDOW_S = 30.0
MIN_AMPLITUDE = 32  # below this peak a recording is silent: 60 dB below full scale


@dataclass(frozen=True)
class AlignedRecording:
    """When each token of a recording's text is said.

    Attributes:
        words: each token in order, with the text that was written for it.
        duration_s: of the recording.
        misfits: descriptions of the places where text and recording differ; empty if they agree.
    """

    words: Sequence[Word]
    duration_s: float
    misfits: Sequence[str]


def align_recording(
    recognizer: Recognizer,
    waveform: Waveform,
    written: Sequence[tuple[str, str]],
    name: str,
    on_progress: OnProgress = ignore_progress,
) -> AlignedRecording:
    """Align a recording with its text.

    Args:
        recognizer: provides the acoustic model; nothing is decoded.
        waveform: (S,) int16 at 16 kHz.
        written: each token of the text, and how it was written; an empty string if no text was given.
        name: of the recording, for error messages.
        on_progress: receives how much of the recording has been processed.

    Raises:
        UserError: the recording is silent or too short for the tokens, or a token is unknown to the model.
    """
    if np.abs(waveform.astype(np.int32)).max() < MIN_AMPLITUDE:
        raise UserError(f"{name}: the recording is silent; check the microphone, or choose another recording")
    ids = recognizer.vocabulary.encode([token for token, _ in written])
    columns = [BLANK_ID, *sorted(set(ids))]  # the other outputs are not needed
    frame_s, duration_s = recognizer.runner.model.frame_s, len(waveform) / SAMPLE_RATE_HZ
    log_probs = log_probs_of_tokens(recognizer, waveform, columns, on_progress)
    try:
        alignment = align_tokens(log_probs, np.searchsorted(columns, ids))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    quiet = quiet_steps(waveform)
    first_middle_s = recognizer.runner.model.first_middle_s
    starts, ends = token_intervals(alignment, frame_s, first_middle_s, duration_s, quiet)
    confidences = np.exp(alignment.log_probs)
    words = [
        _word(text, Token(token, float(start), float(end), float(confidence)))
        for (token, text), start, end, confidence in zip(written, starts, ends, confidences, strict=True)
    ]
    return AlignedRecording(words, duration_s, misfits(words, alignment, log_probs[:, 0], frame_s, quiet))


def _word(text: str, token: Token) -> Word:
    bare = text.rstrip()
    return Word(bare, (token,), text[len(bare) :])


def log_probs_of_tokens(
    recognizer: Recognizer,
    waveform: Waveform,
    columns: Sequence[int],
    on_progress: OnProgress = ignore_progress,
) -> npt.NDArray[np.float32]:
    """Return the log posteriors (natural) of the given ids in every frame, in bounded memory.

    The recording is streamed through the model, see `asr.transcription.streaming.stream`: a model that
    normalises features over the clip receives each stretch of speech between two pauses as a clip of its own.

    Args:
        recognizer: provides the acoustic model.
        waveform: (S,) int16 at 16 kHz.
        columns: (C,) ids, which may include the blank.
        on_progress: receives how much of the recording has been processed.

    Returns:
        (T, C)
    """
    stream = StreamingRunner(recognizer.runner, len(recognizer.vocabulary)).stream()
    parts = [np.zeros((0, len(columns)), np.float32)]
    step = round(WINDOW_S * SAMPLE_RATE_HZ)
    begins = range(0, len(waveform), step)
    for done, begin in enumerate(begins, start=1):
        parts += [part[:, columns] for part in stream.feed(waveform[begin : begin + step])]
        on_progress(Work("aligning", done, len(begins), "windows"))
    parts += [part[:, columns] for part in stream.finish()]
    return np.concatenate(parts)
